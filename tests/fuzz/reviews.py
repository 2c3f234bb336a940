"""What reviewers give back: logs of answers, sheets filled in by hand or a spreadsheet; and the folder of a review."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzz.lists import LINES
from fuzz.reader import MB, Files, Reader
from pucl.review.answers import COLUMNS, lines_of, read_answers, standing
from pucl.review.folder import add_files, append, log_of, next_sheet, now, take_back, working_in
from pucl.review.share import random_share

OWNER = "pucl review"
LOG, FILLED = "review/answers.csv", "filled.csv"
IDS = ("007", "1e5", "r1", "=1+1", "a,b")
WORDS = ("positive", "negative", "skip", "asked", "withdrawn", "yes", "no", "1", "0", "1.0", "TRUE", "", "?", " Yes ")
SHEETS = (
    "sheet-0001",
    "sheet-0002-random",
    "sheet-9999",
    "sheet-" + "9" * 5_000,
    "sheet-1",
    "",
    "'=1",
    "../x",
    "sheet-٣٣٣٣",
)


def _log(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in (",".join(COLUMNS), *lines)).encode()


ASKED = _log(
    *(f"{cell},asked,2026-01-01T00:00:00+00:00,sheet-0001" for cell in ("007", "1e5", "r1", "'=1+1", '"a,b"')),
    "r1,positive,2026-01-02T00:00:00+00:00,sheet-0001",
    "r1,negative,2026-01-03T00:00:00+00:00,sheet-0001",
    "r2,asked,2026-01-04T00:00:00+00:00,sheet-0002-random",
    "r2,yes,,",
    "r2,withdrawn,2026-01-05T00:00:00+00:00,",
)
SHEET = b"id,answer,sheet,why,score,age\n7,yes,sheet-0001,likely,1.5,40\n100000,no,sheet-0001,likely,1.0,41\nr1,,,,,\n"
SEMICOLONS = "\ufeffID;Answer;Sheet\n7;yes;sheet-0001\n'=1+1;no;sheet-0001\n".encode()


def _answer_seeds(_: Path) -> Sequence[Files]:
    return [{"answers.csv": ASKED}, {FILLED: SHEET}, {FILLED: SEMICOLONS}, {FILLED: SHEET.replace(b",", b"\t")}]


def _read_answers(folder: Path) -> object:
    return read_answers([next(folder.iterdir())], "pucl fit")


def _folder_seeds(_: Path) -> Sequence[Files]:
    return [{LOG: ASKED, FILLED: each} for each in (SHEET, SEMICOLONS, b"id,answer\nr2,positive\n")]


def _work(folder: Path) -> object:
    """Answers are added and taken back; what stood in the log before still does."""
    place = folder / "review"
    with working_in(place, OWNER):
        before = log_of(place, OWNER)
        added = add_files(place, [folder / FILLED], OWNER)
        log = log_of(place, OWNER)
        name = next_sheet(place, log)
        asked = [line for line in log if line.answer == "asked"][:1]
        append(place, [type(line)(line.id, "asked", now(), name) for line in asked])
        take_back(place, [line.id for line in asked], OWNER)
    after = lines_of(folder / LOG, OWNER)
    if after[: len(before)] != before or len(after) != len(before) + added.new + 2 * len(asked):
        raise AssertionError(f"{len(before)} lines and {added.new} new ones have become {len(after)}")
    return standing(after), random_share(after)


def _cells(rng: Random, seeds: Sequence[Files]) -> Files:
    """A file of odd cells: in the form of a log or of a sheet, with any separator, quoted or not, cut off or not."""
    mark, end = rng.choice((",", ",", ",", ";", "\t")), rng.choice(("\n", "\n", "\r\n", "\r"))
    rows = [list(rng.choice((COLUMNS, COLUMNS, ("id", "answer"), ("answer", "id", "id"), ("sheet", "id", "answer"))))]
    for _ in range(rng.choice((1, 3, 30))):
        cells = {"id": rng.choice((*IDS, *LINES)), "answer": rng.choice(WORDS), "sheet": rng.choice(SHEETS)}
        rows.append([cells.get(name, rng.choice(("", "2026-01-01", *LINES))) for name in rows[0]])
        if rng.random() < 0.1:
            rows[-1] = rows[-1][: rng.randrange(4)]
    quoted = [[f'"{cell}"' if rng.random() < 0.2 or mark in cell else cell for cell in row] for row in rows]
    data = end.join(mark.join(row) for row in quoted).encode("utf-8", "surrogatepass")
    data += rng.choice((b"", b"\n", b'"', b"\n\xff,yes\n", b'\nr1,"', b"\0"))
    files = dict(rng.choice(seeds)) if seeds else {FILLED: b""}
    return {**files, rng.choice(sorted(files)): data}


def torn(n: int) -> bytes:
    """A log of n lines with a quote that is opened and never closed."""
    return ASKED + b'r1,"' + b"r1,skip,2026-01-01T00:00:00+00:00,sheet-0001\n" * n


def _torn(rng: Random, seeds: Sequence[Files]) -> Files:
    files = dict(seeds[0])
    name = LOG if LOG in files else "answers.csv"
    return {**files, name: torn(rng.choice((1, 1_000, 100_000)))}


READERS = (
    Reader("review answers", _answer_seeds, _read_answers, {"cells": _cells, "torn": _torn}, memory=128 * MB),
    Reader("review folder", _folder_seeds, _work, {"cells": _cells, "torn": _torn}, memory=128 * MB),
)
