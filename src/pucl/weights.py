"""Packages that some encoders need, and weights that may not be on this machine: one line each."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pucl.errors import InputError, bad_argument, one_line

ON_HUB = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")  # names of models; anything else is meant as a folder
IMPLEMENTATIONS = ("eager", "sdpa", "batched_mm", "grouped_mm")  # of transformers itself; others may be fetched and run
FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # of published networks: neither code nor pickles


def need(module: str, what: str, install: str | None = None) -> Any:
    """An optional package, or one line that says how to get it: by `install`, or by the name of the module.

    `what` needs it, such as ``encoder 'timm:x'``.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except Exception as error:  # packages that do not fit each other fail in other ways than with an ImportError
        absent = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        why = "" if absent == package else f" (it is here but cannot be imported: {one_line(error)})"
        how = install if install and absent in ("", package) else f"pip install {absent or package}"
        raise InputError(f"{what} needs {package}{why}: {how}") from None


def not_here(owner: str, what: str, reason: Exception, *, download: bool = False) -> InputError:
    """The error for weights that are not here and may not be downloaded, or could not be, ready to raise."""
    if download:
        return InputError(f"the weights of {what} could not be downloaded: {one_line(reason)}", owner=owner)
    why = "" if isinstance(reason, FileNotFoundError) else f" ({one_line(reason)})"  # nothing in the cache says enough
    problem = f"the weights of {what} are not on this machine{why}; allow the download with download=True"
    return InputError(problem, owner=owner)


def folder_of(target: str, what: str, *, owner: str, download: bool) -> Path:
    """The folder with a published network: one that the user named, or in the cache of huggingface_hub.

    Args:
        target: a folder, or ORG/NAME on the hub.
        what: is loaded, for errors.
        owner: what the user called.
        download: whether files that are not on this machine may be fetched.
    """
    if Path(target).is_dir():
        return Path(target)
    if not ON_HUB.fullmatch(target):
        raise InputError(f"{what}: there is no folder {target!r}, and it is no ORG/NAME of the hub", owner=owner)
    hub = need("huggingface_hub", what)
    try:
        return Path(hub.snapshot_download(target, allow_patterns=list(FILES), local_files_only=not download))
    except Exception as error:
        raise not_here(owner, what, error, download=download) from None


def check_settings(settings: object, what: str) -> None:
    """Refuse settings of a network by which transformers would fetch code: kernels of the hub."""
    left: list[tuple[str, object]] = [("", settings)]
    while left:
        key, value = left.pop()
        if isinstance(value, dict):
            left += [(key if "implementation" in key else str(name), inner) for name, inner in value.items()]
        elif isinstance(value, list):
            left += [(key, inner) for inner in value]
        elif "implementation" in key and isinstance(value, str) and value not in IMPLEMENTATIONS:
            raise bad_argument(what, key[:200], f"one of {', '.join(IMPLEMENTATIONS)}", value[:200])
