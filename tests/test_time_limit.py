"""What a fit leaves out: the encoder where fast rankers separate the classes, and whatever the time limit forbids."""

import time
from itertools import accumulate, chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from estimator_examples import gaussians
from pucl import PUClassifier
from pucl.errors import InputError
from pucl.models.folder import read_card
from pucl.ranking.averaging import MEMBERS

from conftest import Command

Array = np.ndarray[Any, np.dtype[Any]]
SKIPPED = "Not tried within the time limit: "
LATER = "; ".join(name for member in MEMBERS[1:] for name in member.names)


class TrainedError(Exception):
    """Somebody trains an encoder."""


@pytest.fixture
def training_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TrainedError

    monkeypatch.setattr("pucl.fitting.encode.pretrain", fail)


def vectors(gap: float, n: int = 5000) -> tuple[Array, Array]:
    """Vectors of 128 numbers, a fifth of them positive and `gap` standard deviations off, 100 labelled."""
    r = np.random.default_rng(0)
    y = np.arange(n) < n // 5
    x = r.standard_normal((n, 128)) + gap / 128**0.5 * y[:, None]
    return x.astype(np.float32), (np.arange(n) < 100).astype(int)


def images(n: int = 500) -> tuple[Array, Array]:
    """Small pictures, the first half bright, every fifth of these labelled."""
    r = np.random.default_rng(0)
    y = np.arange(n) < n // 2
    x = r.integers(0, 156, size=(n, 8, 8)) + 60 * y[:, None, None]
    return x.astype(np.uint8), (y & (np.arange(n) % 5 == 0)).astype(int)


@pytest.mark.slow
@pytest.mark.usefixtures("training_fails")
def test_no_encoder_is_trained_where_fast_rankers_separate_the_classes() -> None:
    x, s = vectors(8.0)
    model = PUClassifier(random_state=0).fit(x, s)
    why = "No pretraining: fast rankers separate the classes already."
    assert model.model_.schema.kind == "vector" and why in model.reasons_ and f"  - {why}" in model.summary()
    assert model.choices_["encoder"] == "raw" and model.choices_["head"] == "blend" and model.history_ == []
    assert not model.prior_is_bound_ and model.predict(x)[:1000].mean() > 0.95


@pytest.mark.slow
@pytest.mark.usefixtures("training_fails")
@pytest.mark.parametrize("how", [{"encoder": "mlp"}, {"objective": "sscl"}, {"epochs": 2}])
def test_an_encoder_that_is_asked_for_is_trained(how: dict[str, Any]) -> None:
    with pytest.raises(TrainedError):
        PUClassifier(random_state=0, **how).fit(*vectors(8.0))


@pytest.mark.slow
@pytest.mark.usefixtures("training_fails")
def test_an_encoder_is_trained_where_fast_rankers_do_not_separate_the_classes() -> None:
    with pytest.raises(TrainedError):
        PUClassifier(random_state=0).fit(*vectors(1.0))


def test_a_table_in_no_time_is_ranked_by_the_fastest() -> None:
    x, s, y = gaussians(300)
    model = PUClassifier(random_state=0, time_limit=1e-3).fit(x, s)
    assert f"{SKIPPED}{LATER}." in model.reasons_ and f"{SKIPPED}{LATER}." in model.summary()
    assert any(reason.startswith(f"Ranks are averaged: 100 % {MEMBERS[0].names[0]}") for reason in model.reasons_)
    assert (model.predict(x) == y).mean() > 0.95 and model.verdict_.startswith("useful")
    assert [each.name for each in model.model_.record.candidates[1:]] == list(MEMBERS[0].names)


@pytest.mark.slow
def test_time_enough_leaves_nothing_out() -> None:
    x, s, _ = gaussians(100)
    model, free = (PUClassifier(random_state=0, time_limit=limit).fit(x, s) for limit in (3600, None))
    assert model.reasons_ == free.reasons_ and not any(SKIPPED in reason for reason in model.reasons_)
    assert np.array_equal(model.decision_function(x), free.decision_function(x))


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), "x", True, [3]])
def test_limits_that_are_none(limit: Any) -> None:
    with pytest.raises(InputError, match=r"^PUClassifier: time_limit must be a finite number > 0; got [^\n]*$"):
        PUClassifier(time_limit=limit).fit(*gaussians(60)[:2])


def clock(*seconds: float) -> SimpleNamespace:
    """A `time` whose counter has moved on by so many seconds at every look at it, and stands still after the last."""
    times = [time.perf_counter() + passed for passed in accumulate(seconds)]
    reading = chain(times, repeat(times[-1]))
    return SimpleNamespace(perf_counter=lambda: next(reading))


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_images_are_learnt_for_fewer_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """375 of 500 rows in 150 s, so 200 s an epoch, and half of 850 s: two epochs."""
    x, s = images()
    monkeypatch.setattr("pucl.fitting.encode.time", clock(0.0, 150.0))
    model = PUClassifier(random_state=0, time_limit=1000, device="cpu").fit(x, s)
    assert "Training: stopped after 2 epochs of 60 planned, to keep the time limit." in model.reasons_
    assert "stopped after 2 epochs" in model.summary()
    assert len(model.history_) == (2 if model.choices_["encoder"] == "small_cnn" else 0)
    assert model.predict(x).shape == (500,)


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
@pytest.mark.parametrize(("rows", "how"), [(images, {}), (lambda: gaussians(600)[:2], {"encoder": "mlp"})])
def test_no_time_for_an_epoch(rows: Any, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, s = rows()
    monkeypatch.setattr("pucl.fitting.encode.time", clock(0.0, 999.0))
    model = PUClassifier(random_state=0, time_limit=1000, device="cpu", **how).fit(x, s)
    assert model.reasons_[0] == "No pretraining: no time for it." and model.history_ == []
    assert model.predict(x).shape == (len(x),)


@pytest.mark.usefixtures("one_draw")
def test_candidates_that_were_not_compared_are_named() -> None:
    """Raw images have several candidates; after the deadline only the first is judged, and the others are named."""
    x, s = images(60)
    model = PUClassifier(random_state=0, encoder="raw", time_limit=1e-3, device="cpu").fit(x, s)
    names = [each.name for each in model.model_.record.candidates]
    free = PUClassifier(random_state=0, encoder="raw", device="cpu").fit(x, s)
    everything = [each.name for each in free.model_.record.candidates]
    assert len(names) == 1 and set(names) < set(everything)
    said = next(reason for reason in model.reasons_ if reason.startswith(SKIPPED))
    assert said == f"{SKIPPED}{'; '.join(name for name in everything if name not in names)}."


def test_the_command_keeps_to_the_limit(pucl: Command) -> None:
    fit = ("fit", "people.csv", "--label", "known", "--id-column", "id", "--out", "model")
    run = pucl(*fit, "--time-limit", "0.001")
    assert run.code == 0 and run.err == "" and f"{SKIPPED}{LATER}." in run.out
    assert any(LATER in reason for reason in read_card(Path("model")).record.reasons)
    scored = pucl("predict", "model", "people.csv", "--top", "20", "--out", "s.csv")
    assert scored.code == 0 and Path("s.csv").read_text(encoding="utf-8").count("\n") == 61


@pytest.mark.parametrize("limit", ["0", "-3", "nan"])
def test_the_command_refuses_limits_that_are_none(pucl: Command, limit: str) -> None:
    run = pucl("fit", "people.csv", "--label", "known", "--time-limit", limit, "--out", "model")
    assert run.code == 2 and run.out == "" and run.err.count("\n") == 1 and not Path("model").exists()
    assert run.err.startswith("pucl fit: --time-limit must be a finite number > 0; got ")
