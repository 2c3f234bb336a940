"""Stored results: a file of JSON lines. Read, append, merge; a run that is killed leaves at most half a last line."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pucl.bench.grid.cells import Config, canonical, is_cell, key_of
from pucl.errors import Described, InputError, RunError, bad_argument
from pucl.files import replace_file

OWNER = "pucl bench"
NEEDED: Mapping[str, Any] = MappingProxyType(
    {
        "key": str, "config": dict, "metrics": dict, "seconds": int | float, "time": str, "code": str, "commit": str,
        "hardware": str, "versions": dict,
    }
)  # fmt: skip
BEGIN = b'{"key"'  # of every line


@dataclass(frozen=True)
class Merged:
    """What came of a merge: the lines that are left, how many were dropped, and names of keys that disagree."""

    lines: list[Config]
    dropped: int
    conflicts: list[str]


def read_results(path: Path, *, missing_ok: bool = False, argument: str = "--results") -> list[Config]:
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
    return [_checked(path, number, row) for number, row in enumerate(rows) if row.strip()]


def newest(lines: Iterable[Config]) -> dict[str, Config]:
    """The line that counts for every key: the one with the latest time, of equal times the later one."""
    found: dict[str, Config] = {}
    for line in lines:
        known = found.get(line["key"])
        if known is None or line["time"] >= known["time"]:
            found[line["key"]] = line
    return found


def merge(groups: Iterable[list[Config]]) -> Merged:
    """One line a key, the newest, ordered by time; the same whatever the order of the files.

    Lines with the same key that were made by the same code and disagree are conflicts: the newest of them is kept too.
    """
    lines = [line for group in groups for line in group]
    lines.sort(key=lambda line: (line["time"], line["key"], canonical(line["metrics"])))
    kept = newest(lines)
    conflicts = {
        line["key"]
        for line in lines
        if line["code"] == kept[line["key"]]["code"]
        and canonical(line["metrics"]) != canonical(kept[line["key"]]["metrics"])
    }
    found = sorted(kept.values(), key=lambda line: (line["time"], line["key"]))
    return Merged(found, len(lines) - len(found), sorted(conflicts))


def write_results(path: Path, lines: Iterable[Config]) -> None:
    """Replace the file, whole or not at all; of a link, the file it points to."""
    try:
        replace_file(path.resolve(), b"".join(_bytes(line) for line in lines))
    except OSError as error:
        raise _cannot_write(path, error) from None


class Writer:
    """Appends lines, each in one piece and on the disk when `add` returns; `lines` were there before."""

    def __init__(self, path: Path, handle: int, lines: list[Config]) -> None:
        self.path, self.handle, self.lines = path, handle, lines

    def add(self, line: Mapping[str, Any]) -> None:
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
    """While this lasts nobody else writes to the file; half a last line is cut off first, of results alone."""
    with only_writer(path) as handle:
        lines = read_results(path)
        _mend(path, handle)
        yield Writer(path, handle, lines)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[int]:
    """The file, opened to append to; a second process that wants it is refused. A killed process lets go at once.

    A file that is empty in the end is taken away.
    """
    handle = _open_alone(path)
    try:
        yield handle
    finally:
        with contextlib.suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
        os.close(handle)


def _open_alone(path: Path) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise _cannot_write(path, error) from None
        try:
            _lock(path, handle)
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:  # taken away between opening and locking
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # it was replaced meanwhile: the name belongs to another file now


def _lock(path: Path, handle: int) -> None:
    with contextlib.suppress(ImportError):  # Windows has no such lock
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            busy = f"{OWNER}: another process is writing to {path}; wait for it or use another file"
            raise RunError(busy) from None


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


def _bytes(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _checked(path: Path, number: int, row: bytes) -> Config:
    try:
        line = json.loads(row, parse_constant=_refused)
    except ValueError:
        raise _not_a_result(path, number, "not JSON") from None
    if not isinstance(line, dict) or any(not isinstance(line.get(name), kind) for name, kind in NEEDED.items()):
        raise _not_a_result(path, number, "no line of 'pucl bench run'")
    if not is_cell(line["config"]):
        raise _not_a_result(path, number, "a configuration that is no cell's")
    if key_of(line["config"]) != line["key"]:
        raise _not_a_result(path, number, "a configuration that its key does not belong to")
    if not isinstance(line["metrics"].get("accuracy"), int | float):
        raise _not_a_result(path, number, "metrics without an accuracy")
    return dict(line)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _not_a_result(path: Path, number: int, what: str) -> InputError:
    return bad_argument(OWNER, f"{path}, line {number + 1},", "a result of 'pucl bench run'", Described(what))
