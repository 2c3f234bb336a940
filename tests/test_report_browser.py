"""The report in headless Chromium: what it shows, what it does, and that it keeps quiet about it."""

import csv
import io
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.models.evidence import Evidence
from pucl.models.record import EpochRecord
from pucl.report import render
from pucl.report.operating import sigmoid
from pucl.report.page_data import thresholds
from pucl.selection.scores import pu_scores
from report_browser import CHROMIUM, FAINT_TEXTS, Browser, complaints, requests
from report_examples import HOSTILE, Fit, bare_record, evidence_of, few, hostile, image, record_of, table, vector

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
EXAMPLES = {"image": image, "table": table, "vector": vector}
SIZES = {1280: False, 390: True}
STICKS_OUT = "e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.unseen')"
SCROLLS = "e.scrollWidth > e.clientWidth + 1"
FORMULAS = ("=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", 'a "quoted", one', "two\nlines", "-1.5", "\t=1", "ü")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def started(folder: Path) -> Iterator[Browser]:
    with Browser(folder / "profile") as browser:
        (folder / "downloads").mkdir()
        browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder / "downloads"))
        yield browser


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """The browser in a known state; afterwards nothing may have been complained about or asked for."""
    started.prefer("light")
    started.size(1280)
    yield started
    assert complaints(started) == []
    assert len(requests(started)) == 1  # the page itself
    started.ask("localStorage.clear()")


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, Path]:
    found = {}
    for name, example in EXAMPLES.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(render(record_of(example()), evidence_of(example())), encoding="utf-8")
    return found


def written(folder: Path, *parts: Any) -> Path:
    path = folder / "other.html"
    path.write_text(render(*parts), encoding="utf-8")
    return path


def press(browser: Browser, selector: str) -> None:
    browser.ask(f"document.querySelector({selector!r}).click()")
    browser.settle()


def centre(browser: Browser, selector: str) -> tuple[float, float]:
    """The middle of an element, scrolled into view."""
    one = f"document.querySelector({selector!r})"
    browser.ask(f"{one}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    browser.settle()
    left, top, width, height = browser.box(one)
    return left + width / 2, top + height / 2


def size_of(png: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return width, height


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_page_fits_its_window(browser: Browser, pages: dict[str, Path], tmp_path: Path, name: str, width: int) -> None:
    browser.size(width, mobile=SIZES[width])
    browser.open(pages[name])
    browser.settle()
    assert browser.ask("document.documentElement.scrollWidth") <= width
    # Nothing sticks out either, be it cut off or in a box of its own that scrolls sideways.
    assert browser.ask(f"[...document.querySelectorAll('main *')].filter(e => {STICKS_OUT}).length") == 0
    assert browser.ask(f"[...document.querySelectorAll('main div')].filter(e => {SCROLLS}).length") == 0
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.settle()
        shot = browser.screenshot(tmp_path / f"{name}-{width}-{scheme}.png")
        assert size_of(shot)[0] == width and size_of(shot)[1] > 3_000


@pytest.mark.parametrize("name", EXAMPLES)
def test_page_fits_windows_in_between(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    for width in (320, 480, 641, 768, 900, 1021, 1600):
        browser.size(width)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(f"[...document.querySelectorAll('body *')].filter(e => {STICKS_OUT}).length") == 0


def figures(browser: Browser) -> dict[str, str]:
    names = ("value", "found", "positives", "precision", "recall", "f1")
    return {name: browser.ask(f"document.getElementById('threshold-{name}').textContent").strip() for name in names}


@pytest.mark.parametrize("name", ["image", "table"])
def test_slider_shows_what_python_computes(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    fit = EXAMPLES[name]()
    evidence = evidence_of(fit)
    at = thresholds(record_of(fit), evidence)
    free = fit.logit[~fit.labelled].astype(np.float64)
    slider = "document.getElementById('threshold-slider')"
    assert int(browser.ask(f"{slider}.value")) == at.half and figures(browser)["value"] == "0.50"
    for i in (at.half, at.half - 60, at.half + 40, at.best):
        browser.ask(f"{slider}.value = {i}; {slider}.dispatchEvent(new Event('input'))")
        scores = pu_scores(evidence.held_logit, evidence.held_labelled, prior=fit.prior, threshold=at.threshold[i])
        found = int((free > at.threshold[i]).sum())
        shown = figures(browser)
        assert shown["found"] == f"{found:,}"
        assert float(shown["positives"].replace(",", "")) == pytest.approx(found * scores.precision.value, abs=0.56)
        for key in ("precision", "recall", "f1"):
            value, error = shown[key].split(" ± ")
            told = getattr(scores, key)
            assert (float(value), float(error)) == pytest.approx((told.value, told.error), abs=6e-4)
        assert f"{found:,} of {len(free):,}" in browser.ask("document.getElementById('threshold-said').textContent")


def test_slider_follows_keys_buttons_and_the_chart(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["image"])
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


def exported(browser: Browser, folder: Path, name: str) -> list[list[str]]:
    path = folder / "downloads" / f"pucl-{name}.csv"
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
def test_lists_are_exported_whole(browser: Browser, folder: Path, pages: dict[str, Path], name: str) -> None:
    browser.open(pages["table"])
    shown = getattr(evidence_of(table()), name)
    head, *rows = exported(browser, folder, name)
    assert head == ["rank", "id", "row", "probability", *shown.values]
    assert [row[1] for row in rows] == list(shown.ids)
    assert [int(row[2]) for row in rows] == shown.row.tolist()
    assert [float(row[3]) for row in rows] == pytest.approx(shown.probability.tolist(), abs=1e-6)
    assert [row[4:] for row in rows] == [list(values) for values in zip(*shown.values.values(), strict=True)]


def odd_table() -> Fit:
    fit = table()
    ids = tuple(FORMULAS[i % len(FORMULAS)] for i in range(len(fit.ids)))
    return replace(fit, ids=ids, values={"=column": ids, "number": tuple("-3" for _ in ids)})


def test_cells_cannot_be_formulas(browser: Browser, folder: Path) -> None:
    fit = odd_table()
    browser.open(written(folder, record_of(fit), evidence_of(fit)))
    head, *rows = exported(browser, folder, "top")
    assert head[4:] == ["'=column", "number"]
    safe = {text: text if text in {"-1.5", "ü"} or text[0] in "at" else f"'{text}" for text in FORMULAS}
    assert [row[1] for row in rows] == [safe[one] for one in evidence_of(fit).top.ids]
    assert [row[4] for row in rows] == [row[1] for row in rows]
    assert {row[5] for row in rows} == {"-3"}


def test_lists_are_sorted_and_opened(browser: Browser, folder: Path, pages: dict[str, Path]) -> None:
    browser.open(pages["table"])
    rows = "document.querySelectorAll('[data-list=top] tbody > tr:not(.all)').length"
    assert browser.ask(rows) == 12
    press(browser, "[data-list=top] [data-more]")
    assert browser.ask(rows) == 60
    press(browser, "[data-list=top] tbody button")
    assert browser.ask("document.querySelectorAll('[data-list=top] tr.all dt').length") == 25
    select = "document.querySelector('[data-list=top] select')"
    browser.ask(f"{select}.value = 4; {select}.dispatchEvent(new Event('change'))")
    radius = [float(row[4]) for row in exported(browser, folder, "top")[1:]]
    assert radius == sorted(radius)


def test_pictures_are_those_of_the_rows(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["image"])
    browser.settle()
    canvas = "document.querySelector('[data-list=unsure] li:nth-child(3) canvas')"
    shown = browser.ask(f"[...{canvas}.getContext('2d').getImageData(0, 0, 192, 192).data]")
    pictures = evidence_of(image()).unsure.pictures
    assert pictures is not None
    assert np.array_equal(np.reshape(shown, (192, 192, 4))[12::24, 12::24, 0], pictures[2, ..., 0])


def zoom(browser: Browser) -> float:
    browser.settle()
    return float(browser.ask("document.getElementById('map-canvas').dataset.zoom"))


def test_map_zooms_and_moves(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["image"])
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


def test_map_zooms_with_two_fingers(browser: Browser, pages: dict[str, Path]) -> None:
    browser.size(390, mobile=True)
    browser.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    browser.open(pages["image"])
    x, y = centre(browser, "#map-canvas")
    for kind, apart in (("touchStart", 30), ("touchMove", 50), ("touchMove", 90)):
        touches = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        browser.send("Input.dispatchTouchEvent", type=kind, touchPoints=touches)
    browser.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.send("Emulation.setTouchEmulationEnabled", enabled=False)
    assert zoom(browser) == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("name", EXAMPLES)
def test_map_says_what_a_point_is(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
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


def test_theme_follows_the_system_until_it_is_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["vector"])
    background = "getComputedStyle(document.body).backgroundColor"
    light = browser.ask(background)
    browser.prefer("dark")
    dark = browser.ask(background)
    assert light != dark
    map_dark = browser.ask("document.getElementById('map-ramp').toDataURL()")
    press(browser, "#theme")
    assert browser.ask(background) == light
    assert browser.ask("document.getElementById('theme').getAttribute('aria-pressed')") == "false"
    assert browser.ask("document.getElementById('map-ramp').toDataURL()") != map_dark
    browser.open(pages["vector"])
    assert browser.ask(background) == light
    press(browser, "#theme")
    assert browser.ask(background) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(browser: Browser, pages: dict[str, Path], scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(pages["table"])
    assert browser.ask(FAINT_TEXTS) == []


def test_controls_have_names_and_can_be_reached(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["table"])
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "slider", "checkbox", "combobox", "link", "image", "application", "table"}
    named = [
        (one["role"]["value"], one.get("name", {}).get("value"))
        for one in nodes
        if not one["ignored"] and "role" in one
    ]
    assert {role for role, _ in named} >= {
        "button",
        "slider",
        "checkbox",
        "combobox",
        "application",
        "main",
        "navigation",
    }
    assert [role for role, name in named if role in roles and not name] == []
    seen = []
    for _ in range(24):
        browser.key("Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(
            browser.ask(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
        )
    assert {"theme", "threshold-slider", "threshold-best", "separation-scaled"} <= set(seen)
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_command_is_copied(browser: Browser, pages: dict[str, Path]) -> None:
    browser.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.open(pages["vector"])
    x, y = centre(browser, "#copy")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseReleased", x, y, button="left", clickCount=1)
    browser.wait("document.getElementById('copied').textContent !== ''")
    assert browser.ask("document.getElementById('copied').textContent") == "Copied."
    assert browser.ask("navigator.clipboard.readText()") == record_of(vector()).command


def test_labelled_can_be_scaled_by_the_prior(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["image"])
    before = browser.ask("document.querySelector('#separation-chart .area-p').getAttribute('d')")
    press(browser, "#separation-scaled")
    assert browser.ask("document.querySelector('#separation-chart .area-p').getAttribute('d')") != before
    assert browser.ask("document.getElementById('separation-hint').checkVisibility()")


def test_hostile_texts_do_nothing(browser: Browser, folder: Path) -> None:
    browser.open(written(folder, *hostile()))
    centre(browser, "#map-canvas")
    browser.ask("document.getElementById('map-canvas').focus()")
    browser.key("Enter")
    press(browser, "[data-list=top] tbody button")
    assert browser.ask("document.images.length") == 0
    assert HOSTILE in browser.ask("document.getElementById('map-tip').textContent")
    assert not [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]


def test_least_that_can_be_shown(browser: Browser, folder: Path) -> None:
    evidence = replace(few(evidence_of(vector())), held_logit=np.zeros(0, np.float32), held_labelled=np.zeros(0, bool))
    browser.open(written(folder, bare_record(), evidence))
    assert browser.ask("document.querySelectorAll('section').length") == 4


def test_what_goes_wrong_is_noticed(started: Browser, folder: Path) -> None:
    path = folder / "wrong.html"
    asks = "<img src='http://127.0.0.1:9/x.png'>"
    path.write_text(f"<!doctype html>{asks}<script>document.documentElement.dataset.ready = true; f()</script>")
    started.open(path)
    assert any("f is not defined" in one for one in complaints(started))
    assert any("ERR_" in one for one in complaints(started))
    assert requests(started)[1:] == ["http://127.0.0.1:9/x.png"]


def test_single_rows_can_be_shown(browser: Browser, folder: Path) -> None:
    fit = vector()
    one = fit.shown(np.array([3]))
    evidence = Evidence(
        points=one,
        place=fit.place[:1],
        top=one,
        unsure=one,
        held_logit=np.array([1.0, -1.0], np.float32),
        held_labelled=np.array([True, False]),
        quantiles=np.array([0.5], np.float32),
        n_unlabelled=1,
    )
    record = bare_record(history=(EpochRecord(1, loss=1.0), EpochRecord(2, loss=1.0)))
    browser.open(written(folder, record, evidence))
    assert figures(browser)["found"] == "1" and figures(browser)["precision"] == "–"
    assert "too few held-out rows" in browser.ask("document.getElementById('threshold-said').textContent")
    press(browser, "#map-in")
    assert browser.ask("document.querySelectorAll('.line-series').length") == 1
