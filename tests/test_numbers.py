"""Extreme numbers: every component on some cases of `extremes`, what was mended, and errors that name the place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pucl
from extremes.cases import CASES, LARGE, Case, frames
from extremes.components import components, tables
from extremes.trial import FAILED, REFUSED, Outcome, Output, trial
from pucl.encoders.inputs import Standardise
from pucl.errors import InputError
from pucl.numerics.floats import FAR, as_float32, as_tensor, columns_in_range, in_range
from pucl.priors.km import km2
from pucl.pseudo_labels import PseudoLabels

EACH = 30  # every so many cases one is tried; `python -m extremes` tries all


def tried(component: str, case: str) -> Outcome:
    make = {**CASES, **LARGE, **frames()}[case]
    return trial(component, components()[component], case, make())


@pytest.mark.parametrize("number", range(len(components())), ids=list(components()))
def test_every_component_is_finite_or_refuses(number: int) -> None:
    name = list(components())[number]
    cases = list({**CASES, **frames()} if name in tables() else CASES)
    outcomes = [tried(name, case) for case in cases[number % EACH :: EACH]]
    assert outcomes
    assert not [outcome for outcome in outcomes if outcome.end == FAILED]


# One line of CHANGELOG each: what failed before.
MENDED = [
    ("PUClassifier raw, cvir, linear", "near the float64 maximum"),  # a warning of numpy about an overflow
    ("PriorEstimator", "every other row, backwards"),  # torch takes no negative strides
    ("PriorEstimator", "big-endian"),
    ("PriorEstimator", "longdouble"),
    ("PriorEstimator", "beyond float32"),  # NaN in scikit-learn
    ("PseudoLabeller", "Fortran order, read-only"),  # a warning of torch
    ("pseudo_label logistic", "one cell 1e200"),
    ("pseudo_label bagged_trees", "beyond float32"),
    ("estimate_prior auto", "bfloat16"),
    ("estimate_prior km2", "denormal float64"),  # 0 / 0
    ("estimate_prior km2", "beyond float32"),
    ("estimate_prior tice", "near the float64 maximum"),
    ("prior km2", "a constant column 1e30"),
    ("head kernel", "int64"),
    ("head kernel", "NaN in one row"),
    ("head mlp", "float16"),
    ("head linear", "inf in one row"),  # logits were NaN
    ("head nearest_centroid", "one cell 1e30, float32"),
    ("head trees", "near the float32 maximum"),
    ("risk nnpu", "one row missing"),  # a risk of NaN
    ("baseline rank_pruning", "two different rows"),
    ("baseline self_pu", "1 unlabelled row"),  # division by zero
    ("baseline vpu", "1 unlabelled row"),
    ("baseline wconpu", "near the float32 maximum"),
    ("diagnose", "beyond float32"),  # figures of NaN
    ("evaluate", "bfloat16"),
]


@pytest.mark.parametrize(("component", "case"), MENDED)
def test_what_was_mended(component: str, case: str) -> None:
    assert tried(component, case).end != FAILED, tried(component, case).why


@pytest.mark.parametrize("case", ["NaN in one row", "inf in one row"])
@pytest.mark.parametrize(
    "component",
    ["pseudo_label auto", "estimate_prior bbe", "prior km2", "head linear", "loss pucl", "diagnose", "baseline nnpu"],
)
def test_an_error_names_row_and_column(component: str, case: str) -> None:
    outcome = tried(component.replace("pseudo_label auto", "pseudo_label stacked"), case)
    assert outcome.end == REFUSED
    assert "NaN or infinity in 1 rows, first 17, column 2" in outcome.why


def test_an_error_of_a_table_names_row_and_column() -> None:
    rows, s = np.array(CASES["plain"]().rows), CASES["plain"]().s
    rows[17, 2] = np.inf
    with pytest.raises(InputError, match="column 'x2' must be finite or missing; got infinity at row 17"):
        pucl.PUClassifier().fit(rows, s)
    with pytest.raises(InputError, match="finite; got NaN or infinity at row 17, column 2"):
        pucl.PUClassifier(kind="vector").fit(rows, s)
    rows[17, 2] = 1e39
    with pytest.raises(InputError, match=r"up to ±1\.7e\+38.*larger ones, first at row 17, column 2"):
        pucl.PUClassifier(kind="vector").fit(rows, s)
    with pytest.raises(InputError, match=r"x must be of numbers up to ±1\.7e\+38.*; got 1e\+39 at row 17, column 2"):
        pucl.fit_baseline("naive", rows, s)


@pytest.mark.slow
def test_a_row_again_and_again() -> None:
    for component in ("PUClassifier raw, cvir, linear", "TableTransform", "pseudo_label cvir"):
        assert tried(component, *LARGE).end != FAILED


def test_a_trial_tells_failures_from_refusals() -> None:
    def ends(component: Callable[[Any, Any], Any]) -> str:
        return trial("", component, "", Case(np.zeros((2, 1)), np.array([True, False]))).end

    def refuses(_x: Any, _s: Any) -> Any:
        raise InputError("must be better", owner="test", argument="x")

    class LongError(InputError):
        def __str__(self) -> str:
            return "must be better\nmuch better"

    def refuses_at_length(_x: Any, _s: Any) -> Any:
        raise LongError("must be better", owner="test", argument="x")

    assert ends(refuses) == REFUSED
    assert ends(refuses_at_length) == FAILED
    assert ends(lambda x, _: [Output("x", x, (2, 1))]) == "finite"
    assert ends(lambda x, _: [Output("x", x, (1, 2))]) == FAILED
    assert ends(lambda x, _: [Output("x", x + np.nan)]) == FAILED
    assert ends(lambda x, _: [Output("x", x - 1, (), 0.0)]) == FAILED
    assert ends(lambda x, _: [Output("x", np.log(x - 1 + 1))]) == FAILED
    assert ends(lambda x, _: [Output("x", x[5])]) == FAILED


def test_numbers_near_one_stay_as_they_are() -> None:
    rows = torch.tensor([[3.0, -FAR], [1e-20, 0.5]])
    assert in_range(rows) is rows
    assert columns_in_range(rows.numpy()[:, :1]) is not None
    assert np.array_equal(columns_in_range(np.array([[3.0, 0.0]])), [[3.0, 0.0]])
    zero = torch.zeros(2, 3)
    assert in_range(zero) is zero


@pytest.mark.parametrize("exponent", [-1000, -120, -60, 60, 120, 1000])
def test_a_power_of_two_rounds_nothing(exponent: int) -> None:
    rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float().double()
    for dtype in (torch.float64,) if abs(exponent) > 120 else (torch.float64, torch.float32):
        near = rows.to(dtype).double()
        far = near * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)
        back = in_range(far.to(dtype)).double()
        assert 0.5 <= float(back.abs().max()) <= 1
        ratio = back / near
        assert float(ratio.max()) == float(ratio.min())
        columns = columns_in_range(far.numpy())
        assert (np.abs(columns).max(axis=0) >= 0.5).all() and (np.abs(columns).max(axis=0) <= 1).all()


def test_tensors_of_any_array() -> None:
    base = np.arange(6.0).reshape(3, 2)
    for array in (base[::-1][::-1], base.astype(">f8"), base.astype(np.longdouble), np.asfortranarray(base)):
        assert torch.equal(as_tensor(array).double(), torch.from_numpy(base))
    assert torch.equal(as_tensor(base[::-1]), torch.from_numpy(base).flip(0))
    frozen = base.astype(np.float32)
    frozen.flags.writeable = False
    assert as_tensor(frozen).data_ptr() == frozen.__array_interface__["data"][0]
    assert torch.equal(as_float32("test", "x", torch.arange(6)), torch.arange(6.0))


@pytest.mark.parametrize("unit", [1e-30, 1e-12, 1.0, 1e30])
def test_a_column_is_constant_in_no_unit_or_in_all(unit: float) -> None:
    x = torch.tensor([[1.0, 5.0, 0.0], [2.0, 5.0, 0.0], [4.0, 5.0, 0.0]], dtype=torch.float64) * unit
    scaled = Standardise.of(x.float())(x.float())
    expected = (x[:, 0] - x[:, 0].mean()) / x[:, 0].std(correction=0)
    assert torch.allclose(scaled[:, 0].double(), expected, atol=1e-6)
    assert torch.equal(scaled[:, 1:], torch.zeros(3, 2))


def test_kernel_means_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    p, u = rng.standard_normal((40, 2)), np.r_[rng.standard_normal((30, 2)), rng.standard_normal((30, 2)) + 6]
    assert km2(p + 2.0**20, u + 2.0**20).value == pytest.approx(km2(p, u).value, abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("method", ["kernel", "knn", "linear", "mlp", "nearest_centroid", "trees"])
def test_heads_take_embeddings_of_any_type(method: str, dtype: torch.dtype) -> None:
    z, s = embeddings()
    pseudo = PseudoLabels.from_probability((z[:, 0] > 0) * 0.8 + 0.1, torch.from_numpy(s))
    narrow = z.to(dtype)
    head, reference = (pucl.fit_head(rows, s, pseudo, method=method) for rows in (narrow, narrow.float()))
    with torch.no_grad():
        found, expected = head(narrow), reference(narrow.float())
    assert ((found > 0) == (expected > 0)).float().mean() > 0.95


def embeddings() -> tuple[Tensor, Any]:
    case = CASES["float32"]()
    return torch.nn.functional.normalize(torch.from_numpy(case.rows) - 1, dim=1), case.s
