"""The folder of a review: its log and its sheets, safe against kills, full discs and several processes at once."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pucl.errors import Described, InputError, RunError, bad_argument, some
from pucl.files import alone_in, is_temporary, replace_file
from pucl.formulas import unmarked
from pucl.models.places import check_folder
from pucl.review.answers import (
    ASKED,
    HEADER,
    LOG,
    SAID,
    WITHDRAWN,
    Line,
    Standing,
    as_csv,
    is_log,
    is_started_log,
    lines_of,
    standing,
    whole_length,
)

OUT = "out"
STARTS = 200  # bytes of a log that tell its form
PATIENCE = 60.0  # seconds to wait for another process that works in the folder
_SHEET = re.compile(r"sheet-(\d{4,9})(?!\d)")


@dataclass(frozen=True)
class Added:
    """How many answers were new, how many had been added before, and the sheets of the new ones."""

    new: int
    known: int
    sheets: tuple[str, ...]


@contextmanager
def working_in(folder: Path, owner: str) -> Iterator[None]:
    """Work in the folder of a review alone; other processes wait."""
    check_place(folder, owner)
    try:
        with alone_in(folder, patience=PATIENCE):
            yield
    except OSError as error:
        raise RunError(f"{owner}: cannot write to {folder}: {error.strerror or error}; nothing was added") from None


def check_place(folder: Path, owner: str) -> None:
    """Refuse a file, and a folder that holds anything but a review."""
    if folder.exists() and not folder.is_dir():
        raise bad_argument(owner, f"{OUT} {folder}", "a folder", Described("a file"))
    if folder.is_dir() and not (folder / LOG).exists():
        other = [path.name for path in folder.iterdir() if not (is_temporary(path) or _SHEET.match(path.name))]
        if other:
            got = Described(f"one with {min(other)} in it")
            raise bad_argument(owner, f"{OUT} {folder}", "new, empty or the folder of a review", got)
    check_folder(owner, OUT, folder)


def log_of(folder: Path, owner: str) -> list[Line]:
    """The lines of the log of a folder; none where there is no log yet."""
    path = folder / LOG
    if not path.is_file():
        return []
    try:
        with path.open("rb") as file:
            start = file.read(STARTS)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=owner) from None
    _check_form(path, start, owner)
    return [] if is_started_log(start) else lines_of(path, owner)


def _check_form(path: Path, start: bytes, owner: str) -> None:
    """Refuse a log that another program has saved with other separators or columns: lines that are added get lost."""
    if not (is_log(start) or is_started_log(start)):
        first = start.partition(b"\n")[0].decode(errors="replace").strip()[:60]
        got = Described(f"{first} (did another program save it? Save it as CSV with commas)")
        raise bad_argument(owner, str(path), f"a log that begins with {HEADER.decode()}", got)


def append(folder: Path, lines: Iterable[Line]) -> None:
    """Add lines to the log, all of them or none, and wait until they are on the disc.

    What a cut-off write has left at the end is removed first: half a line would swallow the next one. Only to be called
    inside `working_in`.
    """
    path, new = folder / LOG, list(lines)
    if not new:
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        with open(handle, "rb", closefd=False) as file:
            data = file.read()
        _check_form(path, data[:STARTS], "pucl.review")
        whole = whole_length(data)
        os.ftruncate(handle, whole)
        try:
            _write(handle, as_csv(new, header=whole == 0))
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, whole)
            raise
    finally:
        os.close(handle)


def _write(handle: int, data: bytes) -> None:
    """All bytes: a disc that is nearly full takes a part of them before it says so."""
    while data:
        data = data[os.write(handle, data) :]


def now() -> str:
    """The time of a line."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def next_sheet(folder: Path, lines: Iterable[Line]) -> str:
    """The name of the next sheet: the number after the highest in the log and among the files."""
    names = [line.sheet for line in lines]
    names += [path.name for path in folder.iterdir()] if folder.is_dir() else []
    numbers = [int(found[1]) for name in names if (found := _SHEET.match(name))]
    return f"sheet-{max(numbers, default=0) + 1:04d}"


def write_sheet(folder: Path, name: str, ids: Sequence[str], table: bytes, page: bytes) -> tuple[Path, Path]:
    """Write both forms of a sheet and then, in the log, that its rows were asked; the two files.

    Killed in between, the next sheet asks the same rows again, under another number, and removes what was not finished.
    Only to be called inside `working_in`.
    """
    for left in filter(is_temporary, [*folder.iterdir()]):
        left.unlink(missing_ok=True)
    files = folder / f"{name}.csv", folder / f"{name}.html"
    for path, data in zip(files, (table, page), strict=True):
        replace_file(path, data)
    when = now()
    append(folder, [Line(one, ASKED, when, name) for one in ids])
    return files


def add_files(folder: Path, files: Sequence[Path], owner: str) -> Added:
    """Add the answers of filled sheets to the log; an answer that the log has already had is not added again.

    All files are checked before anything is written: every id must have been asked. Spreadsheets write the ids 007 and
    1e5 as 7 and 100000; such numbers are known again on their sheet.
    """
    log = log_of(folder, owner)
    rows, had = standing(log), {(line.id, line.answer, line.sheet) for line in log}
    asked = _asked_on(log)
    new: list[Line] = []
    known, sheets = 0, []
    for path in files:
        if not path.is_file():
            raise bad_argument(owner, "add", "files of answers that exist", str(path))
        lines = [line for line in lines_of(path, owner) if line.answer in SAID]
        lines = [replace(line, id=_as_asked(line, asked.get(line.sheet, rows))) for line in lines]
        _check_asked(path, lines, rows, folder, owner)
        for line in lines:
            named = line.sheet or rows[line.id].sheet
            key = (line.id, line.answer, named)
            known += key in had
            if key not in had:
                new.append(Line(line.id, line.answer, line.time or now(), named))
                had.add(key)
                sheets.append(named)
    append(folder, new)
    return Added(len(new), known, tuple(dict.fromkeys(sheets)))


def _asked_on(log: Iterable[Line]) -> dict[str, dict[str, None]]:
    """The ids that were asked, by the name of their sheet."""
    asked: dict[str, dict[str, None]] = {}
    for line in log:
        if line.answer == ASKED:
            asked.setdefault(line.sheet, {})[line.id] = None
    return asked


def _as_asked(line: Line, asked: Collection[str]) -> str:
    """The id of a line as it was asked: itself, or the only one on the sheet that is the same number."""
    number = _number(line.id)
    if line.id in asked or number is None:
        return line.id
    same = [one for one in asked if _number(one) == number]
    return same[0] if len(same) == 1 else line.id


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check_asked(path: Path, lines: Sequence[Line], rows: dict[str, Standing], folder: Path, owner: str) -> None:
    odd = [line.id for line in lines if line.id not in rows]
    if odd:
        others = f"{len(odd):,} other{'s' * (len(odd) > 1)}"
        got = Described(f"{others}: {some(odd, 4)} (did a spreadsheet change the ids? The page keeps them)")
        raise bad_argument(owner, f"add {path}", f"answers to rows that stand on the sheets in {folder}", got)


def take_back(folder: Path, names: Sequence[str], owner: str) -> list[str]:
    """Withdraw all that was said of some rows, or of all rows of a sheet; the ids. The log keeps what was said."""
    log = log_of(folder, owner)
    rows = standing(log)
    ids: list[str] = []
    for name in names:
        one = name if name in rows else unmarked(name)  # as it stands in a sheet
        of_sheet = [line.id for line in log if line.sheet == name]
        if one not in rows and not of_sheet:
            got = Described(f"{name!r}")
            raise bad_argument(owner, "take_back", f"ids, or names of sheets, in {folder / LOG}", got)
        ids += [one] if one in rows else of_sheet
    ids = list(dict.fromkeys(ids))
    when = now()
    append(folder, [Line(one, WITHDRAWN, when, "") for one in ids])
    return ids
