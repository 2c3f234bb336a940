"""Reports of made-up fits on real rows: digits as pictures, breast cancer as a table, vectors without names."""

import importlib.util
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from pucl.data import Kind
from pucl.models.evidence import Evidence, Shown
from pucl.models.record import CandidateScores, Choices, EpochRecord, FitRecord, RowCounts, TrainingChoices
from pucl.models.schema import Schema
from pucl.priors import PriorEstimate
from pucl.selection.lift import lift
from pucl.selection.scores import Estimate, pu_scores, ranking_scores
from pucl.selection.verdict import Verdict

HOSTILE = "</script><img src=x onerror=alert(1)>"
SHARE_LABELLED = 0.3
LISTED = 60


@dataclass(frozen=True)
class Fit:
    """Rows with what a model would know of them."""

    kind: Kind
    ids: tuple[str, ...]
    logit: NDArray[np.float32]
    labelled: NDArray[np.bool_]
    place: NDArray[np.float32]
    prior: float
    pictures: NDArray[np.uint8] | None = None
    values: dict[str, tuple[str, ...]] | None = None

    def shown(self, rows: NDArray[np.int64]) -> Shown:
        return Shown(
            ids=tuple(self.ids[i] for i in rows),
            row=rows,
            probability=(1 / (1 + np.exp(-self.logit[rows]))).astype(np.float32),
            labelled=self.labelled[rows],
            pictures=None if self.pictures is None else self.pictures[rows],
            values=None if self.values is None else {k: tuple(v[i] for i in rows) for k, v in self.values.items()},
        )


def evidence_of(fit: Fit) -> Evidence:
    free = np.flatnonzero(~fit.labelled)
    by_chance = free[np.argsort(-fit.logit[free], kind="stable")]
    by_doubt = free[np.argsort(np.abs(fit.logit[free]), kind="stable")]
    held = np.arange(len(fit.logit)) % 2 == 0
    return Evidence(
        points=fit.shown(np.arange(len(fit.logit))),
        place=fit.place,
        top=fit.shown(by_chance[:LISTED]),
        unsure=fit.shown(by_doubt[:LISTED]),
        held_logit=fit.logit[held],
        held_labelled=fit.labelled[held],
        quantiles=np.sort(fit.logit[free]),
        n_unlabelled=len(free),
    )


def record_of(fit: Fit) -> FitRecord:
    held = np.arange(len(fit.logit)) % 2 == 0
    training = TrainingChoices("pucl", "small_image", 60, 256, "lars", 4.0, 1e-4)
    return FitRecord(
        kind=fit.kind,
        rows=RowCounts(len(fit.logit), int(fit.labelled.sum()), int((~fit.labelled).sum())),
        prior=PriorEstimate(fit.prior, fit.prior - 0.035, fit.prior + 0.04, "dedpul"),
        choices=Choices("small_cnn", "prototypes", "nnpu", training),
        reasons=(
            "Encoder small_cnn: pictures of 8 × 8 pixels are too small for a residual network.",
            "Objective pucl: with 160 labelled positives the labels say more than the views alone.",
            "Head nnpu: it had the highest estimated AUC on held-out rows.",
        ),
        candidates=(
            candidate("nnpu", 0.981, 0.952, chosen=True),
            candidate("linear", 0.974, 0.949),
            candidate("nearest_centroid", 0.951, 0.921),
        ),
        metrics=pu_scores(fit.logit[held], fit.labelled[held], prior=fit.prior),
        verdict=Verdict("useful", "a hidden positive ranks above 91% of the unlabelled rows (± 2%; chance is 50%)"),
        lift=lift(fit.logit[held], fit.labelled[held]),
        importance={"worst radius": Estimate(0.08, 0.02), "mean texture": Estimate(0.01, 0.02)},
        diagnostics=(
            "The embedding groups the positives: held-out labelled positives lie in rich clusters (AUC 0.91).",
            "Clusters rich in positives hold 93% of the held-out labelled positives and 31% of the unlabelled rows.",
            "Warning: the two labellers agree on only 88% of the unlabelled rows (kappa 0.61).",
        ),
        warnings=("Only 160 labelled positives: the estimates are coarse; label 40 more to halve their errors.",),
        history=tuple(epoch(k) for k in range(1, 61)),
        seconds=192.4,
        fingerprint="sha256:7c1e8b52f0",
        pucl_version="0.1.0",
        versions={"Python": "3.12.1", "torch": "2.9.0"},
        source={"image": "digits/", "table": "biopsies.csv", "vector": "embeddings.npy"}[fit.kind],
        created="2025-11-15T12:17:00+00:00",
        command="pucl train digits/ --labels labels.csv --objective pucl --head nnpu --epochs 60 --seed 0",
    )


def bounded_record(fit: Fit) -> FitRecord:
    """The record of a fit whose π is only known to be at most 0.46."""
    held, record = np.arange(len(fit.logit)) % 2 == 0, record_of(fit)
    logits, s = fit.logit[held], fit.labelled[held]
    first, second, third = record.candidates
    return replace(
        record,
        prior=PriorEstimate.bound(0.46, "dedpul"),
        metrics=ranking_scores(logits, s),
        verdict=Verdict("weak", "a hidden positive ranks above 68% of the unlabelled rows"),
        lift=lift(logits, s),
        score_ranges={"precision": (0.0, 0.55), "f1": (0.0, 0.61), "accuracy": (0.42, 0.83)},
        candidates=(replace(first, weight=0.75), replace(second, weight=0.25), third),
    )


def bare_record(prior: float = 0.3, **known: Any) -> FitRecord:
    """The least a record holds."""
    estimate = PriorEstimate(prior, prior, prior, "given")
    return FitRecord("vector", RowCounts(2, 1, 1), estimate, Choices("raw", "pupl", "linear"), **known)


def schema_of(fit: Fit) -> Schema:
    return Schema("image", (8, 8, 1), dict.fromkeys(fit.values or {}, "number"))


def candidate(name: str, auc: float, accuracy: float, *, chosen: bool = False) -> CandidateScores:
    difference = None if chosen else Estimate(auc - 0.981, 0.006)
    return CandidateScores(
        name, chosen, Estimate(auc, 0.009), Estimate(accuracy, 0.014), difference=difference, hidden=80
    )


def epoch(k: int) -> EpochRecord:
    wave = 0.03 * np.sin(k)
    return EpochRecord(
        k,
        loss=4.1 + 1.3 * np.exp(-k / 12) + wave,
        learning_rate=0.0015 * (1 + np.cos(np.pi * k / 60)),
        alignment=0.9 - 0.6 * np.exp(-k / 9) + wave / 3,
    )


@cache
def image() -> Fit:
    bunch = load_digits()
    positive = bunch.target % 3 == 0
    ids = tuple(f"digits/{i:04d}.png" for i in range(len(positive)))
    pictures = (255 - bunch.images * 15.9).astype(np.uint8)[..., None]
    return _fit("image", bunch.data, positive, ids, pictures=pictures)


@cache
def table() -> Fit:
    bunch = load_breast_cancer()
    names = (str(name) for name in bunch.feature_names)
    values = {name: tuple(f"{value:.4g}" for value in column) for name, column in zip(names, bunch.data.T, strict=True)}
    ids = tuple(f"B-{i:05d}" for i in range(len(bunch.target)))
    return _fit("table", bunch.data, bunch.target == 0, ids, values=values)


@cache
def vector() -> Fit:
    bunch = load_breast_cancer()
    return _fit("vector", bunch.data, bunch.target == 0, tuple(map(str, range(len(bunch.target)))))


def noise(n: int = 5_000, side: int = 96) -> Fit:
    """The most a report can be asked for: as many points as allowed, pictures that nothing can compress."""
    rng = np.random.default_rng(0)
    logit = rng.normal(-1, 2, n).astype(np.float32)
    return Fit(
        kind="image",
        ids=tuple(f"folder/with/a/rather/long/name/{i:06d}.jpeg" for i in range(n)),
        logit=logit,
        labelled=rng.random(n) < 0.1,
        place=rng.normal(size=(n, 2)).astype(np.float32),
        prior=0.3,
        pictures=rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8),
    )


def _fit(kind: Kind, rows: NDArray[np.float64], positive: NDArray[np.bool_], ids: tuple[str, ...], **shown: Any) -> Fit:
    rng = np.random.default_rng(0)
    scaled = StandardScaler().fit_transform(rows)
    model = LogisticRegression(C=0.002, max_iter=500)
    logit = cross_val_predict(model, scaled, positive, cv=3, method="decision_function").astype(np.float32)
    labelled = positive & (rng.random(len(positive)) < SHARE_LABELLED)
    place = PCA(2, random_state=0).fit_transform(scaled).astype(np.float32)
    prior = float(positive[~labelled].mean())
    return Fit(kind, ids, logit, labelled, place, prior, **shown)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page, re.DOTALL)
    assert found

    def refuse(name: str) -> None:
        pytest.fail(f"{name} in the data")

    data: dict[str, Any] = json.loads(found[1], parse_constant=refuse)
    return data


def hostile() -> tuple[FitRecord, Evidence, Schema]:
    """A record, evidence and a schema whose every text tries to become markup."""
    fit = table()
    values = {HOSTILE: tuple(HOSTILE for _ in fit.ids), **(fit.values or {})}
    odd = replace(fit, ids=tuple(f"{HOSTILE}\u2028\ud800\x00{i}" for i in range(len(fit.ids))), values=values)
    training = TrainingChoices('" onclick="x', HOSTILE, 1, 2, "{{data}}", 1.0, 0.0)
    record = replace(
        record_of(odd),
        source=HOSTILE,
        command=HOSTILE,
        warnings=(HOSTILE,),
        diagnostics=(f"Warning: {HOSTILE}",),
        reasons=(HOSTILE,),
        importance={HOSTILE: Estimate(0.1, 0.01)},
        created=HOSTILE,
        pucl_version=HOSTILE,
        versions={HOSTILE: HOSTILE},
        fingerprint="{{script}}",
        choices=Choices(HOSTILE, HOSTILE, HOSTILE, training, HOSTILE),
        candidates=(CandidateScores(HOSTILE, True, Estimate(0.5, 0.1)),),
        prior=PriorEstimate(fit.prior, 0.1, 0.9, HOSTILE),
    )
    return record, evidence_of(odd), Schema("table", (3,), {HOSTILE: HOSTILE})


def few(evidence: Evidence, **changed: Any) -> Evidence:
    nobody = Shown((), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, bool))
    empty = {"points": nobody, "place": np.zeros((0, 2), np.float32), "top": nobody, "unsure": nobody}
    return replace(evidence, **{**empty, **changed})


def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else real(name))
