"""The files of a model folder are exchanged together: a reader finds the old ones or the new ones, whole."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pucl.errors import InputError
from pucl.files import alone_in, is_temporary, replace_file

LAST = "model.json"  # the file that makes a folder a model; it is exchanged last
NEW, READY = ".new", ".ready"  # where a model is written, and what is whole and about to replace another
WAIT = 60.0  # seconds for another process that is saving a model to the same folder
TRIES = 10  # to read a model that other processes replace again and again

T = TypeVar("T")


def current(folder: Path) -> Path:
    """Where the files of a model are that load: in its folder, or beside them until they have been replaced."""
    return folder / READY if (folder / READY / LAST).is_file() else folder


@contextmanager
def exchanging(folder: Path, *, optional: tuple[str, ...]) -> Iterator[Path]:
    """A folder to write a model to; if all goes well, its files replace those of `folder`.

    When the folder gets its final name, it is what loads. Then its files replace the old ones, and it is removed. Of
    several processes one at a time does this.

    Args:
        folder: of the model.
        optional: files that not every model has, of which old ones are removed.
    """
    new = folder / NEW
    with alone_in(folder, patience=WAIT):
        try:
            shutil.rmtree(new, ignore_errors=True)
            yield new
            _settle(folder, optional)  # what an interruption has left
            new.replace(folder / READY)
            _settle(folder, optional)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _settle(folder: Path, optional: tuple[str, ...]) -> None:
    """Put the files of a model that is whole in the place of the old ones."""
    ready = folder / READY
    if (ready / LAST).is_file():
        names = sorted(path.name for path in ready.iterdir() if not is_temporary(path) and path.name != LAST)
        for name in (*names, LAST):
            replace_file(folder / name, (ready / name).read_bytes())
        for name in {*optional} - {*names}:
            (folder / name).unlink(missing_ok=True)
        (ready / LAST).unlink()
    shutil.rmtree(ready, ignore_errors=True)


def read_whole(folder: Path, read: Callable[[], T]) -> T:
    """What `read` makes of the files of one model, read again when they were exchanged meanwhile."""
    for _ in range(TRIES):
        before = _state(folder)
        try:
            found = read()
        except InputError:
            if _state(folder) == before:
                raise
        else:
            if _state(folder) == before:
                return found
    return read()


def _state(folder: Path) -> tuple[Path, str]:
    """Which model a folder holds, and where its files are."""
    where = current(folder)
    with suppress(OSError):
        return where, hashlib.sha256((where / LAST).read_bytes()).hexdigest()
    return where, ""
