"""A sheet as CSV and as a page: hostile texts stay texts, nothing is loaded, and two keys are enough."""

import codecs
import csv
import html
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from pucl.data.own import read
from pucl.review.answers import lines_of
from pucl.review.picking import Pick
from pucl.review.sheet import as_page, as_table, sheet_rows
from report_browser import CHROMIUM, FAINT_TEXTS, Browser, complaints, requests
from review_examples import page_of, sheet_of

RAN = "window.ran = 1"
HOSTILE = (
    f"</script><script>{RAN}</script>", "<!--<script>", f"<img src=x onerror='{RAN}'>", f'"><svg/onload="{RAN}">',
    "{{script}}", "{{data}}", "=cmd|' /C calc'!A0", "+SUM(1)", "@x!y", "a\r\nb", "\u2028", "\u202egnp.exe", "__proto__",
    "a,b;c\td", 'quo"te', "W" * 5000, "'=1", " ", "http://example.org/", "javascript:ran=1", "\x00\x1b[31m",
)  # fmt: skip
WITHOUT_CONTROL = tuple(one for one in HOSTILE if "\x00" not in one)
browsers_only = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


class Tags(HTMLParser):
    """Tags, and attributes that may run or load something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.risky: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.risky += [name for name, value in attrs if name.startswith("on") or "http" in (value or "")]


def test_hostile_texts_add_no_markup_to_the_page() -> None:
    plain = Tags(page_of(sheet_of(["a"] * len(HOSTILE))).decode())
    odd = Tags(page_of(sheet_of(HOSTILE, dict(zip(HOSTILE, HOSTILE, strict=True)))).decode())
    assert odd.tags == plain.tags and odd.risky == []
    data = re.search(r'id="page-data">(.*?)</script>', page_of(sheet_of(HOSTILE)).decode(), re.DOTALL)
    assert data is not None and [row["cell"] for row in json.loads(data[1])["rows"]][10] == "\u2028"


def test_ids_come_back_from_the_table_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    values = {name: name for name in (*WITHOUT_CONTROL, "answer", "ID")}
    table = as_table("sheet-0001", sheet_of(WITHOUT_CONTROL, values))
    rows = list(csv.reader(io.StringIO(table.decode("utf-8-sig"), newline="")))
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+S", "@x"))]
    assert [name.strip().casefold() for name in rows[0]].count("answer") == 1
    for row in rows[1:]:
        row[1] = "yes"
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    (tmp_path / "s.csv").write_text(out.getvalue(), encoding="utf-8", newline="")
    assert [line.id for line in lines_of(tmp_path / "s.csv", "pucl review")] == list(WITHOUT_CONTROL)


def test_the_command_on_the_page_can_be_pasted() -> None:
    page = as_page("sheet-0001", sheet_of(["a"]), folder="my review", title="t").decode()
    assert "pucl review --out 'my review' --add answers-sheet-0001.csv" in html.unescape(page)


def test_spreadsheets_are_told_that_a_sheet_is_utf_8() -> None:
    assert as_table("sheet-0001", sheet_of(["ünï"])).startswith(codecs.BOM_UTF8)
    assert as_table("sheet-0001", sheet_of(["plain"])).startswith(b"id,answer")


def test_texts_are_shown_whole_and_dates_as_dates() -> None:
    pd = pytest.importorskip("pandas")
    long = "word " * 300
    frame = pd.DataFrame({"note": [f"{long}{k}" for k in range(6)], "when": pd.date_range("2026-01-01", periods=6)})
    data = read(frame, label=[1, 0, 0, 0, 0, 0])
    (first, second) = sheet_rows(data, [Pick(4, "x"), Pick(2, "y")], np.arange(6.0))
    assert (first.id, first.why, first.score) == ("4", "x", 4.0) and (second.id, second.score) == ("2", 2.0)
    assert dict(first.values) == {"note": f"{long}4", "when": "2026-01-05"}


@browsers_only
def test_the_page_is_answered_by_keyboard_and_saved(browser: Browser, tmp_path: Path) -> None:
    ids = ["first", "=2+2", "a,b", 'quo"te', "fifth"]
    page = tmp_path / "sheet-0001.html"
    page.write_bytes(page_of(sheet_of(ids)))
    browser.open(page)
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path.resolve()))
    for key in ("p", "ArrowLeft", "s", "u"):  # the third is skipped, and that is taken back
        browser.key(key)
    assert browser.ask("document.getElementById('progress').textContent") == "2 of 5 done"
    assert browser.ask("document.getElementById('row-id').textContent") == "a,b"
    browser.reload()
    assert browser.ask("document.getElementById('progress').textContent") == "2 of 5 done"
    for key in ("s", "ArrowRight", "N"):
        browser.key(key)
    browser.settle()
    assert browser.ask("document.getElementById('done').hidden") is False
    browser.key("Enter")
    saved = tmp_path / "answers-sheet-0001.csv"
    browser.wait("document.getElementById('said').textContent.startsWith('Saved 5 answers')")
    while not saved.is_file() or not saved.stat().st_size:
        browser.settle()
    found = [(line.id, line.answer, line.sheet) for line in lines_of(saved, "pucl review")]
    words = ("positive", "negative", "skip", "positive", "negative")
    assert found == [(one, word, "sheet-0001") for one, word in zip(ids, words, strict=True)]
    assert complaints(browser) == [] and requests(browser) == [page.resolve().as_uri()]


@browsers_only
def test_hostile_texts_do_not_run_and_everything_can_be_read(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "sheet-0001.html"
    page.write_bytes(page_of(sheet_of(HOSTILE, dict(zip(HOSTILE, HOSTILE, strict=True)))))
    for width in (1280, 390):
        browser.size(width)
        browser.open(page)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.key("p")
            browser.settle()
            assert browser.ask("document.documentElement.scrollWidth") <= width
            assert browser.ask(FAINT_TEXTS) == []
    assert browser.ask("window.ran") is None and complaints(browser) == []
    assert requests(browser) == [page.resolve().as_uri()]
