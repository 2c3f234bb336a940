"""TOML files of the benchmark: grids, notes and goals."""

import tomllib
from pathlib import Path
from typing import Any

from pucl.errors import Described, InputError, bad_argument


def read_toml(owner: str, argument: str, path: Path) -> dict[str, Any]:
    """The content of a file that was given as some argument, or one clear error."""
    if not path.is_file():
        raise bad_argument(owner, argument, "a TOML file that exists", Described(repr(str(path))))
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{owner}: {path} cannot be read: {' '.join(str(error).split())}") from None
