"""Stored results: a file of JSON lines. Read, append, merge; a killed run leaves at most half a line at the end."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from pucl.bench.results.line import ResultLine, same_numbers
from pucl.bench.results.upgrade import in_todays_form
from pucl.errors import Described, InputError, RunError, bad_argument
from pucl.files import replace_file

OWNER = "pucl bench"
BEGIN = b'{"key"'  # of every line


@dataclass(frozen=True)
class Merged:
    """The outcome of a merge: the lines that are kept, how many were dropped, and keys of lines that disagree."""

    lines: list[ResultLine]
    dropped: int
    conflicts: list[str]


def read_results(path: Path, *, missing_ok: bool = False, argument: str = "--results") -> list[ResultLine]:
    """All lines of a file in its order. Half a last line, of a run that was killed, is left out; others are errors."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if missing_ok:
            return []
        raise bad_argument(OWNER, argument, "a file that exists", str(path)) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=OWNER) from None
    rows = data[: _end(data)].split(b"\n")
    return [_line(path, number, row) for number, row in enumerate(rows) if row.strip()]


def newest(lines: Iterable[ResultLine]) -> dict[str, ResultLine]:
    """The line that counts for every key: the one with the latest time, of equal times the later one."""
    latest: dict[str, ResultLine] = {}
    for line in lines:
        known = latest.get(line.key)
        if known is None or line.time >= known.time:
            latest[line.key] = line
    return latest


def merge(groups: Iterable[list[ResultLine]]) -> Merged:
    """One line a key, the newest, ordered by time; the same whatever the order of the files.

    Lines with the same key and the same revisions that disagree are conflicts: the newest of them is kept too.
    """
    lines = [line for group in groups for line in group]
    lines.sort(key=lambda line: (line.time, line.key, sorted(line.metrics.items())))
    kept = newest(lines)
    conflicts = {
        line.key
        for line in lines
        if line.revisions == kept[line.key].revisions and not same_numbers(line, kept[line.key])
    }
    left = sorted(kept.values(), key=lambda line: (line.time, line.key))
    return Merged(left, len(lines) - len(left), sorted(conflicts))


def write_results(path: Path, lines: Iterable[ResultLine]) -> None:
    """Replace the file, whole or not at all; of a link, the file it points to."""
    try:
        replace_file(path.resolve(), b"".join(_bytes(line) for line in lines))
    except OSError as error:
        raise _cannot_write(path, error) from None


class Writer:
    """Appends lines, each in one piece and on the disk when `add` returns; `lines` were there before."""

    def __init__(self, path: Path, handle: int, lines: list[ResultLine]) -> None:
        self.path, self.handle, self.lines = path, handle, lines

    def add(self, line: ResultLine) -> None:
        """Append one line."""
        left = _bytes(line)
        try:
            while left:
                left = left[os.write(self.handle, left) :]
            os.fsync(self.handle)
        except OSError as error:
            raise _cannot_write(self.path, error) from None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """A writer that locks the file against other processes; half a result at its end is cut off first.

    A file that stays empty is deleted.
    """
    with only_writer(path):
        lines = read_results(path, missing_ok=True)
        handle = _open(path)
        try:
            _mend(path, handle)
            yield Writer(path, handle, lines)
        finally:
            os.close(handle)
            with contextlib.suppress(OSError):
                if path.stat().st_size == 0:
                    path.unlink()


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Lock a file for one writer; a second process is refused. The lock of a killed process is free at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock", timeout=0)
        lock.acquire()
    except Timeout:
        busy = f"{OWNER}: another process is writing to {path}; wait for it or use another file"
        raise RunError(busy) from None
    except OSError as error:
        raise _cannot_write(path, error) from None
    try:
        yield
    finally:
        lock.release()


def _open(path: Path) -> int:
    """The file, opened to append to."""
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> RunError:
    return RunError(f"{OWNER}: cannot write to {path}: {error.strerror or error}; choose another file")


def _end(data: bytes) -> int:
    """Where the whole lines end: before a last one that is broken, behind others or as a result begins."""
    last = data.rstrip()
    start = last.rfind(b"\n") + 1
    row = last[start:]
    half = row and not _is_json(row) and (start > 0 or row.startswith(BEGIN) or BEGIN.startswith(row))
    return start if half else len(data)


def _is_json(row: bytes) -> bool:
    try:
        json.loads(row)
    except ValueError:
        return False
    return True


def _mend(path: Path, handle: int) -> None:
    """Cut half a last line off, or end a whole one."""
    data = path.read_bytes()
    end = _end(data)
    if end < len(data):
        os.ftruncate(handle, end)
    elif data and not data.endswith(b"\n"):
        os.write(handle, b"\n")


def _bytes(line: ResultLine) -> bytes:
    return json.dumps(line.to_dict(), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _line(path: Path, number: int, row: bytes) -> ResultLine:
    """One line of a file, or an error that says which and what is wrong with it."""
    where = f"{path}, line {number + 1},"
    try:
        content = json.loads(row, parse_constant=_refused)
    except ValueError:
        raise bad_argument(OWNER, where, "a result of 'pucl bench run'", Described("not JSON")) from None
    try:
        return ResultLine.from_dict(in_todays_form(content) if isinstance(content, dict) else content)
    except ValueError as error:  # InputError, or said in words of its own
        raise bad_argument(OWNER, where, "a result of 'pucl bench run'", Described(str(error))) from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
