"""studies/baseline_traces.py: a run that is looked at ends where it ends otherwise, and what is said of a network."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pucl.baselines import fit_baseline, settings_of
from pucl.bench.grid.place import Place
from pucl.bench.run.exam import pose

SCRIPT = Path(__file__).parents[1] / "studies" / "baseline_traces.py"
PLACE = Place("digits", "case-control", 100, 0)


@pytest.fixture(scope="module")
def traces() -> ModuleType:
    spec = importlib.util.spec_from_file_location("baseline_traces", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("method", ["upu", "vpu"])
def test_looking_does_not_change_the_run(traces: ModuleType, method: str) -> None:
    changes = {"epochs": 2}
    options = {"changes": changes, "hidden": 0.0, "inputs": "standardised", "every": 1, "device": "cpu"}
    lines = list(traces.trace(method, PLACE, **options))
    observed, exam = pose(PLACE)
    prior, settings = exam.prior("oracle"), settings_of(method, "digits", **changes)
    scorer = fit_baseline(method, observed.x, observed.s, prior=prior, settings=settings, seed=0, device="cpu")
    with torch.no_grad():
        grades = exam.grade(scorer(torch.as_tensor(exam.test_rows)))
    assert [line["epoch"] for line in lines[:-1]] == [0, 1, 2]
    assert {name: lines[-1][name] for name in grades} == grades
    assert lines[-2]["auc"] == pytest.approx(grades["auc"], abs=1e-3) or method == "vpu"  # which goes back to its best


def test_rows_that_are_hidden_are_judged_and_not_learnt_from(traces: ModuleType) -> None:
    options = {"changes": {"epochs": 1}, "hidden": 0.2, "inputs": "vpu", "every": 1, "device": "cpu"}
    first, last, _ = traces.trace("upu", PLACE, **options)
    assert first["n_labelled"] == 80 and first["hidden_upu"] != first["training_upu"]
    assert last["accuracy_best"] >= max(last[name] for name in ("accuracy", "accuracy_half", "accuracy_prior")) - 0.2


def test_what_p_and_u_tell(traces: ModuleType) -> None:
    logits, labelled = torch.tensor([1.0, -1.0, 2.0, -2.0, -3.0, -1.0]), torch.arange(6) < 2
    found = traces.pu_values("of", logits, labelled, 0.4)
    assert found["of_error"] == pytest.approx(2 * 0.4 * 0.5 + 0.25 - 0.4)
    assert found["of_pu_auc"] == pytest.approx(100 * 5.5 / 8)
