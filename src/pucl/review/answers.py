"""What reviewers were asked and have answered: a log to which lines are only ever added.

A log is a CSV file with the columns id, answer, time and sheet. What is known of a row follows from its lines in their
order:

    asked       it stands on a sheet, and is not asked again
    positive, negative, skip   what the reviewer said
    withdrawn   nothing that stands above this line counts any more

A row called positive and negative without a ``withdrawn`` in between is a contradiction: it counts as not answered, and
is asked again. The answer to that settles it.
"""

import csv
import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pucl.data.own.label_words import answer_of
from pucl.errors import Described, InputError, RunWarning, bad_argument, some
from pucl.formulas import marked, unmarked

LOG = "answers.csv"
COLUMNS = ("id", "answer", "time", "sheet")
ASKED, POSITIVE, NEGATIVE, SKIP, WITHDRAWN = "asked", "positive", "negative", "skip", "withdrawn"
SAID = (POSITIVE, NEGATIVE, SKIP)
ARGUMENT = "answers"
BOM, HEADER = "\ufeff", ",".join(COLUMNS).encode()
# A line of a log within what should be the start of one: a quote before it was not closed, by whoever edited the file.
_SWALLOWED = re.compile(rb"\n[^\r\n]*,(?:asked|positive|negative|skip|withdrawn),[^\r\n]*\r?\n")


@dataclass(frozen=True)
class Line:
    """A line of a log: what happened to a row, when, and on which sheet."""

    id: str
    answer: str
    time: str = ""
    sheet: str = ""


@dataclass
class Standing:
    """What is known of a row after some lines.

    Attributes:
        said: the answers that count, positive or negative.
        skipped: the reviewer could not tell.
        open: it stands on a sheet and has no answer yet.
        again: it was asked again because its answers contradict each other.
        sheet: the last sheet it stood on or was answered on.
    """

    said: set[str] = field(default_factory=set)
    skipped: bool = False
    open: bool = False
    again: bool = False
    sheet: str = ""

    def after(self, line: Line) -> None:
        """Take another line into account."""
        self.sheet = line.sheet or self.sheet
        if line.answer == WITHDRAWN:
            self.said, self.skipped, self.open, self.again = set(), False, False, False
        elif line.answer == ASKED:
            self.open, self.again = True, self.contradicts
        elif line.answer == SKIP:
            self.skipped, self.open = True, False
        else:
            self.said = {line.answer} if self.again else self.said | {line.answer}
            self.skipped, self.open, self.again = False, False, False

    @property
    def contradicts(self) -> bool:
        """Whether it was called positive and negative."""
        return len(self.said) > 1

    @property
    def answer(self) -> bool | None:
        """True for positive, False for negative; None without an answer, or with two that contradict each other."""
        return None if len(self.said) != 1 else POSITIVE in self.said


@dataclass(frozen=True)
class Answers:
    """What counts out of some logs: the answers by id, and the ids whose answers contradict each other."""

    by_id: Mapping[str, bool]
    contradictions: tuple[str, ...] = ()


def standing(lines: Iterable[Line]) -> dict[str, Standing]:
    """What is known of every row, by its id."""
    rows: dict[str, Standing] = {}
    for line in lines:
        rows.setdefault(line.id, Standing()).after(line)
    return rows


def gathered(logs: Sequence[Sequence[Line]]) -> Answers:
    """The answers of several logs; what two of them say differently is a contradiction, too."""
    said: dict[str, set[str]] = {}
    for log in logs:
        for one, row in standing(log).items():
            said.setdefault(one, set()).update(row.said)
    by_id = {one: POSITIVE in words for one, words in said.items() if len(words) == 1}
    return Answers(by_id, tuple(one for one, words in said.items() if len(words) > 1))


def read_answers(places: Sequence[str | Path], owner: str) -> Answers:
    """The answers in files, or in folders of reviews; one line says what cannot be read."""
    return gathered([lines_of(_file(place, owner), owner) for place in places])


def _file(place: str | Path, owner: str) -> Path:
    path = Path(place)
    if path.is_dir():
        if not (path / LOG).is_file():
            raise bad_argument(owner, ARGUMENT, f"a file of answers, or a folder with {LOG} in it", str(place))
        return path / LOG
    if not path.is_file():
        raise bad_argument(owner, ARGUMENT, "a file of answers, or the folder of a review, that exists", str(place))
    return path


def lines_of(path: Path, owner: str) -> list[Line]:
    """The lines of a log, or of a sheet that was filled in; cells without an answer are left out.

    The last line of a log that a full disc or a lost connection has cut off is left out, with a warning.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=owner) from None
    if is_log(data):
        whole = whole_length(data)
        if _SWALLOWED.search(data, whole):
            problem = f"a quote in line {len(data[:whole].splitlines()) + 1} is never closed; remove it, or close it"
            raise InputError(f"{path} cannot be read: {problem}", owner=owner)
        if whole < len(data):
            torn = data[whole : whole + 400].decode(errors="replace").strip()
            text = f"{path.name}: the last line is not complete and is left out: {torn[:80]!r}"
            warnings.warn(text, RunWarning, stacklevel=2)
        data = data[:whole]
    return _parsed(path, data.decode("utf-8", errors="surrogateescape").removeprefix(BOM), owner)


def whole_length(data: bytes) -> int:
    """The length of the start of a log that ends with a whole line: a line break outside of quotes."""
    end = whole = quotes = 0
    for line in data.splitlines(keepends=True):
        end += len(line)
        quotes += line.count(b'"')
        whole = end if quotes % 2 == 0 and line.endswith((b"\n", b"\r")) else whole
    return whole


def is_log(data: bytes) -> bool:
    """Whether a file begins as a log does, so that lines can be added; no sheet does, nor a log in another form."""
    first = data.removeprefix(BOM.encode()).partition(b"\n")[0]
    return first.strip().replace(b'"', b"") == HEADER


def is_started_log(data: bytes) -> bool:
    """Whether a file is what a kill or a full disc has left of the first line of a log."""
    return HEADER.startswith(data)


def _parsed(path: Path, text: str, owner: str) -> list[Line]:
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)  # spreadsheets of some countries write semicolons
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV: {error}", owner=owner) from None
    names = [name.strip().casefold() for name in rows[0]] if rows else []
    missing = [name for name in COLUMNS[:2] if name not in names]
    if missing:
        got = Described(some(rows[0]) if rows else "an empty file")
        raise bad_argument(owner, str(path), f"a CSV file with the columns {' and '.join(COLUMNS[:2])}", got)
    place = {name: names.index(name) for name in COLUMNS if name in names}
    lines = []
    for number, row in enumerate(rows[1:], start=2):
        cells = {name: row[at] if at < len(row) else "" for name, at in place.items()}
        if any(cell.strip() for cell in row):
            line = _line(cells, f"{path.name}, line {number}", owner)
            lines += [] if line is None else [line]
    return lines


def _line(cells: Mapping[str, str], where: str, owner: str) -> Line | None:
    """A row of the file as a line; None where there is no answer in it."""
    word = cells["answer"].strip().casefold()
    answer = word if word in (ASKED, WITHDRAWN) else answer_of(word)
    if answer is None:
        allowed = f"{', '.join(SAID)} (or yes, no, 1, 0), or empty"
        raise bad_argument(owner, f"{where}: answer", allowed, cells["answer"])
    if not cells["id"]:
        if answer == "":
            return None
        raise bad_argument(owner, f"{where}: id", "that of a row", Described("an empty cell"))
    if answer == "":
        return None
    return Line(unmarked(cells["id"]), answer, cells.get("time", ""), unmarked(cells.get("sheet", "")))


def as_csv(lines: Iterable[Line], *, header: bool) -> bytes:
    """Lines as they stand in a log; no spreadsheet runs their texts."""
    rows = [COLUMNS] if header else []
    rows += [(marked(line.id), line.answer, line.time, marked(line.sheet)) for line in lines]
    return csv_bytes(rows)


def csv_bytes(rows: Iterable[Sequence[str]]) -> bytes:
    """Rows as CSV; cells that hold a separator, a quote, a line break or spaces at an end are quoted."""
    text = "".join(f"{','.join(map(_cell, row))}\n" for row in rows)
    return text.encode("utf-8", errors="surrogateescape")


def _cell(text: str) -> str:
    plain = text == text.strip() and not any(char in text for char in ',;\t"\r\n')
    return text if plain else '"{}"'.format(text.replace('"', '""'))
