"""What can be used in the report, in headless Chromium: threshold, lists and their export, pictures, map."""

import csv
import io
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pucl.report.operating import sigmoid
from pucl.report.page_data import thresholds
from pucl.selection.scores import pu_scores
from report_browser import (
    CHROMIUM,
    EXAMPLES,
    Browser,
    centre,
    figures,
    press,
    written,
)
from report_examples import Fit, evidence_of, image, record_of, table

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
FORMULAS = ("=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", 'a "quoted", one', "two\nlines", "-1.5", "\t=1", "ü")


@pytest.mark.parametrize("name", ["image", "table"])
def test_slider_shows_what_python_computes(browser: Browser, report_pages: dict[str, Path], name: str) -> None:
    browser.open(report_pages[name])
    fit = EXAMPLES[name]()
    evidence = evidence_of(fit)
    at = thresholds(record_of(fit), evidence)
    free = fit.logit[~fit.labelled].astype(np.float64)
    slider = "document.getElementById('threshold-slider')"
    assert int(browser.ask(f"{slider}.value")) == at.half and figures(browser)["value"] == "0.50"
    for i in (at.half, at.half - 60, at.half + 40, at.best):
        browser.ask(f"{slider}.value = {i}; {slider}.dispatchEvent(new Event('input'))")
        scores, expected = (
            pu_scores(evidence.held_logit, evidence.held_labelled, prior=prior, threshold=at.threshold[i])
            for prior in (record_of(fit).prior.cautious, fit.prior)
        )
        called = int((free > at.threshold[i]).sum())
        shown = figures(browser)
        assert shown["called"] == f"{called:,}"
        assert float(shown["positives"].replace(",", "")) == pytest.approx(called * expected.precision.value, abs=0.56)
        for key in ("precision", "recall", "f1"):
            value, error = shown[key].split(" ± ")
            told = getattr(scores, key)
            assert (float(value), float(error)) == pytest.approx((told.value, told.error), abs=6e-4)
        assert f"{called:,} of {len(free):,}" in browser.ask("document.getElementById('threshold-said').textContent")


def test_slider_follows_keys_buttons_and_the_chart(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["image"])
    fit = image()
    at = thresholds(record_of(fit), evidence_of(fit))
    value = "Number(document.getElementById('threshold-slider').value)"
    press(browser, "#threshold-best")
    assert browser.ask(value) == at.best
    browser.ask("document.getElementById('threshold-slider').focus()")
    browser.key("ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    assert browser.ask(value) == at.best + 1
    assert float(figures(browser)["value"]) == pytest.approx(
        float(sigmoid(at.threshold[at.best + 1 :][:1])[0]), abs=0.006
    )
    x, y = centre(browser, "#threshold-chart svg")
    browser.mouse("mousePressed", x + 200, y, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseReleased", x + 200, y, button="left")
    assert browser.ask(value) > at.half + 20
    line = "document.querySelector('#{} .cursor').getAttribute('x1')"
    assert browser.ask(line.format("threshold-chart")) == browser.ask(line.format("separation-chart"))


def exported(browser: Browser, report_folder: Path, name: str) -> list[list[str]]:
    path = report_folder / "downloads" / f"pucl-{name}.csv"
    path.unlink(missing_ok=True)
    press(browser, f"[data-list={name}] [data-export]")
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, "nothing was downloaded"
        time.sleep(0.02)
    text = path.read_bytes().decode("utf-8-sig")
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("name", ["top", "unsure"])
def test_lists_are_exported_whole(
    browser: Browser, report_folder: Path, report_pages: dict[str, Path], name: str
) -> None:
    browser.open(report_pages["table"])
    shown = getattr(evidence_of(table()), name)
    head, *rows = exported(browser, report_folder, name)
    assert head == ["rank", "id", "row", "probability", *shown.values]
    assert [row[1] for row in rows] == list(shown.ids)
    assert [int(row[2]) for row in rows] == shown.row.tolist()
    assert [float(row[3]) for row in rows] == pytest.approx(shown.probability.tolist(), abs=1e-6)
    assert [row[4:] for row in rows] == [list(values) for values in zip(*shown.values.values(), strict=True)]


def odd_table() -> Fit:
    fit = table()
    ids = tuple(FORMULAS[i % len(FORMULAS)] for i in range(len(fit.ids)))
    return replace(fit, ids=ids, values={"=column": ids, "number": tuple("-3" for _ in ids)})


def test_cells_cannot_be_formulas(browser: Browser, report_folder: Path) -> None:
    fit = odd_table()
    browser.open(written(report_folder, record_of(fit), evidence_of(fit)))
    head, *rows = exported(browser, report_folder, "top")
    assert head[4:] == ["'=column", "number"]
    safe = {text: text if text in {"-1.5", "ü"} or text[0] in "at" else f"'{text}" for text in FORMULAS}
    assert [row[1] for row in rows] == [safe[one] for one in evidence_of(fit).top.ids]
    assert [row[4] for row in rows] == [row[1] for row in rows]
    assert {row[5] for row in rows} == {"-3"}


def test_lists_are_sorted_and_opened(browser: Browser, report_folder: Path, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["table"])
    rows = "document.querySelectorAll('[data-list=top] tbody > tr:not(.all)').length"
    assert browser.ask(rows) == 12
    press(browser, "[data-list=top] [data-more]")
    assert browser.ask(rows) == 60
    press(browser, "[data-list=top] tbody button")
    assert browser.ask("document.querySelectorAll('[data-list=top] tr.all dt').length") == 25
    select = "document.querySelector('[data-list=top] select')"
    browser.ask(f"{select}.value = 4; {select}.dispatchEvent(new Event('change'))")
    radius = [float(row[4]) for row in exported(browser, report_folder, "top")[1:]]
    assert radius == sorted(radius)


def test_pictures_are_those_of_the_rows(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["image"])
    browser.settle()
    canvas = "document.querySelector('[data-list=unsure] li:nth-child(3) canvas')"
    shown = browser.ask(f"[...{canvas}.getContext('2d').getImageData(0, 0, 192, 192).data]")
    pictures = evidence_of(image()).unsure.pictures
    assert pictures is not None
    assert np.array_equal(np.reshape(shown, (192, 192, 4))[12::24, 12::24, 0], pictures[2, ..., 0])


def zoom(browser: Browser) -> float:
    browser.settle()
    return float(browser.ask("document.getElementById('map-canvas').dataset.zoom"))


def test_map_zooms_and_moves(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["image"])
    x, y = centre(browser, "#map-canvas")
    assert zoom(browser) == 1
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
    browser.wait("Number(document.getElementById('map-canvas').dataset.zoom) > 2")
    browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=2)
    browser.mouse("mouseReleased", x, y, button="left", clickCount=2)
    browser.wait("document.getElementById('map-canvas').dataset.zoom === '1.000'")
    press(browser, "#map-in")
    press(browser, "#map-in")
    assert zoom(browser) == pytest.approx(2.56)
    press(browser, "#map-out")
    assert zoom(browser) == pytest.approx(1.6)
    press(browser, "#map-reset")
    assert zoom(browser) == 1
    browser.ask("document.getElementById('map-canvas').focus()")
    browser.key("+", text="+")
    assert zoom(browser) == pytest.approx(1.6)
    before = browser.ask("document.getElementById('map-canvas').toDataURL()")
    browser.key("ArrowLeft")
    browser.settle()
    assert browser.ask("document.getElementById('map-canvas').toDataURL()") != before
    browser.key("Enter")
    assert "probability" in browser.ask("document.getElementById('map-said').textContent")
    for _ in range(8):
        browser.key("+", text="+")
    browser.settle()
    assert browser.ask("document.getElementById('map-canvas').dataset.pictures") == "true"


def test_map_zooms_with_two_fingers(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.size(390, mobile=True)
    browser.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    browser.open(report_pages["image"])
    x, y = centre(browser, "#map-canvas")
    for kind, apart in (("touchStart", 30), ("touchMove", 50), ("touchMove", 90)):
        touches = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        browser.send("Input.dispatchTouchEvent", type=kind, touchPoints=touches)
    browser.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.send("Emulation.setTouchEmulationEnabled", enabled=False)
    assert zoom(browser) == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("name", EXAMPLES)
def test_map_says_what_a_point_is(browser: Browser, report_pages: dict[str, Path], name: str) -> None:
    browser.open(report_pages[name])
    fit = EXAMPLES[name]()
    centre(browser, "#map-canvas")
    # The highest point stands alone: where the page draws it follows from how it fits the map into its window.
    i = int(fit.place[:, 1].argmax())
    low, span = fit.place.min(axis=0), (fit.place.max(axis=0) - fit.place.min(axis=0)).astype(np.float64)
    left, top, width, height = browser.box("document.getElementById('map-canvas')")
    scale = min((width - 58) / span[0], (height - 58) / span[1])
    x = left + width / 2 + (float(fit.place[i, 0] - low[0]) - span[0] / 2) * scale
    browser.mouse("mouseMoved", x, top + height / 2 - span[1] / 2 * scale)
    browser.wait("!document.getElementById('map-tip').hidden")
    text = browser.ask("document.getElementById('map-tip').innerText")
    assert fit.ids[i] in text and f"{1 / (1 + np.exp(-fit.logit[i])):.2f}" in text
    assert ("labelled positive" in text) == bool(fit.labelled[i])
    assert browser.ask("document.querySelectorAll('#map-tip canvas').length") == (name == "image")
    assert ("mean radius" in text) == (name == "table")
    browser.mouse("mouseMoved", left + 5, top + height - 5)
    browser.wait("document.getElementById('map-tip').hidden")


@pytest.mark.slow
def test_labelled_can_be_scaled_by_the_prior(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["image"])
    before = browser.ask("document.querySelector('#separation-chart .area-p').getAttribute('d')")
    press(browser, "#separation-scaled")
    assert browser.ask("document.querySelector('#separation-chart .area-p').getAttribute('d')") != before
    assert browser.ask("document.getElementById('separation-hint').checkVisibility()")
