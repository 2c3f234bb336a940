"""Whether something can be written where people ask for it, found out before any work is done."""

import tempfile
from pathlib import Path

from pucl.errors import Described, InputError, bad_argument


def check_file(owner: str, argument: str, path: Path, suffixes: tuple[str, ...] = ()) -> None:
    """`path` ends in one of the suffixes, if any, and a file can be made there; nothing is left behind."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise bad_argument(owner, argument, f"a file that ends in {' or '.join(suffixes)}", str(path))
    if path.is_dir():
        raise bad_argument(owner, f"{argument} {path}", "a file", Described("a folder"))
    check_folder(owner, argument, path.parent)


def check_folder(owner: str, argument: str, folder: Path) -> None:
    """The folder, or the nearest one above it that is there, takes files; nothing is left behind."""
    if (reason := why_not_written(folder)) is not None:
        allowed = "in a place that can be written to"
        raise InputError(f"must be {allowed}; {folder}: {reason}", owner=owner, argument=argument, allowed=allowed)


def why_not_written(folder: Path) -> str | None:
    """Why the folder, or the nearest one above it that is there, takes no files; None if it does."""
    place = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            return None
    except OSError as error:
        return str(error.strerror or error)
