"""The report without a browser: its numbers, its size, what it escapes and what it leaves out."""

import base64
import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from pucl.errors import InputError
from pucl.models.record import CandidateScores, Choices, EpochRecord, TrainingChoices
from pucl.models.schema import Schema
from pucl.report import render
from pucl.report.page_data import as_json
from pucl.report.render import LIMIT, SCRIPTS
from pucl.selection.scores import Estimate, PUScores
from report_examples import (
    HOSTILE,
    bare_record,
    data_of,
    evidence_of,
    few,
    hostile,
    image,
    noise,
    record_of,
    schema_of,
    table,
    vector,
    without_pillow,
)  # fmt: skip

VOID = {"meta", "link", "input", "br", "img", "hr"}
OPTIONAL = (
    *("created", "seconds", "fingerprint", "source", "reasons", "candidates", "metrics", "diagnostics", "warnings"),
    *("history", "command", "verdict", "lift", "importance"),
)


class Outline(HTMLParser):
    """Elements, ids, addresses and whether every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        self.attributes += [(key, value or "") for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        self.attributes += [(key, value or "") for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.attributes if name == key]


def sections_of(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', page)


@pytest.fixture(scope="module", params=[image, table, vector], ids=["image", "table", "vector"])
def page(request: pytest.FixtureRequest) -> str:
    fit = request.param()
    return render(record_of(fit), evidence_of(fit))


def test_page_is_well_formed(page: str) -> None:
    outline = Outline(page)
    assert not outline.open
    assert not [one for one, times in Counter(outline.all("id")).items() if times > 1]
    targets = {address[1:] for address in outline.all("href") if address.startswith("#")}
    assert targets <= set(outline.all("id"))
    assert set(" ".join(outline.all("aria-labelledby")).split()) <= set(outline.all("id"))


def test_page_has_every_section(page: str) -> None:
    expected = (
        "verdict summary warnings prior separation threshold columns review map training method diagnostics reproduce"
    )
    assert sections_of(page) == expected.split()


def test_page_asks_nothing_of_a_network(page: str) -> None:
    assert not re.search(r"(?:https?|wss?|ftp)://", page)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|importScripts", page)
    outline = Outline(page)
    assert all(address.startswith(("#", "data:")) for address in outline.all("href") + outline.all("src"))
    assert not outline.names.keys() & {"img", "iframe", "object", "embed", "base", "form"}


def test_policy_allows_only_what_is_on_the_page(page: str) -> None:
    policy = next(value for value in Outline(page).all("content") if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; ")
    assert "img-src data: blob:" in policy and "unsafe" not in policy
    for tag in ("script", "style"):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert len(found) == 1 and f"{tag}-src 'sha256-{digest}'" in policy


def test_page_is_the_same_every_time() -> None:
    fit = image()
    assert render(record_of(fit), evidence_of(fit)) == render(record_of(fit), evidence_of(fit))


def test_every_script_is_used() -> None:
    folder = files("pucl.report").joinpath("assets")
    assert sorted(SCRIPTS) == sorted(one.name[:-3] for one in folder.iterdir() if one.name.endswith(".js"))
    for one in folder.iterdir():
        text = one.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400
        assert one.name.endswith(".html") or "</" not in text


def test_estimates_and_their_meaning_are_in_the_text() -> None:
    fit = image()
    record = record_of(fit)
    text = render(record, evidence_of(fit))
    assert isinstance(record.metrics, PUScores)
    assert f"{record.metrics.auc.value:.3f}" in text and f"± {record.metrics.auc.error:.3f}" in text
    assert f"interval {record.prior.low:.3f} to {record.prior.high:.3f}" in text
    assert "random sample of all positives" in text
    assert "15 November 2025, 12:17 UTC" in text and "3 min 12 s" in text


def test_tiles_are_what_people_act_on() -> None:
    fit = table()
    page = render(record_of(fit), evidence_of(fit))
    tiles = re.search(r'<dl class="tiles">(.*?)</dl>', page)
    assert tiles is not None
    assert re.findall("<dt>(.*?)</dt>", tiles[1]) == [
        "Positives among the unlabelled", "Rows called positive", "Precision", "Recall of hidden positives",
        "Lift in the top 5%",
    ]  # fmt: skip
    called = int((fit.logit[~fit.labelled] > 0).sum())
    assert f'<dt>Rows called positive</dt><dd class="value">{called:,}</dd>' in tiles[1], "as the threshold says"


def test_candidates_have_the_figures_that_decided() -> None:
    fit = table()
    page = render(record_of(fit), evidence_of(fit))
    row = page[page.index(">linear <") :].partition("</tr>")[0]
    assert "0.974 ± 0.009" in row and "−0.007 ± 0.006" in row and ">80<" in row and "0.949" not in row
    assert "must be higher there by more than one standard error" in page


def test_columns_are_shown_with_their_errors() -> None:
    fit = table()
    page = render(record_of(fit), evidence_of(fit))
    assert '<tr class="chosen"><th scope="row">worst radius</th>' in page and "0.080 ± 0.020" in page
    assert (
        '<tr><th scope="row">mean texture</th>' in page
        and "1 of 2 columns are above two standard errors; by chance alone about 0.0 of 2" in page
    )


def test_what_does_not_vary_is_said_and_not_drawn() -> None:
    fit = vector()
    record, evidence = record_of(fit), evidence_of(fit)
    history = tuple(replace(each, dim=128, rows=256) for each in record.history)
    page = render(replace(record, history=history), evidence)
    assert [one["name"] for one in data_of(page)["history"]] == ["loss", "alignment", "learning_rate"]
    assert "the same in all epochs: dim 128, rows 256." in page
    same = render(record, replace(evidence, held_logit=np.ones_like(evidence.held_logit)))
    assert "all held-out rows have the same score" in same and "separation" not in data_of(same)
    assert set(sections_of(page)) - set(sections_of(same)) == {"threshold"}
    flat = render(record, replace(evidence, place=np.ones_like(evidence.place)))
    assert "all rows have the same embedding" in flat and "map" not in data_of(flat)


def test_how_to_do_it_again() -> None:
    fit = table()
    page = render(record_of(fit), evidence_of(fit))
    section = page[page.index('<section id="reproduce"') :]
    assert "--epochs 60 --seed 0</code>" in section and "<dd>pucl 0.1.0, Python 3.12.1, torch 2.9.0</dd>" in section
    assert "<dd>sha256:7c1e8b52f0</dd>" in section and "<dt>Seed</dt><dd>0</dd>" in section


# What users write


def test_texts_of_users_stay_texts() -> None:
    page = render(*hostile())
    outline = Outline(page)
    assert "<img" not in page and not outline.names["img"]
    assert outline.names["script"] == 2
    assert not [key for key, _ in outline.attributes if key.startswith("on")]
    assert data_of(page)["map"]["id"][0].startswith(HOSTILE)
    assert data_of(page)["lists"]["top"]["columns"][0] == HOSTILE
    page.encode("utf-8")  # halves of surrogate pairs would stop it
    assert "\x00" not in page and "{{script}}" in page and "{{data}}" in page


def test_json_cannot_end_its_element() -> None:
    text = as_json({"a": "</script><!--<script>&\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>&\u2028"}


# What may be missing


@pytest.mark.parametrize("key", OPTIONAL)
def test_missing_sections_are_left_out(key: str) -> None:
    record, evidence = record_of(vector()), evidence_of(vector())
    known = getattr(record, key)
    empty: dict[str, Any] = {key: type(known)() if isinstance(known, tuple | dict) else None}
    page, without = render(record, evidence), render(replace(record, **empty), evidence)
    assert page != without and not Outline(without).open and data_of(without)
    gone = (
        key
        if key in ("warnings", "diagnostics", "verdict")
        else {"history": "training", "importance": "columns"}.get(key)
    )
    assert set(sections_of(page)) - set(sections_of(without)) == ({gone} - {None})


def test_columns_and_shape_come_from_the_schema() -> None:
    fit = table()
    assert "Shape of a row" not in render(record_of(fit), evidence_of(fit))
    page = render(record_of(fit), evidence_of(fit), schema_of(fit))
    assert "8 × 8 × 1" in page and "<summary>30 columns</summary>" in page and "<dt>mean radius</dt>" in page


def test_least_that_can_be_shown() -> None:
    fit = vector()
    record = bare_record()
    page = render(record, few(evidence_of(fit)))
    assert sections_of(page) == ["summary", "prior", "separation", "threshold", "method", "reproduce"]
    none = replace(few(evidence_of(fit)), held_logit=np.zeros(0, np.float32), held_labelled=np.zeros(0, bool))
    assert sections_of(render(record, none)) == ["summary", "prior", "method", "reproduce"]
    assert data_of(render(record, none)) == {"bounded": False, "history": [], "lists": {}, "sheets": {}}


def test_numbers_that_are_not_finite_never_reach_the_page() -> None:
    fit = table()
    logit, place = fit.logit.copy(), fit.place.copy()
    logit[:4] = [np.nan, np.inf, -np.inf, np.nan]
    place[6] = np.nan
    record = record_of(fit)
    assert isinstance(record.metrics, PUScores)
    history = (*record.history[:3], replace(record.history[3], loss=math.nan), *record.history[4:])
    f1 = replace(record.metrics.f1, error=math.inf)
    record = replace(
        record,
        metrics=replace(record.metrics, auc=Estimate(math.nan, 0.1), f1=f1),
        history=history,
        prior=replace(record.prior, low=math.nan),
    )
    with np.errstate(over="ignore"):
        page = render(record, evidence_of(replace(fit, logit=logit, place=place)))
    data = data_of(page)
    assert len(data["map"]["id"]) == len(fit.ids) - 3  # two NaN logits and a place; infinite ones have probabilities
    assert not re.search(r"\bnan\b|\binf\b", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert len(data["history"][0]["values"]) == 59


def test_evidence_must_fit_together() -> None:
    record, evidence = record_of(image()), evidence_of(image())
    pictures = np.zeros((len(evidence.points), 8, 8, 2), np.uint8)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("place must be of shape", {"place": evidence.place[:5]}),
        ("held_labelled must be", {"held_labelled": evidence.held_labelled[:5]}),
        ("top.row must be of length 60", {"top": replace(evidence.top, row=evidence.top.row[:5])}),
        ("points.pictures must be uint8", {"points": replace(evidence.points, pictures=pictures)}),
        ("points must be at most 5,000", {"points": noise(5_001, side=1).shown(np.arange(5_001))}),
    ]
    for message, changed in wrong:
        with pytest.raises(InputError, match=message):
            render(record, replace(evidence, **changed))
    with pytest.raises(InputError, match="prior must be a number strictly between"):
        render(bare_record(1.0), evidence)


# Size


@pytest.mark.slow
@pytest.mark.parametrize("pillow", [True, False], ids=["pillow", "no pillow"])
def test_pictures_of_noise_fit(pillow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pillow:
        without_pillow(monkeypatch)
    fit = noise()
    page = render(record_of(fit), evidence_of(fit))
    assert len(page.encode()) <= LIMIT == 5_000_000
    sheets = data_of(page)["sheets"]
    assert max(sheets["lists"]["size"]) >= 32 and max(sheets["map"]["size"]) >= 16
    assert sum(tile >= 0 for tile in sheets["map"]["tile"]) >= 3_000


def test_texts_without_end_fit() -> None:
    n = 5_000
    fit = replace(noise(n, side=8), ids=tuple("<" * 3_000 for _ in range(n)))
    wide = replace(fit, values={f"{k}{'<' * 200}": ("<" * 500,) * n for k in range(300)})
    texts, long = ("'" * 50_000,) * 5_000, "'" * 100_000
    numbers = (EpochRecord(k, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 3, 1 / 3, 3, 3, 3) for k in range(5_000))
    record = replace(
        record_of(wide),
        warnings=texts,
        diagnostics=texts,
        reasons=texts,
        command=long,
        source=long,
        fingerprint=long,
        pucl_version=long,
        created=long,
        choices=Choices(long, long, long, TrainingChoices(long, long, 1, 1, long, 1.0, 1.0), long),
        candidates=(CandidateScores("'" * 10_000, False, Estimate(0.5, 0.1)),) * 1_000,
        history=tuple(numbers),
    )
    columns = {f"{k}{'<' * 300}": "'" * 300 for k in range(10_000)}
    page = render(record, evidence_of(wide), Schema("table", tuple(range(1, 10_000)), columns))
    assert len(page.encode()) <= LIMIT
    assert "map" in data_of(page)["sheets"]
    assert "… and 4940 more." in page
