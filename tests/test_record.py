"""The record of a fit: what comes back from JSON, models written before, and damaged content."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from model_examples import random_model, resign
from pucl.errors import InputError
from pucl.models.describe import describe
from pucl.models.folder import load_model, read_card, save_model
from pucl.models.record import METRICS, FitRecord, RowCounts, Sampling, within_bounds
from pucl.models.schema import Schema
from pucl.selection import PUScores
from pucl.selection.scores import Estimate
from report_examples import bare_record, bounded_record, image, record_of, table

ABOUT: dict[str, Any] = {  # as models of format 1 have it
    "version": "0.1.0",
    "kind": "vector",
    "rows": {"n": 60, "labelled": 20, "unlabelled": 40},
    "fingerprint": "60 of 60 rows, sha256 88145a",
    "choices": {
        "encoder": "mlp",
        "objective": "pucl",
        "view": "vector",
        "epochs": 5,
        "batch_size": 256,
        "optimiser": "adamw",
        "learning_rate": 0.001,
        "weight_decay": 0.0001,
        "labeller": "stacked",
        "head": "linear",
        "fine_tuned": None,
    },
    "reasons": ["encoder mlp: as asked"],
    "candidates": [
        {
            "name": "trained + stacked + linear",
            "chosen": True,
            "auc": {"value": 0.947, "error": 0.044},
            "accuracy": {"value": 0.95, "error": 0.0385},
        },
        {"name": "raw + cvir + linear", "chosen": False},
    ],
    "prior": {"value": 0.467, "low": 0.31, "high": 0.643, "method": "stacked"},
    "metrics": {name: {"value": 0.9, "error": 0.01} for name in METRICS},
    "diagnostics": ["Rich clusters hold 79% of the held-out labelled positives and 43% of U."],
    "warnings": [],
    "history": [{"epoch": 1, "loss": 5.9, "learning_rate": 3.9, "alignment": 1.06, "dim": 128, "separation": None}],
    "seed": 3,
    "seconds": 14.62,
}


def with_negatives() -> FitRecord:
    record = bounded_record(table())
    assert record.metrics is not None
    known = {"specificity": Estimate(0.9, 0.02), "pn_auc": Estimate(0.8, 0.03)}
    rows = replace(record.rows, unlabelled=record.rows.unlabelled - 50, negative=50)
    return replace(record, rows=rows, metrics=replace(record.metrics, **known))


def of_a_sample() -> FitRecord:
    record = record_of(table())
    all_rows = RowCounts(9_000_000, record.rows.labelled, 9_000_000 - record.rows.labelled)
    return replace(record, sampling=Sampling(all_rows, "file and row number", 3, 1_000, "1,000 rows were asked for."))


RAW = {"encoder": "raw", "objective": None, "labeller": "cvir", "head": "linear", "fine_tuned": None}


@pytest.mark.parametrize(
    "record",
    [record_of(image()), record_of(table()), bare_record(), bounded_record(table()), with_negatives(), of_a_sample()],
    ids=["image", "table", "bare", "bound", "negatives", "sample"],
)
def test_a_record_comes_back_from_json(record: FitRecord) -> None:
    content = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    found = FitRecord.from_dict(content)
    assert found == record and found.to_dict() == record.to_dict()
    assert type(found.metrics) is type(record.metrics)


def test_what_a_sample_says_of_all_rows() -> None:
    record = of_a_sample()
    assert record.all_rows.unlabelled > 1_000 * record.rows.unlabelled and record_of(table()).all_rows == record.rows
    assert "sampling" not in record_of(table()).to_dict()
    lines = describe(record).splitlines()
    n_p, n_u = record.rows.labelled, record.rows.unlabelled
    assert lines[0].startswith(f"Data: 9,000,000 rows (table), {n_p} of them labelled positives.")
    (sample,) = (line for line in lines if line.startswith("Learned from "))
    assert sample == (
        f"Learned from {record.rows.n} of them: all {n_p} labelled positives and a random {n_u} of "
        f"{9_000_000 - n_p:,} unlabelled rows ({100 * n_u / (9_000_000 - n_p):.2g} %), drawn by file and row number "
        "with seed 3. 1,000 rows were asked for."
    )
    (share,) = (line for line in lines if line.startswith("Positives among the unlabelled rows: "))
    expected = record.prior.value * record.all_rows.unlabelled
    assert share.endswith(f" Of all {9_000_000 - n_p:,} unlabelled rows that is about {expected:,.0f}.")


def test_what_only_a_bound_on_the_share_leaves() -> None:
    content = bounded_record(table()).to_dict()
    assert content["record_version"] == 4 and content["prior"]["is_bound"] is True and content["prior"]["low"] == 0
    assert set(content["metrics"]) == {"pu_auc", "recall", "found"}
    assert set(content["score_ranges"]) == {"precision", "f1", "accuracy"}
    assert [one["share"] for one in content["lift"]] == [0.05, 0.1]
    assert content["candidates"][0]["weight"] == 0.75 and "weight" not in content["candidates"][2]


def test_the_about_of_format_1_becomes_a_record() -> None:
    found = FitRecord.from_dict(ABOUT)
    assert (found.pucl_version, found.kind, found.seed, found.seconds) == ("0.1.0", "vector", 3, 14.62)
    assert found.choices.training is not None and found.choices.training.optimiser == "adamw"
    assert found.choices.to_dict() == ABOUT["choices"]
    assert [one.name for one in found.candidates if one.chosen] == ["trained + stacked + linear"]
    assert all(one.pu_auc is None for one in found.candidates), "its AUC was against negatives"
    bound = FitRecord.from_dict({**ABOUT, "prior": {**ABOUT["prior"], "is_bound": True}}).candidates[0]
    assert bound.pu_auc == Estimate(0.947, 0.044), "where π was a bound it was against unlabelled rows"
    assert isinstance(found.metrics, PUScores) and found.metrics.prior == 0.467
    assert found.history[0].numbers() == {"loss": 5.9, "learning_rate": 3.9, "alignment": 1.06, "dim": 128}
    assert found.source is None and found.command is None
    stored = found.to_dict()
    same = ("metrics", "choices", "reasons", "diagnostics")
    assert stored["rows"] == {**ABOUT["rows"], "negative": 0}
    assert {key: stored[key] for key in same} == {key: ABOUT[key] for key in same}
    assert stored["prior"] == {**ABOUT["prior"], "is_bound": False}
    assert (found.verdict, found.lift, found.score_ranges) == (None, (), {})
    raw = FitRecord.from_dict({**ABOUT, "choices": RAW, "metrics": {}, "source": "a.csv", "source_rows": 70})
    assert raw.choices.training is None and raw.choices.to_dict() == RAW and raw.metrics is None
    assert (raw.source, raw.source_rows) == ("a.csv", 70)


def test_a_model_of_format_1_loads_and_predicts_the_same(tmp_path: Path) -> None:
    model = random_model(Schema("vector", (4,)), "mlp")
    folder = save_model(tmp_path, model)
    content = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    del content["record"]
    resign(folder, {**content, "format": 1, "about": ABOUT})
    rows = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    found = load_model(folder)
    assert torch.equal(found.logits(rows), model.logits(rows)) and found.prior == 0.467
    assert read_card(folder).format == 1
    again = load_model(save_model(folder, found))
    assert again.record == found.record and read_card(folder).format == 2
    resign(folder, {**content, "format": 1})
    with pytest.raises(InputError, match="no usable about"):
        load_model(folder)


DAMAGE: list[tuple[str, Any]] = [
    ("kind", "sound"), ("kind", None), ("rows", {"n": 3}), ("rows", [1, 2, 3]), ("rows", {"n": 1.5}),
    ("prior", 0.3), ("prior", {"value": 0.3}), ("prior", {**ABOUT["prior"], "value": 1.2}),
    ("prior", {**ABOUT["prior"], "low": math.nan}), ("choices", {}), ("choices", {**RAW, "encoder": None}),
    ("choices", {**RAW, "objective": "pucl"}), ("reasons", "text"), ("reasons", [3]), ("candidates", {"a": 1}),
    ("candidates", [{}]), ("candidates", [{"name": "a", "pu_auc": 0.5}]), ("metrics", [1]),
    ("metrics", {"auc": {"value": 1, "error": 0}}), ("diagnostics", [None]), ("warnings", None), ("history", [{}]),
    ("history", 3),
    ("history", [{"epoch": 1, "loss": "low"}]), ("seed", "0"), ("seed", True), ("seconds", "long"), ("version", 1),
    ("source", 3), ("source_rows", 1.5), ("verdict", "useful"), ("verdict", {"word": "fine", "reason": ""}),
    ("verdict", {"word": "weak"}), ("lift", [1.0]), ("lift", [{"share": 2, "value": 1, "error": 0}]), ("lift", 3),
    ("score_ranges", {"f1": [0.1]}), ("score_ranges", {"f1": "ab"}), ("score_ranges", [1]),
    ("candidates", [{"name": "a", "weight": 2}]),
    ("candidates", [{"name": "a", "difference": 1}]), ("candidates", [{"name": "a", "hidden": 0.5}]),
    ("importance", {"a": 1}), ("importance", [1]), ("versions", {"a": 1}), ("record_version", 9),
    ("record_version", "one"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), DAMAGE)
def test_damaged_records_are_one_clear_error(key: str, value: Any) -> None:
    with pytest.raises(InputError, match="pucl.load_model: the record of the fit") as caught:
        FitRecord.from_dict({**ABOUT, key: value})
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("key", [key for key in ABOUT if key not in ("seconds", "fingerprint")])
def test_what_a_record_needs(key: str) -> None:
    with pytest.raises(InputError, match=f"damaged .'{key}' is missing.; fit the model again"):
        FitRecord.from_dict({name: value for name, value in ABOUT.items() if name != key})


def test_shares_are_shown_within_their_bounds() -> None:
    scores = record_of(table()).metrics
    assert isinstance(scores, PUScores)
    odd = replace(
        scores, proxy_accuracy=replace(scores.auc, value=1.03), zero_one_risk=replace(scores.auc, value=-0.03)
    )
    found = within_bounds(odd)
    assert (found.proxy_accuracy.value, found.zero_one_risk.value) == (1.0, 0.0)
    assert found.proxy_accuracy.error == odd.proxy_accuracy.error and found.auc == odd.auc
