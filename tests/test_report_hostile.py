"""The report with texts that want to be more: as HTML, everywhere, and in headless Chromium where there is one."""

import itertools
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pucl.models.evidence import Effect, Evidence, Explained
from pucl.models.record import CandidateScores, Choices, FitRecord, TrainingChoices
from pucl.models.schema import Schema
from pucl.priors import PriorEstimate
from pucl.report import render
from pucl.report.render import LIMIT
from pucl.selection.scores import Estimate
from report_browser import CHROMIUM, Browser, press, written
from report_examples import evidence_of, record_of, table

RAN = "window.ran = 1"
ATTACKS = (
    f"</script><script>{RAN}</script>", f"<script>{RAN}</script>", "<!--<script>", "-->]]></style></title></textarea>",
    f"<img src=x onerror='{RAN}'>", f'"><svg/onload="{RAN}">', f"' onmouseover='{RAN}' autofocus onfocus='{RAN}' x='",
    f"<iframe srcdoc='<script>parent.{RAN}</script>'>", "<iframe src='javascript:parent.ran=1'>", "javascript:ran=1",
    "<a href='javascript:ran=1'>", "<meta http-equiv=refresh content='0;url=http://example.org/'>", "</JSON>",
    "<link rel=stylesheet href=http://example.org/a.css>", "<base href=http://example.org/>", "{{script}}", "{{data}}",
    "<form action=http://example.org><button>", "<style>body{display:none}</style>", "url(http://example.org/a.png)",
    f"${{{RAN}}}", f"`;{RAN};//", f"\\\";{RAN};//", "&lt;script&gt;", "&#60;img&#62;", "\\u003cscript\\u003e",
    "__proto__", "constructor", "toString", "length", "", " ", "٠١٢", "a\r\nb\tc", "\u2028\u2029", "\ufeff",
    "\u202egnp.exe", "\u2066a\u2069\u202d", "\x00\x01\x1b[31m\x7f\x85\x9b", "\ud800", "\udfff\ud800", "\ufffe\uffff",
    "e\u0301" * 300, "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 40, "W" * 1_000_000, "<b>" * 300_000,
)  # fmt: skip
# Drawn by the browser as an order of its own, or not at all.
TURNING = "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def hostile() -> tuple[FitRecord, Evidence, Schema]:
    """Every text of a report in turn is every one of the attacks."""
    fit = table()
    turn = itertools.cycle(ATTACKS)
    some = ATTACKS[:40]
    values = {name: tuple(next(turn) for _ in fit.ids) for name in some}
    odd = replace(fit, ids=tuple(f"{next(turn)[:2000]}{i}" for i in range(len(fit.ids))), values=values)
    training = TrainingChoices(next(turn), next(turn), 1, 2, next(turn), 1.0, 0.0)
    record = replace(
        record_of(odd),
        source=ATTACKS[-2],
        command="\n".join(ATTACKS),
        warnings=ATTACKS,
        diagnostics=ATTACKS,
        reasons=ATTACKS,
        importance={name: Estimate(0.1, 0.01) for name in ATTACKS},
        created=next(turn),
        pucl_version=next(turn),
        versions=dict.fromkeys(ATTACKS, ATTACKS[0]),
        fingerprint=next(turn),
        id_column=ATTACKS[0],
        choices=Choices(next(turn), next(turn), next(turn), training, next(turn)),
        candidates=tuple(CandidateScores(name, True, Estimate(0.5, 0.1)) for name in ATTACKS),
        prior=PriorEstimate(fit.prior, 0.1, 0.9, ATTACKS[4]),
    )
    effects = tuple(Effect(name, name, 0.1) for name in ATTACKS)
    evidence = replace(
        evidence_of(odd), explained=tuple(Explained(name, effects[:8]) for name in (*ATTACKS[:10], "W" * 1000))
    )
    return record, evidence, Schema("table", (3,), dict.fromkeys(ATTACKS, "number"))


@pytest.fixture(scope="module")
def page() -> str:
    return render(*hostile())


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_no_text_becomes_an_element_or_an_attribute(page: str) -> None:
    plain = Elements(render(record_of(table()), evidence_of(table()))).found
    found = Elements(page).found
    assert {tag for tag, _ in found} <= {tag for tag, _ in plain} | {"p", "li", "ul", "ol", "h3", "details", "summary"}
    assert sum(tag == "script" for tag, _ in found) == 2 and sum(tag == "style" for tag, _ in found) == 1
    assert sum(tag == "meta" for tag, _ in found) == sum(tag == "meta" for tag, _ in plain)
    for tag, attributes in found:
        assert not [name for name in attributes if name.startswith("on") or name in ("srcdoc", "action", "autofocus")]
        assert tag not in ("iframe", "img", "base", "form", "object", "embed")
        for name in ("href", "src"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:,"))


def test_the_policy_allows_this_pages_own_script_alone(page: str) -> None:
    (policy,) = (
        str(attributes["content"])
        for tag, attributes in Elements(page).found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"].startswith("'sha256-") and rules["style-src"].startswith("'sha256-")
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy


def test_texts_are_short_and_visible(page: str) -> None:
    data = page.encode()  # halves of surrogate pairs would stop it
    assert len(data) <= LIMIT
    assert not set(page) & {*TURNING, *map(chr, range(9)), "\x0b", "\x0c", "\x1b", "\x7f", "\x85"}
    assert "W" * 20_001 not in page  # the command is the longest text


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_no_script_runs_nothing_is_fetched_and_the_page_works(browser: Browser, report_folder: Path) -> None:
    browser.open(written(report_folder, *hostile()))
    for name in ("top", "unsure"):
        press(browser, f"[data-list={name}] tbody button")
        columns = browser.ask(f"document.querySelectorAll('[data-list={name}] [data-sort] option').length")
        assert columns > 20
        for k in (1, 4, columns - 1):
            chosen = f"document.querySelector('[data-list={name}] [data-sort]')"
            browser.ask(f"{chosen}.value = {k}, {chosen}.dispatchEvent(new Event('change'))")
        press(browser, f"[data-list={name}] [data-more]")
        assert browser.ask(f"document.querySelectorAll('[data-list={name}] tbody tr').length") >= 60
    browser.ask("document.getElementById('map-canvas').focus()")
    browser.key("Enter")
    browser.wait("document.getElementById('map-tip').textContent !== ''")
    press(browser, "#theme")
    press(browser, "#threshold-best")
    browser.settle()
    assert browser.ask("window.ran") is None
    assert browser.ask("document.querySelectorAll('iframe, form, base, object, embed, main img').length") == 0
    assert browser.ask("document.querySelectorAll('script').length") == 2
    assert browser.ask("location.protocol") == "file:"
    assert browser.ask("getComputedStyle(document.body).display") != "none"
    assert browser.ask("({}).polluted === undefined && Object.keys(Object.prototype).length") == 0
    for width in (1280, 390):
        browser.size(width)
        assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.querySelectorAll('section').length") >= 10
    assert not [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_even_a_script_that_got_in_would_not_run(started_browser: Browser, report_folder: Path) -> None:
    started_browser.open(written(report_folder, *hostile()))
    started_browser.ask(
        "document.body.insertAdjacentHTML('beforeend', `<img src=x onerror='window.ran = 1'>`),"
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    refused = started_browser.ask("fetch('http://example.org/').then(() => 'fetched', () => 'refused')")
    started_browser.settle()
    assert refused == "refused" and started_browser.ask("window.ran") is None
