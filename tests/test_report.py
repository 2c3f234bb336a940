"""The report without a browser: its numbers, its size, what it escapes and what it leaves out."""

import base64
import hashlib
import importlib.util
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
from pucl.models.evidence import Evidence, Shown
from pucl.report import render
from pucl.report.embed import as_json
from pucl.report.render import LIMIT, SCRIPTS
from report_examples import about_of, evidence_of, image, noise, table, vector

HOSTILE = "</script><img src=x onerror=alert(1)>"
VOID = {"meta", "link", "input", "br", "img", "hr"}
OPTIONAL = (
    *("version", "created", "seed", "seconds", "fingerprint", "source", "schema", "choices", "reasons"),
    *("candidates", "metrics", "diagnostics", "warnings", "history", "command"),
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


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page, re.DOTALL)
    assert found

    def refuse(name: str) -> None:
        pytest.fail(f"{name} in the data")

    data: dict[str, Any] = json.loads(found[1], parse_constant=refuse)
    return data


def sections_of(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', page)


@pytest.fixture(scope="module", params=[image, table, vector], ids=["image", "table", "vector"])
def page(request: pytest.FixtureRequest) -> str:
    fit = request.param()
    return render(about_of(fit), evidence_of(fit))


def test_page_is_well_formed(page: str) -> None:
    outline = Outline(page)
    assert not outline.open
    assert not [one for one, times in Counter(outline.all("id")).items() if times > 1]
    targets = {address[1:] for address in outline.all("href") if address.startswith("#")}
    assert targets <= set(outline.all("id"))
    assert set(" ".join(outline.all("aria-labelledby")).split()) <= set(outline.all("id"))


def test_page_has_every_section(page: str) -> None:
    expected = "summary warnings prior separation threshold review map training method diagnostics reproduce"
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
    assert render(about_of(fit), evidence_of(fit)) == render(about_of(fit), evidence_of(fit))


def test_every_script_is_used() -> None:
    folder = files("pucl.report").joinpath("assets")
    assert sorted(SCRIPTS) == sorted(one.name[:-3] for one in folder.iterdir() if one.name.endswith(".js"))
    for one in folder.iterdir():
        text = one.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400
        assert one.name.endswith(".html") or "</" not in text


def test_estimates_and_their_meaning_are_in_the_text() -> None:
    fit = image()
    about = about_of(fit)
    text = render(about, evidence_of(fit))
    assert f"{about['metrics']['auc']['value']:.3f}" in text
    assert f"± {about['metrics']['auc']['error']:.3f}" in text
    assert f"interval {about['prior']['low']:.3f} to {about['prior']['high']:.3f}" in text
    assert "random sample of all positives" in text
    assert "15 November 2025, 12:17 UTC" in text and "3 min 12 s" in text


# What users write


def hostile() -> tuple[dict[str, Any], Evidence]:
    fit = table()
    values = {HOSTILE: tuple(HOSTILE for _ in fit.ids), **(fit.values or {})}
    odd = replace(fit, ids=tuple(f"{HOSTILE}\u2028\ud800\x00{i}" for i in range(len(fit.ids))), values=values)
    about = about_of(odd) | {
        "source": HOSTILE,
        "command": HOSTILE,
        "warnings": [HOSTILE],
        "diagnostics": [f"Warning: {HOSTILE}"],
        "reasons": [HOSTILE],
        "kind": HOSTILE,
        "created": HOSTILE,
        "version": HOSTILE,
        "fingerprint": "{{script}}",
        "choices": {HOSTILE: HOSTILE, '" onclick="x': ["{{data}}"]},
        "schema": {"shape": [HOSTILE], "columns": {HOSTILE: HOSTILE}},
        "metrics": {HOSTILE: {"value": 0.5, "error": 0.1}},
        "candidates": [{"name": HOSTILE, "auc": {"value": 0.5, "error": 0.1}, "chosen": True}],
        "history": [{"epoch": k, HOSTILE: k} for k in range(1, 4)],
        "prior": {"value": fit.prior, "low": 0.1, "high": 0.9, "method": HOSTILE},
    }
    return about, evidence_of(odd)


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
    about, evidence = about_of(vector()), evidence_of(vector())
    without = {name: value for name, value in about.items() if name != key}
    assert render(without, evidence) == render(about | {key: None}, evidence)
    gone = {"warnings": "warnings", "history": "training", "diagnostics": "diagnostics"}.get(key)
    assert set(sections_of(render(about, evidence))) - set(sections_of(render(without, evidence))) == ({gone} - {None})


@pytest.mark.parametrize("value", [[], {}, "", "text", 3, math.nan, [None], [{}], {"a": None}])
def test_odd_sections_do_not_break_the_page(value: Any) -> None:
    about, evidence = about_of(vector()), evidence_of(vector())
    page = render(about | dict.fromkeys(OPTIONAL, value), evidence)
    assert not Outline(page).open and data_of(page)


def few(evidence: Evidence, **changed: Any) -> Evidence:
    nobody = Shown((), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, bool))
    empty = {"points": nobody, "place": np.zeros((0, 2), np.float32), "top": nobody, "unsure": nobody}
    return replace(evidence, **{**empty, **changed})


def test_least_that_can_be_shown() -> None:
    fit = vector()
    about = {"kind": "vector", "rows": {}, "prior": 0.3}
    page = render(about, few(evidence_of(fit)))
    assert sections_of(page) == ["summary", "prior", "separation", "threshold", "reproduce"]
    none = replace(few(evidence_of(fit)), held_logit=np.zeros(0, np.float32), held_labelled=np.zeros(0, bool))
    assert sections_of(render(about, none)) == ["summary", "prior", "reproduce"]
    assert data_of(render(about, none)) == {"history": [], "lists": {}, "sheets": {}}


def test_numbers_that_are_not_finite_never_reach_the_page() -> None:
    fit = table()
    logit, place = fit.logit.copy(), fit.place.copy()
    logit[:4] = [np.nan, np.inf, -np.inf, np.nan]
    place[6] = np.nan
    about = about_of(fit)
    about["metrics"]["auc"] = {"value": math.nan, "error": 0.1}
    about["metrics"]["f1"]["error"] = math.inf
    about["history"][3]["loss"] = math.nan
    about["prior"]["low"] = math.nan
    with np.errstate(over="ignore"):
        page = render(about, evidence_of(replace(fit, logit=logit, place=place)))
    data = data_of(page)
    assert len(data["map"]["id"]) == len(fit.ids) - 3  # two NaN logits and a place; infinite ones have probabilities
    assert not re.search(r"\bnan\b|\binf\b", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert len(data["history"][0]["values"]) == 59


@pytest.mark.parametrize("missing", ["kind", "rows", "prior"])
def test_what_is_needed_is_asked_for(missing: str) -> None:
    about = about_of(vector()) | {missing: None}
    with pytest.raises(InputError, match=f"about must be the content of model.json.*nothing for {missing}"):
        render(about, evidence_of(vector()))


def test_evidence_must_fit_together() -> None:
    about, evidence = about_of(image()), evidence_of(image())
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
            render(about, replace(evidence, **changed))
    with pytest.raises(InputError, match="prior must be a number strictly between"):
        render(about | {"prior": {"value": 1.0}}, evidence)


# Size


def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else real(name))


@pytest.mark.parametrize("pillow", [True, False], ids=["pillow", "no pillow"])
def test_pictures_of_noise_fit(pillow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pillow:
        without_pillow(monkeypatch)
    fit = noise()
    page = render(about_of(fit), evidence_of(fit))
    assert len(page.encode()) <= LIMIT == 5_000_000
    sheets = data_of(page)["sheets"]
    assert max(sheets["lists"]["size"]) >= 32 and max(sheets["map"]["size"]) >= 16
    assert sum(tile >= 0 for tile in sheets["map"]["tile"]) >= 3_000


def test_texts_without_end_fit() -> None:
    n = 5_000
    fit = replace(noise(n, side=8), ids=tuple("<" * 3_000 for _ in range(n)))
    wide = replace(fit, values={f"{k}{'<' * 200}": ("<" * 500,) * n for k in range(300)})
    about = about_of(wide)
    about |= {key: ["'" * 50_000] * 5_000 for key in ("warnings", "diagnostics", "reasons")}
    about |= dict.fromkeys(("command", "source", "fingerprint", "version", "created"), "'" * 100_000)
    about["choices"] = {f"{k}{'<' * 100}": "'" * 10_000 for k in range(1_000)}
    about["schema"] = {"shape": list(range(10_000)), "columns": {f"{k}{'<' * 300}": "'" * 300 for k in range(10_000)}}
    about["candidates"] = [{"name": "'" * 10_000, "auc": 0.5}] * 1_000
    about["metrics"] = {f"{k}{'<' * 1_000}": 0.5 for k in range(1_000)}
    about["history"] = [{f"{k}{'<' * 1_000}": 1 / 3 for k in range(30)} for _ in range(5_000)]
    page = render(about, evidence_of(wide))
    assert len(page.encode()) <= LIMIT
    assert "map" in data_of(page)["sheets"]
    assert "… and 4940 more." in page
