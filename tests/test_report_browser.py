"""The report in headless Chromium: it fits its window, can be reached and read, and keeps quiet."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pucl.models.evidence import Evidence
from pucl.models.record import EpochRecord
from report_browser import (
    CHROMIUM,
    EXAMPLES,
    FAINT_TEXTS,
    Browser,
    centre,
    complaints,
    figures,
    press,
    requests,
    size_of,
    written,
)
from report_examples import HOSTILE, bare_record, evidence_of, few, hostile, record_of, vector

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
SIZES = {1280: False, 390: True}
STICKS_OUT = "e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.unseen')"
SCROLLS = "e.scrollWidth > e.clientWidth + 1"


@pytest.mark.slow
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_page_fits_its_window(
    browser: Browser, report_pages: dict[str, Path], tmp_path: Path, name: str, width: int
) -> None:
    browser.size(width, mobile=SIZES[width])
    browser.open(report_pages[name])
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
def test_page_fits_windows_in_between(browser: Browser, report_pages: dict[str, Path], name: str) -> None:
    browser.open(report_pages[name])
    for width in (320, 480, 641, 768, 900, 1021, 1600):
        browser.size(width)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(f"[...document.querySelectorAll('body *')].filter(e => {STICKS_OUT}).length") == 0


def test_theme_follows_the_system_until_it_is_chosen(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["vector"])
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
    browser.open(report_pages["vector"])
    assert browser.ask(background) == light
    press(browser, "#theme")
    assert browser.ask(background) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(browser: Browser, report_pages: dict[str, Path], scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(report_pages["table"])
    assert browser.ask(FAINT_TEXTS) == []


def test_controls_have_names_and_can_be_reached(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.open(report_pages["table"])
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


def test_command_is_copied(browser: Browser, report_pages: dict[str, Path]) -> None:
    browser.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.open(report_pages["vector"])
    x, y = centre(browser, "#copy")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseReleased", x, y, button="left", clickCount=1)
    browser.wait("document.getElementById('copied').textContent !== ''")
    assert browser.ask("document.getElementById('copied').textContent") == "Copied."
    assert browser.ask("navigator.clipboard.readText()") == record_of(vector()).command


def test_hostile_texts_do_nothing(browser: Browser, report_folder: Path) -> None:
    browser.open(written(report_folder, *hostile()))
    centre(browser, "#map-canvas")
    browser.ask("document.getElementById('map-canvas').focus()")
    browser.key("Enter")
    press(browser, "[data-list=top] tbody button")
    assert browser.ask("document.images.length") == 0
    assert HOSTILE in browser.ask("document.getElementById('map-tip').textContent")
    assert not [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]


def test_least_that_can_be_shown(browser: Browser, report_folder: Path) -> None:
    evidence = replace(few(evidence_of(vector())), held_logit=np.zeros(0, np.float32), held_labelled=np.zeros(0, bool))
    browser.open(written(report_folder, bare_record(), evidence))
    assert browser.ask("document.querySelectorAll('section').length") == 4


def test_what_goes_wrong_is_noticed(started_browser: Browser, report_folder: Path) -> None:
    path = report_folder / "wrong.html"
    asks = "<img src='http://127.0.0.1:9/x.png'>"
    path.write_text(f"<!doctype html>{asks}<script>document.documentElement.dataset.ready = true; f()</script>")
    started_browser.open(path)
    assert any("f is not defined" in one for one in complaints(started_browser))
    assert any("ERR_" in one for one in complaints(started_browser))
    assert requests(started_browser)[1:] == ["http://127.0.0.1:9/x.png"]


@pytest.mark.slow
def test_single_rows_can_be_shown(browser: Browser, report_folder: Path) -> None:
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
    record = bare_record(history=(EpochRecord(1, loss=1.0), EpochRecord(2, loss=0.9)))
    browser.open(written(report_folder, record, evidence))
    assert figures(browser)["called"] == "1" and figures(browser)["precision"] == "–"
    assert "Too few held-out rows" in browser.ask("document.getElementById('threshold-said').textContent")
    press(browser, "#map-in")
    assert browser.ask("document.querySelectorAll('.line-series').length") == 1
