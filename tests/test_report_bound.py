"""The report where the share of positives is only bounded, the verdict, and the lift; in text and in a browser."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pucl.priors import PriorEstimate
from pucl.report import render
from pucl.report.page_data import thresholds
from pucl.selection import Verdict, pu_scores
from report_browser import CHROMIUM, FAINT_TEXTS, Browser, complaints, press, written
from report_examples import bounded_record, data_of, evidence_of, image, record_of, schema_of, table

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


def sections_of(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', page)


def plain_text(page: str) -> str:
    """What a reader sees without scripts."""
    body = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_the_verdict_comes_first() -> None:
    fit = table()
    record = record_of(fit)
    page = render(record, evidence_of(fit))
    assert sections_of(page)[:2] == ["verdict", "summary"] and 'id="verdict" class="useful"' in page
    assert ">Verdict: useful</h2><p>A hidden positive ranks above 91%" in page
    bad = replace(record, verdict=Verdict("do not use", "it calls 100% positive"))
    assert 'class="do-not-use"' in render(bad, evidence_of(fit))
    assert "verdict" not in sections_of(render(replace(record, verdict=None), evidence_of(fit)))


def test_the_lift_is_shown_in_any_case() -> None:
    fit = table()
    for record in (record_of(fit), bounded_record(fit)):
        page = render(record, evidence_of(fit))
        first, second = record.lift
        assert f'<dt>Lift in the top {first.share:.0%}</dt><dd class="value">{first.value:.1f}' in page
        assert f"It is {second.value:.1f} in the top {second.share:.0%}." in page


def test_a_bound_shows_no_figure_that_rests_on_it() -> None:
    fit = table()
    record = bounded_record(fit)
    page = render(record, evidence_of(fit), schema_of(fit))
    words = plain_text(page)
    assert "at most 46 %, it could be far less; nothing in this data can tell; pass prior= (--prior)" in words
    assert "π ≤ 0.460" in words and 'class="point"' not in page
    assert words.index("Precision") < words.index("Recall of") < words.index("Lift in the top") < words.index("AUC, la")
    for figure in ("Precision at most 0.55", "F1 at most 0.61", "Accuracy 0.42 to 0.83"):
        assert figure in words
    assert "robability of being positive" not in words and "robabilities closest" not in words
    assert "Best F1" not in words and "Scale the labelled positives by π" not in words
    data = data_of(page)
    assert data["bounded"] is True and data["separation"]["auc"] is None
    assert "at most 46% At most" in words and ">Weight<" in page and "75%" in words
    open_end = replace(record, prior=PriorEstimate.bound(1.0, "dedpul"), score_ranges={"precision": (0.0, 1.0)})
    assert "Precision not known" in plain_text(render(open_end, evidence_of(fit)))


def test_the_most_that_precision_can_be_is_that_of_the_bound() -> None:
    fit = table()
    record, evidence = bounded_record(fit), evidence_of(fit)
    at = thresholds(record, evidence)
    scores = pu_scores(evidence.held_logit, evidence.held_labelled, prior=0.46, threshold=at.threshold[at.half])
    assert at.precision[at.half] == pytest.approx(scores.precision.value)
    assert at.lift[at.half] == pytest.approx(scores.recall.value / scores.found.value)


@in_a_browser
@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_with_a_bound_works(browser: Browser, report_folder: Path, width: int, scheme: str) -> None:
    fit = image()
    browser.prefer(scheme)
    browser.size(width)
    browser.open(written(report_folder, bounded_record(fit), evidence_of(fit), schema_of(fit)))
    browser.settle()
    assert not complaints(browser) and not browser.ask(FAINT_TEXTS)
    assert browser.ask("document.documentElement.scrollWidth") <= width


@in_a_browser
def test_the_slider_shows_the_most_there_can_be(browser: Browser, report_folder: Path) -> None:
    fit = table()
    record, evidence = bounded_record(fit), evidence_of(fit)
    browser.open(written(report_folder, record, evidence, schema_of(fit)))
    at, slider = thresholds(record, evidence), "document.getElementById('threshold-slider')"
    for i in (at.half, at.half - 90):
        browser.ask(f"{slider}.value = {i}; {slider}.dispatchEvent(new Event('input'))")
        said = browser.ask("document.getElementById('threshold-said').textContent")
        most = f"at most {at.precision[i]:.2f}" if at.precision[i] < 0.995 else "not known"
        assert browser.ask("document.getElementById('threshold-precision').textContent") == most
        assert float(browser.ask("document.getElementById('threshold-lift').textContent")) == round(at.lift[i], 1)
        assert f"about {at.recall[i]:.0%} of the positives" in said and ("not known" in said) == (most == "not known")
    assert at.precision[at.half - 90] < 0.995, "both sentences were seen"
    press(browser, "#threshold-half")
    assert int(browser.ask(f"{slider}.value")) == at.half
    assert browser.ask("document.getElementById('threshold-value').textContent") == "0.00"


@in_a_browser
def test_lists_have_scores_instead_of_probabilities(browser: Browser, report_folder: Path) -> None:
    fit = table()
    evidence = evidence_of(fit)
    browser.open(written(report_folder, bounded_record(fit), evidence, schema_of(fit)))
    row = "document.querySelector('[data-list=top] table')"
    assert browser.ask(f"{row}.rows[0].cells[2].textContent") == "Score"
    best = float(fit.logit[evidence.top.row[0]])
    assert float(browser.ask(f"{row}.rows[1].cells[2].textContent")) == pytest.approx(best, abs=0.006)
