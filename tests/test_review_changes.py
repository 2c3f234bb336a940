"""What a new fit changed: drift of new rows, answers that look wrong, and what is printed of it."""

from dataclasses import replace

import numpy as np
import pytest

from model_examples import random_model
from pucl.data.own import read
from pucl.fitting.from_files import FittedFiles
from pucl.models.evidence import keys_of
from pucl.models.model import Model
from pucl.models.schema import Schema
from pucl.priors import PriorEstimate
from pucl.review.changes import Changes, doubts
from pucl.review.drift import FEWEST, Drift, drift
from pucl.selection.scores import Estimate
from review_examples import cloud


def test_rows_of_one_source_look_alike_and_others_do_not() -> None:
    new = np.arange(1000) >= 700
    for seed in range(5):
        same = drift(cloud(1000, seed=seed), new)
        assert same is not None and not same.found and "look like the 700 old ones" in str(same)
    moved = drift(np.concatenate([cloud(700), cloud(300, seed=1, far=0.7)]), new)
    assert moved is not None and moved.found and moved.auc > 0.75
    assert str(moved).startswith("The 300 new rows differ strongly from the 700 old ones (AUC 0.")


def test_a_difference_that_no_single_column_shows() -> None:
    x = cloud(1200)
    x[600:, 1] = np.where(x[600:, 0] > 0, np.abs(x[600:, 1]), -np.abs(x[600:, 1]))  # the signs agree in new rows
    found = drift(x, np.arange(1200) >= 600)
    assert found is not None and found.found and found.auc > 0.65


def test_few_rows_tell_nothing() -> None:
    assert drift(cloud(500), np.arange(500) < FEWEST - 1) is None
    assert drift(cloud(500), np.arange(500) < FEWEST) is not None


def test_keys_of_ids_are_those_of_their_texts() -> None:
    assert keys_of([17, "17"])[0] == keys_of([17, "17"])[1]
    assert len(set(keys_of(range(10_000)).tolist())) == 10_000


@pytest.fixture
def model() -> Model:
    return random_model(Schema("vector", (4,)), "mlp")


def test_answers_that_the_model_strongly_disagrees_with(model: Model) -> None:
    n = 60
    data = read(cloud(n), positives=list(range(20)))
    logits = np.concatenate([np.linspace(1, 3, 20), np.full(n - 20, -1.0)])
    logits[[30, 31, 32]] = 2.9, 0.5, -5.0
    answers = np.full(n, np.nan)
    answers[[30, 31, 32, 33]] = 0, 0, 1, 0
    found = doubts(FittedFiles(model, data, logits, answers))
    assert [(each.id, each.answer) for each in found] == [("32", "positive"), ("30", "negative")]
    assert found[0].above == 0 and found[1].above == pytest.approx(0.95)
    assert doubts(FittedFiles(model, data, logits)) == []


def test_what_is_printed() -> None:
    bound, known = PriorEstimate.bound(0.6, "bbe"), PriorEstimate(0.3, 0.25, 0.35, "bbe")
    found = Changes(
        known, Estimate(0.9, 0.01), 100, bound, Estimate(0.8, 0.02), 7, 3, Drift(0.52, 0.02, 30, 70), 12, ("a", "b")
    )
    assert str(found).splitlines() == [
        "Positives among the unlabelled rows: at most 60 % → 0.300 (0.250 to 0.350)",
        "AUC of hidden positives: 0.800 ± 0.020 → 0.900 ± 0.010",
        "Labels: 10 of 100 rows changed (7 to positive, 3 to negative)",
        "The 30 new rows look like the 70 old ones (AUC 0.52 ± 0.02; 0.5 means alike).",
        "Answers that count: 12",
        "Answers that contradict each other, left out and asked again: a, b",
    ]
    assert str(replace(found, prior_before=None, drift=None, contradictions=())) == "Answers that count: 12"
