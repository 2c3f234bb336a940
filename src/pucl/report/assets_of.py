"""Parts of a page that is one file: its texts out of the package, its head, and a policy against everything else."""

import base64
import hashlib
from importlib.resources import files

from pucl.report.markup import Markup, fill

PACKAGE = "pucl.report"


def asset(name: str, package: str = PACKAGE) -> str:
    """A file of the folder assets/ of a package, as text."""
    return files(package).joinpath("assets", name).read_text(encoding="utf-8")


def has_asset(name: str, package: str = PACKAGE) -> bool:
    """Whether there is such a file."""
    return files(package).joinpath("assets", name).is_file()


def head(title: str, *, style: Markup, script: Markup) -> Markup:
    """The head of a page, from its doctype on: the title, the policy and the style."""
    return fill(asset("head.html"), policy=policy(script, style), title=title, style=style)


def policy(script: str, style: str) -> str:
    """A Content-Security-Policy that forbids every request and runs this page's own script and style alone."""
    own_script, own_style = (_hash(part) for part in (script, style))
    return (
        f"default-src 'none'; script-src '{own_script}'; style-src '{own_style}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
