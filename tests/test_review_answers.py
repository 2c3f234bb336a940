"""The log of a review: what counts, what contradicts, and that no fault loses, breaks or swallows a line."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pucl.errors import InputError, RunError
from pucl.review.answers import COLUMNS, LOG, Line, as_csv, gathered, lines_of, read_answers, standing, whole_length
from pucl.review.folder import add_files, append, log_of, next_sheet, take_back, working_in, write_sheet

from conftest import SRC, environment

OWNER = "pucl review"
ODD_IDS = (
    "a",
    "=1+1",
    "-x7Qa",
    "a,b",
    'quo"te',
    "two\nlines",
    "'apostrophe",
    "'=x",
    " blank ",
    "ünï",
    "0",
    "\r",
    "+1(a)",
)


def asked(folder: Path, *ids: str, sheet: str = "sheet-0001") -> None:
    folder.mkdir(exist_ok=True)
    with working_in(folder, OWNER):
        append(folder, [Line(one, "asked", "t", sheet) for one in ids])


def filled(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def said(folder: Path) -> dict[str, bool]:
    return dict(read_answers([folder], OWNER).by_id)


def test_what_is_written_comes_back_whatever_the_ids_are(tmp_path: Path) -> None:
    lines = [Line(one, "positive", "2026-01-01", "sheet-0001") for one in ODD_IDS]
    with working_in(tmp_path, OWNER):
        for line in lines:
            append(tmp_path, [line])
    assert log_of(tmp_path, OWNER) == lines
    assert (tmp_path / LOG).read_bytes().startswith(",".join(COLUMNS).encode() + b"\n")


def test_the_last_withdrawal_counts() -> None:
    words = ("asked", "positive", "withdrawn", "negative")
    (row,) = standing(Line("a", word) for word in words).values()
    assert row.answer is False and not row.contradicts and not row.open


def test_yes_and_no_contradict_until_the_row_was_asked_again() -> None:
    lines = [Line("a", word) for word in ("asked", "positive", "negative")]
    assert standing(lines)["a"].contradicts and standing(lines)["a"].answer is None
    assert gathered([lines]).contradictions == ("a",) and gathered([lines]).by_id == {}
    again = [*lines, Line("a", "asked")]
    assert standing(again)["a"].contradicts  # asked, but not answered yet
    assert standing([*again, Line("a", "negative")])["a"].answer is False


def test_two_logs_that_disagree_contradict_each_other() -> None:
    found = gathered([[Line("a", "positive"), Line("b", "positive")], [Line("a", "negative"), Line("b", "positive")]])
    assert found.by_id == {"b": True} and found.contradictions == ("a",)


def test_words_people_write(tmp_path: Path) -> None:
    sheet = filled(
        tmp_path / "s.csv", "ID;Answer;note\r\n1;Yes;x\r\n2;0;\r\n3;skip;\r\n4;;not yet\r\n5; NO ;\r\n;;\r\n6;1.0"
    )
    lines = [(line.id, line.answer) for line in lines_of(sheet, OWNER)]
    assert lines == [("1", "positive"), ("2", "negative"), ("3", "skip"), ("5", "negative"), ("6", "positive")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,answer\na,maybe\n",
            "line 2: answer must be positive, negative, skip (or yes, no, 1, 0), or empty; got 'maybe'",
        ),
        ("id,reply\na,yes\n", "must be a CSV file with the columns id and answer; got id, reply"),
        ("", "must be a CSV file with the columns id and answer; got an empty file"),
        ("id,answer\n,yes\n", "line 2: id must be that of a row; got an empty cell"),
        ("id,answer\na,yes\nb,yes\n", "must be answers to rows that stand on the sheets in"),
    ],
)
def test_files_that_cannot_be_added(tmp_path: Path, text: str, message: str) -> None:
    asked(tmp_path / "r", "a")
    before = (tmp_path / "r" / LOG).read_bytes()
    with pytest.raises(InputError) as error, working_in(tmp_path / "r", OWNER):
        add_files(tmp_path / "r", [filled(tmp_path / "s.csv", text)], OWNER)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert (tmp_path / "r" / LOG).read_bytes() == before


def test_adding_twice_changes_nothing_and_what_was_taken_back_stays_so(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    asked(folder, "a", "b")
    sheet = filled(tmp_path / "answers-sheet-0001.csv", "id,answer\na,yes\nb,no\n")
    with working_in(folder, OWNER):
        assert add_files(folder, [sheet], OWNER).new == 2
        assert add_files(folder, [sheet], OWNER).new == 0
        assert take_back(folder, ["a"], OWNER) == ["a"]
        assert add_files(folder, [sheet], OWNER).new == 0
    assert said(folder) == {"b": False}
    assert [line.answer for line in log_of(folder, OWNER) if line.id == "a"] == ["asked", "positive", "withdrawn"]


def test_the_next_sheet_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = tmp_path / ".sheet-0001.html.tmp"
    left.write_bytes(b"<html")
    with working_in(tmp_path, OWNER):
        write_sheet(tmp_path, "sheet-0002", ["a"], b"table", b"page")
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOG, "sheet-0002.csv", "sheet-0002.html"]


def test_numbers_that_a_spreadsheet_has_rewritten_are_known_on_their_sheet(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    asked(folder, "007", "1e5", "2.50", "08", "8.0", "x1")
    asked(folder, "7", "100000", sheet="sheet-0002")
    lines = "7,yes,sheet-0001\n100000,no,sheet-0001\n2.5,yes,sheet-0001\nx1,no,sheet-0001\n"
    add_files(folder, [filled(tmp_path / "a.csv", f"id,answer,sheet\n{lines}")], OWNER)
    assert said(folder) == {"007": True, "1e5": False, "2.50": True, "x1": False}
    add_files(folder, [filled(tmp_path / "b.csv", "id,answer,sheet\n7,no,sheet-0002\n")], OWNER)
    assert said(folder)["007"] is True and said(folder)["7"] is False
    with pytest.raises(InputError, match="1 other: 8 .did a spreadsheet change the ids"):  # 08 or 8.0?
        add_files(folder, [filled(tmp_path / "c.csv", "id,answer,sheet\n8,yes,sheet-0001\n")], OWNER)


def test_an_id_is_taken_back_as_it_stands_in_a_sheet(tmp_path: Path) -> None:
    asked(tmp_path / "r", "=1+1", "'=x")
    assert take_back(tmp_path / "r", ["'=1+1", "'=x"], OWNER) == ["=1+1", "'=x"]


def test_a_whole_sheet_is_taken_back(tmp_path: Path) -> None:
    asked(tmp_path, "a", "b")
    asked(tmp_path, "c", sheet="sheet-0002")
    with working_in(tmp_path, OWNER):
        assert take_back(tmp_path, ["sheet-0001"], OWNER) == ["a", "b"]
        with pytest.raises(InputError, match="take_back must be ids, or names of sheets"):
            take_back(tmp_path, ["c", "nobody"], OWNER)
    rows = standing(log_of(tmp_path, OWNER))
    assert not rows["a"].open and rows["c"].open


def test_sheets_are_numbered_after_the_log_and_the_files(tmp_path: Path) -> None:
    assert next_sheet(tmp_path, []) == "sheet-0001"
    (tmp_path / "sheet-0004.csv").touch()
    assert next_sheet(tmp_path, [Line("a", "asked", "", "sheet-0002")]) == "sheet-0005"
    assert next_sheet(tmp_path, [Line("a", "asked", "", "sheet-12345")]) == "sheet-12346"


@pytest.mark.parametrize("one", ODD_IDS)
def test_a_line_cut_off_anywhere_is_left_out_and_swallows_nothing(tmp_path: Path, one: str) -> None:
    first, second = (
        as_csv([Line(name, "positive", "t", "s")], header=head) for name, head in (("x", True), (one, False))
    )
    for length in range(1, len(second)):
        torn = first + second[:length]
        assert whole_length(torn) == len(first)
        (tmp_path / LOG).write_bytes(torn)
        with pytest.warns(UserWarning, match="the last line is not complete"):
            assert [line.id for line in log_of(tmp_path, OWNER)] == ["x"]
        with working_in(tmp_path, OWNER):
            append(tmp_path, [Line("z", "negative", "t", "s")])
        assert [line.id for line in log_of(tmp_path, OWNER)] == ["x", "z"]


def test_a_quote_that_somebody_left_open_swallows_no_answers(tmp_path: Path) -> None:
    asked(tmp_path, "a", "b", "c")
    log = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(log.replace(b"\nb,", b'\n"b,'))
    for use in (lambda: log_of(tmp_path, OWNER), lambda: read_answers([tmp_path], OWNER)):
        with pytest.raises(InputError, match="a quote in line 3 is never closed; remove it, or close it"):
            use()
    assert len((tmp_path / LOG).read_bytes()) == len(log) + 1
    sheet = filled(tmp_path / "s.csv", 'id,answer\n"a,yes\nb,no\nc,yes\n')
    with pytest.raises(InputError, match="s.csv cannot be read as CSV: unexpected end of data"):
        lines_of(sheet, OWNER)


def test_a_long_log_with_an_open_quote_takes_no_minutes() -> None:
    data = as_csv([Line("a", "positive", "t", "s")], header=True)
    began = time.process_time()
    assert whole_length(data + b'"' + b"b,positive,t,s\n" * 200_000) == len(data)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("change", [(b",", b";"), (b"\n", b"\r"), (b"id,answer", b"answer,id")])
def test_a_log_that_another_program_saved_in_its_form_is_not_added_to(
    tmp_path: Path, change: tuple[bytes, bytes]
) -> None:
    asked(tmp_path, "a", "b")
    saved = (tmp_path / LOG).read_bytes().replace(*change)
    (tmp_path / LOG).write_bytes(saved)
    sheet = filled(tmp_path / "s.csv", "id,answer\na,yes\n")
    for use in (
        lambda: add_files(tmp_path, [sheet], OWNER),
        lambda: take_back(tmp_path, ["a"], OWNER),
        lambda: append(tmp_path, [Line("c", "asked")]),
    ):
        with pytest.raises(InputError, match="must be a log that begins with id,answer,time,sheet; got") as error:
            use()
        assert "\n" not in str(error.value)
    assert (tmp_path / LOG).read_bytes() == saved


def test_a_log_with_the_line_ends_and_quotes_of_a_spreadsheet_is_added_to(tmp_path: Path) -> None:
    asked(tmp_path, "a", "b")
    rows = (tmp_path / LOG).read_text(encoding="utf-8").splitlines()
    quoted = "".join(",".join(f'"{cell}"' for cell in row.split(",")) + "\r\n" for row in rows)
    filled(tmp_path / LOG, f"\ufeff{quoted}")
    assert add_files(tmp_path, [filled(tmp_path / "s.csv", "id,answer\na,yes\n")], OWNER).new == 1
    assert [(line.id, line.answer) for line in log_of(tmp_path, OWNER)] == [
        ("a", "asked"), ("b", "asked"), ("a", "positive")
    ]  # fmt: skip


@pytest.mark.parametrize("length", [0, 1, 12, 21])
def test_a_kill_within_the_first_line(tmp_path: Path, length: int) -> None:
    whole = as_csv([Line("a", "asked", "t", "s")], header=True)
    (tmp_path / LOG).write_bytes(whole[:length])
    assert log_of(tmp_path, OWNER) == []
    asked(tmp_path, "a")
    assert [line.id for line in log_of(tmp_path, OWNER)] == ["a"]


def test_a_sheet_of_more_digits_than_a_number_has(tmp_path: Path) -> None:
    lines = [Line("a", "asked", "", f"sheet-{digits}") for digits in ("0003", "9" * 5_000)]
    assert next_sheet(tmp_path, lines) == "sheet-0004"


def test_a_full_disc_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(tmp_path, "a")
    before, write = (tmp_path / LOG).read_bytes(), os.write

    def nearly_full(handle: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[: len(data) // 2])

    lines = [Line(str(number), "positive", "t", "sheet-0001") for number in range(9)]
    told = "No space left on device; nothing was added"
    with monkeypatch.context() as patch, pytest.raises(RunError, match=told):  # noqa: PT012
        patch.setattr(os, "write", nearly_full)
        with working_in(tmp_path, OWNER):
            append(tmp_path, lines)
    assert (tmp_path / LOG).read_bytes() == before
    asked(tmp_path, "b")
    assert [line.id for line in log_of(tmp_path, OWNER)] == ["a", "b"]


KILLED = """
import os, signal, sys
from pathlib import Path
from pucl.review.answers import Line
from pucl.review.folder import append, working_in
write = os.write
def half(handle, data):
    write(handle, data[: int(sys.argv[2])])
    os.kill(os.getpid(), signal.SIGKILL)
os.write = half
with working_in(Path(sys.argv[1]), "pucl review"):
    append(Path(sys.argv[1]), [Line("two\\nlines", "positive", "t", "sheet-0001"), Line("c", "positive", "t", "s")])
"""


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 6, 12, 35, 50])
def test_a_kill_in_the_middle_of_a_line(tmp_path: Path, length: int) -> None:
    asked(tmp_path, "a")
    words = [sys.executable, "-c", KILLED, str(tmp_path), str(length)]
    assert subprocess.run(words, env=environment(SRC), check=False).returncode == -signal.SIGKILL
    asked(tmp_path, "b")  # the lock of the killed process is free
    ids = [line.id for line in log_of(tmp_path, OWNER)]
    assert ids[0] == "a" and ids[-1] == "b" and ids[1:-1] == ["two\nlines", "c"][: len(ids) - 2]


TWO = """
import sys
import time
from pathlib import Path
from pucl.review.answers import Line
from pucl.review.folder import append, working_in
for number in range(40):
    with working_in(Path(sys.argv[1]), "pucl review"):
        append(Path(sys.argv[1]), [Line(f"{sys.argv[2]}{number}", "positive", "t", "s") for _ in range(3)])
"""


@pytest.mark.slow
def test_two_processes_add_at_once(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", TWO, str(tmp_path), name], env=environment(SRC)) for name in "ab"
    ]
    assert [process.wait(120) for process in started] == [0, 0]
    lines = log_of(tmp_path, OWNER)
    assert len(lines) == 2 * 40 * 3
    assert {line.id for line in lines} == {f"{name}{number}" for name in "ab" for number in range(40)}
    assert [line.id for line in lines[::3]] == [
        line.id for line in lines[2::3]
    ]  # no line of one inside those of another
