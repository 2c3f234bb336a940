"""Checks, before any work is done, that a file or a folder can be written."""

import tempfile
from pathlib import Path

from pucl.errors import Described, InputError, bad_argument


def check_file(owner: str, argument: str, path: Path, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse a path with another suffix or in a place where no file can be made; leaves nothing behind."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise bad_argument(owner, argument, f"a file that ends in {' or '.join(suffixes)}", str(path))
    if path.is_dir():
        raise bad_argument(owner, f"{argument} {path}", "a file", Described("a folder"))
    check_folder(owner, argument, path.parent)


def check_folder(owner: str, argument: str, folder: Path) -> None:
    """Refuse a folder that cannot be written to, or made; leaves nothing behind."""
    if (reason := why_not_written(folder)) is not None:
        allowed = "in a place that can be written to"
        raise InputError(f"must be {allowed}; {folder}: {reason}", owner=owner, argument=argument, allowed=allowed)


def why_not_written(folder: Path) -> str | None:
    """Why no file can be written to the folder, or to its nearest existing parent; None if one can."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return str(error.strerror or error)
