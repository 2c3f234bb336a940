"""What a method may see, and the truth that it may not."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.bench.run import exam as exams
from pucl.bench.run import work
from pucl.bench.run.exam import ObservedRows, pose
from pucl.bench.run.stages import Embedded, fit_readout
from pucl.data import Dataset, load
from pucl.encoders.plain import raw_encoder
from pucl.errors import InputError
from pucl.pseudo_labels import pseudo_label
from pucl.ranking.prior import estimate_prior
from pucl.training.pretraining import prepare

from bench_examples import RECIPE, SMALL, baseline, cells_in, cells_of, done, run_unit


def test_all_methods_see_the_same_labelled_rows() -> None:
    (one,), (other,) = cells_of(), cells_of(objectives=["sscl"], readouts=["auto"])
    sets = [pose(cell.place)[0] for cell in (one, other, baseline())]
    for seen in sets[1:]:
        assert np.array_equal(seen.x, sets[0].x) and np.array_equal(seen.s, sets[0].s)
    again = pose(replace(one.place, seed=1))[0]
    assert again.x.shape != sets[0].x.shape or not np.array_equal(again.x[again.s], sets[0].x[sets[0].s])
    assert {field.name for field in fields(ObservedRows)} == {"x", "s", "seed"}


class Sealed:
    """Test labels that nobody may touch but who grades."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"a test label was read: {name}")


@pytest.fixture
def seals(monkeypatch: pytest.MonkeyPatch) -> list[Sealed]:
    """Every data set has sealed test labels, which only the functions that measure open. Gives the seals."""
    found: list[Sealed] = []

    def load_sealed(name: str, *, seed: int) -> Dataset:
        data = load(name, seed=seed)
        found.append(Sealed(data.y_test))
        return replace(data, y_test=found[-1])  # type: ignore[arg-type]

    def opening(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **how: function(*(x.values if isinstance(x, Sealed) else x for x in given), **how)

    monkeypatch.setattr(exams, "load", load_sealed)
    for name in ("evaluate", "knn_accuracy", "linear_probe_accuracy"):
        monkeypatch.setattr(exams, name, opening(getattr(exams, name)))
    return found


def test_no_test_label_reaches_what_is_fitted(
    seals: list[Sealed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unit in (cells_of(readouts=["pupl"]), [baseline()], cells_of(readouts=["ceiling"])):
        (outcome,) = run_unit(unit, tmp_path)
        assert 30 < done(outcome).accuracy <= 100
    assert len(seals) == 3
    monkeypatch.setattr(work, "fit_readout", lambda *_: float(np.asarray(seals[-1]).mean()))
    (outcome,) = run_unit(cells_of(readouts=["pupl"]), tmp_path)
    assert outcome.failed is not None and "a test label was read" in outcome.failed


def test_an_encoder_does_not_see_withheld_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def watched(x: Any, s: Any, **how: Any) -> Any:
        seen.append(np.asarray(s))
        return prepare(x, s, **how)

    def labelled(z: Any, s: Any, **how: Any) -> Any:
        seen.append(how["seen_by_encoder"])
        return pseudo_label(z, s, **how)

    monkeypatch.setattr("pucl.bench.run.encoding.prepare", watched)
    monkeypatch.setattr("pucl.bench.run.stages.pseudo_label", labelled)
    recipe = {**RECIPE, "withheld": 0.4}
    (cell,) = cells_in({**SMALL, "recipe": {"quick": recipe}})
    (outcome,) = run_unit([cell], tmp_path)
    done(outcome)
    posed, _ = pose(cell.place)
    assert len(seen) == 2 and (seen[0] == seen[1]).all() and seen[0].sum() == 60
    assert not (seen[0] & ~posed.s).any()
    (plain,) = cells_in(SMALL)
    assert "withheld" not in plain.recipe.to_dict() and plain.key != cell.key
    with pytest.raises(InputError, match=re.escape("withheld must be a number strictly between 0 and 1; got 1")):
        cells_in({**SMALL, "recipe": {"quick": {**RECIPE, "withheld": 1}}})


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_heads_by_a_risk_take_withheld_rows_for_positives() -> None:
    (cell,) = cells_of(readouts=["nnpu_auto"])
    posed, exam = pose(cell.place)
    rows = Embedded(raw_encoder(torch.as_tensor(posed.x)), posed, "cpu", withheld=0.5)
    own, z = rows.sample()
    assert own.s.sum() == 50 and len(own.x) == len(posed.x) - 50 == len(z)
    fitted = fit_readout(cell.readout, rows, exam)
    assert fitted.given_prior == pytest.approx(estimate_prior(z, own.s, seed=0).value)
