"""Which modes of fine-tuning a fit compares, and that what it says of them is what it did."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pucl import PUClassifier
from pucl.errors import InputError
from pucl.fitting import tune
from pucl.fitting.modes import FIXED, MODES, MOVING, RENEWED, modes_of
from pucl.heads.momentum import MomentumConfig
from pucl.heads.tuning import TuneConfig


def odd_digits(n: int = 100) -> tuple[Any, Any]:
    bunch = load_digits()
    odd = bunch.target[:n] % 2 == 1
    return bunch.images[:n].astype(np.uint8), (odd & (np.arange(n) % 2 == 0)).astype(int)


def fitted(**options: Any) -> PUClassifier:
    x, s = odd_digits()
    quick: dict[str, Any] = {"encoder": "small_cnn", "epochs": 2, "labeller": "pupl", "head": "linear", "prior": 0.4}
    return PUClassifier(**quick, **options, device="cpu", random_state=0).fit(x, s)


def tried(model: PUClassifier) -> list[str]:
    names = [one.name for one in model.model_.record.candidates]
    return [name.partition(", fine-tuned on ")[2].partition(" +")[0] for name in names if "fine-tuned" in name]


@pytest.mark.parametrize(
    ("value", "modes"),
    [(True, MODES), ("fixed", (FIXED,)), ("renewed", (RENEWED,)), ("moving", (MOVING,)),
     ("all", (FIXED, RENEWED, MOVING))],
)  # fmt: skip
def test_names_of_modes(value: bool | str, modes: tuple[str, ...]) -> None:
    assert modes_of(value) == modes


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "TuneConfig", partial(TuneConfig, epochs=1))
    monkeypatch.setattr(tune, "MomentumConfig", partial(MomentumConfig, epochs=1))


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_all_modes_are_tried_and_the_choice_is_explained() -> None:
    model = fitted(fine_tune="all")
    assert tried(model) == [FIXED, RENEWED, MOVING]
    (chosen,) = (one.name for one in model.model_.record.candidates if one.chosen)
    mode = model.choices_["fine_tuned"]
    assert ("fine-tuned" not in chosen) if mode is None else (f"fine-tuned on {mode}" in chosen)
    assert (
        len([reason for reason in model.reasons_ if " rather than " in reason])
        == len(model.model_.record.candidates) - 1
    )


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_moving_labels_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(tune, "choose", lambda *_: 0)  # fine-tuned, whatever its rank
    model = fitted(fine_tune="moving")
    assert tried(model) == [MOVING] and model.choices_["fine_tuned"] == MOVING
    x, _ = odd_digits()
    model.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model").predict_proba(x)
    np.testing.assert_allclose(again, model.predict_proba(x), atol=1e-4)  # convolutions in another layout


@pytest.mark.parametrize("value", ["movin", 2, None, ["fixed"]])
def test_an_unknown_mode(value: Any) -> None:
    with pytest.raises(InputError, match="PUClassifier: fine_tune must be True, False or one of fixed, renewed"):
        fitted(fine_tune=value)
