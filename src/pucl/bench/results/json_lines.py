"""Files of JSON lines: one writer at a time, lines appended whole; a killed run leaves half a line at most."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pucl.errors import Described, InputError, RunError, bad_argument
from pucl.files import InUseError, lock_file

OWNER = "pucl bench"
T = TypeVar("T")


def read_lines(
    path: Path,
    parse: Callable[[Any], T],
    *,
    begin: bytes,
    missing_ok: bool = False,
    argument: str = "--results",
    verb: str = "run",
) -> list[T]:
    """All lines of a file in its order. Half a last line, of a run that was killed, is left out; others are errors.

    Args:
        path: the file.
        parse: makes a result of the content of a line, or raises a ValueError that says what is wrong with it.
        begin: how every line begins.
        missing_ok: a file that is not there has no lines.
        argument: by which the file was given.
        verb: of ``pucl bench``, which writes such files.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if missing_ok:
            return []
        raise bad_argument(OWNER, argument, "a file that exists", str(path)) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=OWNER) from None
    rows = data[: _end(data, begin)].split(b"\n")
    return [_parsed(path, number, row, parse, verb) for number, row in enumerate(rows) if row.strip()]


def as_line(content: Mapping[str, Any]) -> bytes:
    """One line of a file; numbers that are not finite are an error."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode() + b"\n"


class Appender:
    """Appends lines, each in one piece and on the disk when `append` returns."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self.handle = path, handle

    def append(self, content: Mapping[str, Any]) -> None:
        """Append one line."""
        left = as_line(content)
        try:
            while left:
                left = left[os.write(self.handle, left) :]
            os.fsync(self.handle)
        except OSError as error:
            raise cannot_write(self.path, error) from None


@contextlib.contextmanager
def appending(path: Path, *, begin: bytes) -> Iterator[Appender]:
    """An appender to a file that `only_writer` has locked; half a result at its end is cut off first.

    A file that stays empty is deleted.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        _mend(path, handle, begin)
        yield Appender(path, handle)
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Lock a file for one writer; a second process is refused. The lock of a killed process is free at once."""
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_file(Path(f"{path}.lock")))
        except InUseError:
            busy = f"{OWNER}: another process is writing to {path}; wait for it or use another file"
            raise RunError(busy) from None
        except OSError as error:
            raise cannot_write(path, error) from None
        yield


def cannot_write(path: Path, error: OSError) -> RunError:
    """The error for a file that cannot be written, ready to raise."""
    return RunError(f"{OWNER}: cannot write to {path}: {error.strerror or error}; choose another file")


def _end(data: bytes, begin: bytes) -> int:
    """Where the whole lines end: before a last one that is broken, behind others or as a result begins."""
    last = data.rstrip()
    start = last.rfind(b"\n") + 1
    row = last[start:]
    half = row and not _is_json(row) and (start > 0 or row.startswith(begin) or begin.startswith(row))
    return start if half else len(data)


def _is_json(row: bytes) -> bool:
    try:
        json.loads(row)
    except (ValueError, RecursionError):
        return False
    return True


def _mend(path: Path, handle: int, begin: bytes) -> None:
    """Cut half a last line off, or end a whole one."""
    data = path.read_bytes()
    end = _end(data, begin)
    if end < len(data):
        os.ftruncate(handle, end)
    elif data and not data.endswith(b"\n"):
        os.write(handle, b"\n")


def _parsed(path: Path, number: int, row: bytes, parse: Callable[[Any], T], verb: str) -> T:
    """One line of a file, or an error that says which and what is wrong with it."""
    where, allowed = f"{path}, line {number + 1},", f"a result of 'pucl bench {verb}'"
    try:
        content = json.loads(row, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise bad_argument(OWNER, where, allowed, Described("not JSON")) from None
    try:
        return parse(content)
    except ValueError as error:  # InputError, or said in words of its own
        raise bad_argument(OWNER, where, allowed, Described(str(error))) from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
