"""Stored results: a file of JSON lines. Read, append, merge; a run that is killed leaves at most half a last line."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.bench.cells import Config, canonical, key_of
from pucl.errors import Described, InputError, RunError, bad_argument
from pucl.files import replace_file

OWNER = "pucl bench"
NEEDED = ("key", "config", "metrics", "seconds", "time", "code", "commit", "hardware", "versions")


@dataclass(frozen=True)
class Merged:
    """What came of a merge: the lines that are left, how many were dropped, and names of keys that disagree."""

    lines: list[Config]
    dropped: int
    conflicts: list[str]


def read_results(path: Path, *, missing_ok: bool = False) -> list[Config]:
    """All lines of a file in its order. Half a last line, of a run that was killed, is left out; others are errors."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if missing_ok:
            return []
        raise bad_argument(OWNER, "--results", "a file that exists", str(path)) from None
    except OSError as error:
        raise InputError(f"{OWNER}: {path} cannot be read: {error.strerror or error}") from None
    found, rows = [], data.split(b"\n")
    last = max((number for number, row in enumerate(rows) if row.strip()), default=-1)
    for number, row in enumerate(rows):
        if not row.strip():
            continue
        try:
            line = json.loads(row)
        except ValueError:
            if number == last:
                break
            raise _not_a_result(path, number, "not JSON") from None
        found.append(_checked(path, number, line))
    return found


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
    """Replace the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"".join(_bytes(line) for line in lines))


class Writer:
    """Appends lines, each in one piece and on the disk when `add` returns."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def add(self, line: Mapping[str, Any]) -> None:
        """Append one line."""
        left = _bytes(line)
        while left:
            left = left[os.write(self.handle, left) :]
        os.fsync(self.handle)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """While this lasts nobody else writes to the file; half a last line is cut off first."""
    with only_writer(path) as handle:
        _mend(path, handle)
        yield Writer(handle)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[int]:
    """The file, opened to append to; a second process that wants it is refused. A killed process lets go at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise RunError(f"{OWNER}: cannot write to {path}: {error.strerror or error}; choose another file") from None
    try:
        with contextlib.suppress(ImportError):  # Windows has no such lock
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                busy = f"{OWNER}: another process is writing to {path}; wait for it or use another file"
                raise RunError(busy) from None
        yield handle
    finally:
        os.close(handle)


def _mend(path: Path, handle: int) -> None:
    """Cut half a last line off, or end a whole one."""
    data = path.read_bytes()
    start = data.rstrip(b"\n").rfind(b"\n") + 1
    rest = data[start:]
    if not rest.strip():
        return
    try:
        json.loads(rest)
    except ValueError:
        os.ftruncate(handle, start)
        return
    if not data.endswith(b"\n"):
        os.write(handle, b"\n")


def _bytes(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _checked(path: Path, number: int, line: Any) -> Config:
    if not isinstance(line, dict) or any(name not in line for name in NEEDED):
        raise _not_a_result(path, number, "no line of 'pucl bench run'")
    if key_of(line["config"]) != line["key"]:
        raise _not_a_result(path, number, "a configuration that its key does not belong to")
    return line


def _not_a_result(path: Path, number: int, what: str) -> InputError:
    return bad_argument(OWNER, f"{path}, line {number + 1},", "a result of 'pucl bench run'", Described(what))
