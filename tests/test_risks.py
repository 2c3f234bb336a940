"""uPU and nnPU: reference values, the step of nnPU in both branches, edge batches, settings and bad input."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from pucl.errors import InputError
from pucl.registry import Entry, entries
from pucl.risks.margins import LOSSES, logistic, sigmoid, zero_one
from pucl.risks.nnpu import nnpu
from pucl.risks.upu import upu

PRIOR = 0.4
Batch = tuple[list[float], list[float]]
A: Batch = [2, -1, 0.5], [0.3, -2, 1, -0.4, -3]
B: Batch = [3, 2.5, 4], [-5, -4, -6, -3]

over_risks = pytest.mark.parametrize("entry", entries("risks").values(), ids=lambda entry: entry.name)


def batch(case: Batch) -> tuple[Tensor, Tensor]:
    """Logits of P, then of U, in float64, and who is labelled."""
    logits = torch.tensor([*case[0], *case[1]], dtype=torch.float64, requires_grad=True)
    return logits, torch.arange(len(logits)) < len(case[0])


def negative_part(logits: Tensor, labelled: Tensor, *, prior: float = PRIOR) -> Tensor:
    """R_U⁻ − π R_P⁻ of the sigmoid loss, as it is written."""
    return torch.sigmoid(logits[~labelled]).mean() - prior * torch.sigmoid(logits[labelled]).mean()


def differences(function: Callable[[Tensor], Tensor], at: Tensor, h: float = 1e-6) -> Tensor:
    """The gradient of `function` by central differences."""
    steps = torch.eye(len(at), dtype=at.dtype) * h
    return torch.stack([(function(at + step) - function(at - step)) / (2 * h) for step in steps])


@pytest.mark.parametrize(
    ("case", "loss", "expected_upu", "expected_nnpu"),
    [
        (A, "sigmoid", 0.30210236, 0.30210236),
        (A, "logistic", 0.37122951, 0.37122951),
        (B, "sigmoid", -0.34368354, 0.01883604),
        (B, "logistic", 0.01941694 - 1.26710152, 0.01941694),
    ],
)
def test_reference_values(case: Batch, loss: Any, expected_upu: float, expected_nnpu: float) -> None:
    logits, labelled = batch(case)
    assert float(upu(logits, labelled, prior=PRIOR, loss=loss).detach()) == pytest.approx(expected_upu, abs=2e-8)
    assert float(nnpu(logits, labelled, prior=PRIOR, loss=loss).detach()) == pytest.approx(expected_nnpu, abs=2e-8)


def test_reference_gradient_of_the_step_back() -> None:
    logits, labelled = batch(B)
    nnpu(logits, labelled, prior=PRIOR).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    expected = [0.00602355, 0.00934716, 0.00235503, -0.00166201, -0.00441568, -0.00061663, -0.01129416]
    assert logits.grad.tolist() == pytest.approx(expected, abs=2e-8)


@pytest.mark.parametrize(("beta", "gamma"), [(0.0, 1.0), (0.0, 0.3), (0.1, 2.0), (0.5, 1.0)])
@pytest.mark.parametrize("case", [A, B], ids=["A", "B"])
def test_nnpu_gradient_is_that_of_the_right_expression(case: Batch, beta: float, gamma: float) -> None:
    logits, labelled = batch(case)
    value = nnpu(logits, labelled, prior=PRIOR, beta=beta, gamma=gamma)
    (gradient,) = torch.autograd.grad(value, logits)
    at = logits.detach()
    low = float(negative_part(at, labelled)) < -beta
    assert low == (case is B and beta < 0.36), "the cases must reach both branches"
    positive = PRIOR * torch.sigmoid(-at[labelled]).mean()
    assert float(value.detach()) == pytest.approx(float(positive) + max(-beta, float(negative_part(at, labelled))))
    expected = differences(
        (lambda v: -gamma * negative_part(v, labelled)) if low else (lambda v: upu(v, labelled, prior=PRIOR)), at
    )
    assert torch.allclose(gradient, expected, atol=1e-9)


@pytest.mark.parametrize(("beta", "gamma"), [(0.0, 1.0), (0.0, 0.3), (0.1, 2.0)])
@pytest.mark.parametrize("case", [A, B], ids=["A", "B"])
def test_nnpu_gradient_in_closed_form(case: Batch, beta: float, gamma: float) -> None:
    """The table of docs/own-loops.md: σ' = σ (1 − σ), with the sigmoid loss."""
    logits, labelled = batch(case)
    (found,) = torch.autograd.grad(nnpu(logits, labelled, prior=PRIOR, beta=beta, gamma=gamma), logits)
    of_value = differences(lambda f: nnpu(f, labelled, prior=PRIOR, beta=beta, gamma=gamma), logits.detach())
    slope = (torch.sigmoid(logits) * torch.sigmoid(-logits)).detach()
    of_p, of_u = PRIOR * slope / labelled.sum() * labelled, slope / (~labelled).sum() * ~labelled
    ordinary, back = of_u - 2 * of_p, gamma * (of_p - of_u)
    assert torch.allclose(found, back if case is B else ordinary, atol=1e-15)
    assert torch.allclose(of_value, -of_p if case is B else ordinary, atol=1e-9)
    if case is B:  # what other libraries back-propagate: the value clamped, A − γB, everything turned round
        for wrong in (-of_p, back - of_p, -ordinary):
            assert not torch.allclose(found, wrong, atol=1e-4)


@pytest.mark.parametrize(("unlabelled", "beta"), [([-1000.0, -1000.0], 0.25), ([0.0, -1000.0], 0.0)])
def test_nnpu_at_the_border_steps_as_above_it(unlabelled: list[float], beta: float) -> None:
    """B is exactly −β here: σ(0) = 1/2 and σ(−1000) = 0."""
    logits, labelled = batch(([0.0], unlabelled))
    assert float(negative_part(logits.detach(), labelled, prior=0.5)) == -beta
    values, of_p = {}, {}
    for shift in (-1e-9, 0.0, 1e-9):  # of the labelled logit: B falls where it rises
        moved = (logits.detach() + shift * labelled).requires_grad_()
        value = nnpu(moved, labelled, prior=0.5, beta=beta)
        values[shift], of_p[shift] = float(value.detach()), float(torch.autograd.grad(value, moved)[0][0])
    assert values[-1e-9] == pytest.approx(values[0.0], abs=1e-8) == values[1e-9], "the value is continuous"
    assert of_p == pytest.approx({-1e-9: -0.25, 0.0: -0.25, 1e-9: 0.125}), "the gradient jumps below the border"


@pytest.mark.parametrize("loss", ["sigmoid", "logistic"])
def test_upu_gradient_is_that_of_its_value(loss: Any) -> None:
    for case in (A, B):
        logits, labelled = batch(case)
        for setting in ("case-control", "single-set"):
            options: dict[str, Any] = {"prior": PRIOR, "loss": loss, "setting": setting}
            (gradient,) = torch.autograd.grad(upu(logits, labelled, **options), logits)
            expected = differences(lambda v: upu(v, labelled, **options), logits.detach())  # noqa: B023
            assert torch.allclose(gradient, expected, atol=1e-8)


def test_a_few_nnpu_steps_undo_overfitting() -> None:
    logits, labelled = batch(B)
    free = logits.detach().clone().requires_grad_()
    before = float(negative_part(free.detach(), labelled))
    for _ in range(50):
        (gradient,) = torch.autograd.grad(nnpu(free, labelled, prior=PRIOR), free)
        free = (free - gradient).detach().requires_grad_()
    assert float(negative_part(free.detach(), labelled)) > before


def test_single_set_is_the_risk_over_p_and_u_together() -> None:
    logits, labelled = batch(A)
    n_p, n_u = 3, 5
    share = (n_p + PRIOR * n_u) / (n_p + n_u)  # of positives in P ∪ U, when π is that in U
    as_negative, as_positive = torch.sigmoid(logits), torch.sigmoid(-logits)
    p = labelled
    expected = share * as_positive[p].mean() + as_negative.mean() - share * as_negative[p].mean()
    found = upu(logits, labelled, prior=PRIOR, setting="single-set")
    assert float(found.detach()) == pytest.approx(float(expected.detach()), abs=1e-12)


@pytest.mark.parametrize("setting", ["case-control", "single-set"])
def test_upu_is_unbiased(setting: Any) -> None:
    """Over many draws the PU risk of a fixed score is the risk with all labels known."""
    g = Generator().manual_seed(0)
    n_u, n_p, pi = 200_000, 50_000, 0.3
    y = torch.cat([torch.ones(n_p), (torch.arange(n_u) < pi * n_u).float()]).bool()
    logits = torch.randn(len(y), generator=g, dtype=torch.float64) + torch.where(y, 1.0, -1.0)
    labelled = torch.arange(len(y)) < n_p
    population = ~labelled if setting == "case-control" else torch.ones_like(labelled)
    known = torch.sigmoid(torch.where(y, -logits, logits))[population].mean()
    assert float(upu(logits, labelled, prior=pi, setting=setting)) == pytest.approx(float(known), abs=0.003)


@over_risks
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("setting", ["case-control", "single-set"])
@pytest.mark.parametrize(
    "labelled",
    [[], [True], [False], [True, True], [False, False], [True, False]],
    ids=["empty", "P", "U", "PP", "UU", "PU"],
)
def test_edge_batches(entry: Entry, loss: str, setting: str, labelled: list[bool]) -> None:
    for size in (0.0, 3.0, -200.0, 1e4):
        logits = torch.full((len(labelled),), size, requires_grad=True)
        value = entry.function(logits, torch.tensor(labelled, dtype=torch.bool), prior=0.3, loss=loss, setting=setting)
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.shape == () and value.isfinite() and gradient.isfinite().all()


@over_risks
def test_contract_of_a_risk(entry: Entry) -> None:
    assert entry.needs_prior
    doc = entry.function.__doc__ or ""
    assert re.search(r"^ {8,}\S.* = ", doc, re.MULTILINE) and re.search(r"\bwhere\b", doc)
    for case in (A, B):
        logits, labelled = batch(case)
        order = torch.randperm(len(logits), generator=Generator().manual_seed(0))
        value = entry.function(logits, labelled, prior=PRIOR)
        (gradient,) = torch.autograd.grad(value, logits)
        shuffled = logits.detach()[order].requires_grad_()
        again = entry.function(shuffled, labelled[order], prior=PRIOR)
        assert torch.allclose(again, value), "row order must not matter"
        assert torch.allclose(torch.autograd.grad(again, shuffled)[0], gradient[order])
        low = entry.function(logits.detach().to(torch.bfloat16), labelled, prior=PRIOR)
        assert low.dtype == torch.float32 and float(low) == pytest.approx(float(value.detach()), abs=0.01)


def test_margin_losses() -> None:
    m = torch.linspace(-5, 5, 11, dtype=torch.float64)
    assert torch.allclose(sigmoid(m) + sigmoid(-m), torch.ones_like(m))
    assert torch.allclose(logistic(m) - logistic(-m), -m)
    assert zero_one(m).tolist() == [1] * 5 + [0.5] + [0] * 5
    logits, labelled = batch(A)
    # 2 π FNR_P + FPR_U − π
    assert float(upu(logits, labelled, prior=PRIOR, loss="zero-one").detach()) == pytest.approx(
        2 * PRIOR * (1 / 3) + 2 / 5 - PRIOR
    )


@over_risks
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": None}, "prior must be a number strictly between 0 and 1; got None"),
        ({"prior": 0}, "prior must be a number strictly between 0 and 1; got 0"),
        ({"prior": 1.0}, "prior must be a number strictly between 0 and 1; got 1.0"),
        ({"loss": "hinge"}, "unknown margin loss 'hinge': known: logistic, sigmoid, zero-one"),
        ({"setting": "single"}, "did you mean 'single-set'?"),
        (
            {"logits": torch.rand(4, 1)},
            "logits must be a floating-point vector (n,); got torch.float32 of shape (4, 1)",
        ),
        (
            {"logits": torch.rand(5)},
            "labelled must be a bool vector of length 5, one per logit; got torch.bool of shape",
        ),
        ({"labelled": torch.tensor([1, 0, 0, 0])}, "labelled must be a bool vector of length 4"),
    ],
)
def test_bad_input(entry: Entry, change: dict[str, Any], message: str) -> None:
    call = {"logits": torch.rand(4), "labelled": torch.arange(4) < 2, "prior": 0.5, **change}
    with pytest.raises(InputError) as caught:
        entry.function(call.pop("logits"), call.pop("labelled"), **call)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": -0.1}, "risk 'nnpu': beta must be a finite number ≥ 0; got -0.1"),
        ({"gamma": 0}, "risk 'nnpu': gamma must be a finite number > 0; got 0"),
    ],
)
def test_bad_input_of_nnpu(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        nnpu(torch.rand(4), torch.arange(4) < 2, prior=0.5, **change)
