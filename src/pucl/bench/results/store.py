"""Stored results of the paper's benchmark: read, append, merge."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from pucl.bench.results.json_lines import Appender, appending, as_line, cannot_write, only_writer, read_lines
from pucl.bench.results.line import ResultLine, same_numbers
from pucl.bench.results.upgrade import in_todays_form
from pucl.files import replace_file

BEGIN = b'{"key"'  # of every line


@dataclass(frozen=True)
class Merged:
    """The outcome of a merge: the lines that are kept, how many were dropped, and keys of lines that disagree."""

    lines: list[ResultLine]
    dropped: int
    conflicts: list[str]


def read_results(path: Path, *, missing_ok: bool = False, argument: str = "--results") -> list[ResultLine]:
    """All lines of a file in its order. Half a last line, of a run that was killed, is left out; others are errors."""
    return read_lines(path, _line, begin=BEGIN, missing_ok=missing_ok, argument=argument)


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
        replace_file(path.resolve(), b"".join(as_line(line.to_dict()) for line in lines))
    except OSError as error:
        raise cannot_write(path, error) from None


class Writer:
    """Appends results, each in one piece and on the disk when `add` returns; `lines` were there before."""

    def __init__(self, file: Appender, lines: list[ResultLine]) -> None:
        self.file, self.lines, self.latest = file, lines, newest(lines)

    def add(self, line: ResultLine) -> None:
        """Append one line, which counts from now on: its time is after that of the line before, whatever the clock."""
        before = self.latest.get(line.key)
        if before is not None and line.time <= before.time:
            line = replace(line, time=_just_after(before.time))
        self.latest[line.key] = line
        self.file.append(line.to_dict())


def _just_after(time: str) -> str:
    """A millisecond later; a time that is none stays as it is."""
    with contextlib.suppress(ValueError):
        return (datetime.fromisoformat(time) + timedelta(milliseconds=1)).isoformat(timespec="milliseconds")
    return time


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """A writer that locks the file against other processes; half a result at its end is cut off first.

    A file that stays empty is deleted.
    """
    with only_writer(path):
        lines = read_results(path, missing_ok=True)
        with appending(path, begin=BEGIN) as file:
            yield Writer(file, lines)


def _line(content: object) -> ResultLine:
    return ResultLine.from_dict(in_todays_form(content) if isinstance(content, dict) else content)
