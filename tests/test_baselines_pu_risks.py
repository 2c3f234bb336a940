"""absPU, ImbPU, aPU, PUSB and PUbN: their risks and borders by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, nn

from baseline_examples import (
    PRIOR,
    A,
    B,
    C,
    Case,
    batch,
    by_differences,
    cases,
    gradient,
    parts,
    sigma,
)
from pucl.baselines import fit_baseline
from pucl.baselines.abspu import absolute_risk
from pucl.baselines.apu import purr
from pucl.baselines.imbpu import rebalanced_risk
from pucl.baselines.pubn import border, squared_error, weighted_risk
from pucl.baselines.pusb import prior_threshold
from pucl.baselines.shared.network import Moved
from pucl.risks import mean_over
from pucl.risks.nnpu import nnpu


@cases
def test_abspu_by_hand(case: Case) -> None:
    logits, labelled = batch(case)
    p_plus, p_minus, _, u_minus = parts(case)
    value = absolute_risk(logits, labelled, prior=PRIOR)
    assert float(value.detach()) == pytest.approx(PRIOR * p_plus + abs(u_minus - PRIOR * p_minus), abs=1e-12)

    def written(p: Any, u: Any) -> float:
        return float(PRIOR * sigma(-p).mean() + abs(sigma(u).mean() - PRIOR * sigma(p).mean()))

    assert gradient(value, logits).tolist() == pytest.approx(by_differences(written, case), abs=1e-9)


def test_abspu_turns_only_the_part_of_the_negatives_round() -> None:
    """Below 0 nnPU forgets about π R_P⁺; the absolute value does not."""
    logits, labelled = batch(B)
    turned = gradient(nnpu(logits, labelled, prior=PRIOR), logits)
    positive = -PRIOR * torch.sigmoid(logits) * torch.sigmoid(-logits) * labelled / labelled.sum()
    assert torch.allclose(gradient(absolute_risk(logits, labelled, prior=PRIOR), logits), turned + positive)


@pytest.mark.parametrize("share", [0.5, 0.2])
@cases
def test_imbpu_in_both_branches(case: Case, share: float) -> None:
    logits, labelled = batch(case)
    p_plus, p_minus, _, u_minus = parts(case)
    bracket = (1 - share) / (1 - PRIOR) * (u_minus - PRIOR * p_minus)
    assert (bracket < 0) == (case is B), "the cases must reach both branches"
    value = rebalanced_risk(logits, labelled, prior=PRIOR, share=share)
    assert float(value.detach()) == pytest.approx(share * p_plus + max(0, bracket), abs=1e-12)

    def written(p: Any, u: Any) -> float:
        inner = (1 - share) / (1 - PRIOR) * (sigma(u).mean() - PRIOR * sigma(p).mean())
        return float(-inner if bracket < 0 else share * sigma(-p).mean() + inner)

    assert gradient(value, logits).tolist() == pytest.approx(by_differences(written, case), abs=1e-9)


@cases
def test_imbpu_with_the_true_share_is_nnpu(case: Case) -> None:
    logits, labelled = batch(case)
    ours, theirs = rebalanced_risk(logits, labelled, prior=PRIOR, share=PRIOR), nnpu(logits, labelled, prior=PRIOR)
    assert torch.allclose(ours, theirs) and torch.allclose(gradient(ours, logits), gradient(theirs, logits))


@pytest.mark.parametrize("gamma", [1.0, 0.3])
@pytest.mark.parametrize("case", [A, B, C, ([-3, -4], [-5, 6, 4])], ids=["A", "B", "C", "D"])
def test_apu_takes_the_first_part_below_0(case: Case, gamma: float) -> None:
    logits, labelled = batch(case)
    p_plus, p_minus, u_plus, u_minus = parts(case)
    n_plus, n_minus = u_plus - PRIOR * p_plus, u_minus - PRIOR * p_minus
    value = purr(logits, labelled, prior=PRIOR, gamma=gamma)
    assert float(value.detach()) == pytest.approx(u_plus - max(0, n_plus) + max(0, n_minus), abs=1e-12)
    branch = "minus" if n_minus < 0 else "plus" if n_plus < 0 else "none"
    assert branch == {id(A): "none", id(B): "minus", id(C): "plus"}.get(id(case), "plus")

    def written(p: Any, u: Any) -> float:
        plus = sigma(-u).mean() - PRIOR * sigma(-p).mean()
        minus = sigma(u).mean() - PRIOR * sigma(p).mean()
        whole = PRIOR * sigma(-p).mean() + minus
        return float({"none": whole, "minus": -gamma * minus, "plus": -gamma * plus}[branch])

    assert gradient(value, logits).tolist() == pytest.approx(by_differences(written, case), abs=1e-9)


def test_apu_prefers_the_negatives_when_both_are_below_0() -> None:
    """With a prior near 1 the two parts can be below 0 together; N⁻ has precedence."""
    logits, labelled = batch(([-0.2, 0.2], [0.1, -0.1]))
    value = purr(logits, labelled, prior=0.9999, loss="logistic")
    plus, minus = (nn.functional.softplus(sign * logits) for sign in (-1, 1))
    n_plus, n_minus = (mean_over(part, ~labelled) - 0.9999 * mean_over(part, labelled) for part in (plus, minus))
    assert n_plus < 0 and n_minus < 0
    assert torch.allclose(gradient(value, logits), gradient(-n_minus, logits))


def test_apu_without_a_part_below_0_is_nnpu() -> None:
    logits, labelled = batch(A)
    ours, theirs = purr(logits, labelled, prior=PRIOR), nnpu(logits, labelled, prior=PRIOR)
    assert torch.allclose(ours, theirs) and torch.allclose(gradient(ours, logits), gradient(theirs, logits))


# ---------------------------------------------------------------------------------------------------------- PUSB, PUbN


@pytest.mark.parametrize(("prior", "n_above"), [(0.3, 2), (0.5, 4), (0.05, 0), (0.999, 9)])
def test_pusb_threshold(prior: float, n_above: int) -> None:
    logits = torch.tensor([3.0, -1, 5, 0, 9, 2, -4, 7, 1, 8])
    found = prior_threshold(logits, prior)
    assert found == sorted(logits.tolist())[math.floor(10 * (1 - prior))]
    assert int((logits > found).sum()) == n_above


def test_pusb_calls_a_share_of_the_unlabelled_rows_positive_whatever_is_scored() -> None:
    x = torch.randn(400, 3, generator=Generator().manual_seed(0))
    s = np.arange(400) < 50
    quick = {"epochs": 2, "steps": 4}
    scorer = fit_baseline("pusb", x, s, prior=0.3, encoder="raw", settings=quick, device="cpu")
    assert isinstance(scorer, Moved)
    logits = scorer(x)
    assert float((logits[50:] > 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert torch.allclose(scorer(x[:3]), logits[:3], atol=1e-5)


def test_pubn_criterion_prefers_the_probabilities_themselves() -> None:
    """mean_U s² − 2 π mean_P s is the squared error to P(y = 1 | x), up to a constant."""
    p, u = np.array([2.0, -1, 0.5]), np.array([0.3, -2, 1, -0.4])
    logits = torch.tensor([*p, *u])
    by_hand = (sigma(u) ** 2).mean() - 2 * PRIOR * sigma(p).mean()
    assert float(squared_error(logits, torch.arange(7) < 3, prior=PRIOR)) == pytest.approx(by_hand, abs=1e-6)
    # Two values of x: in U half each; all of P has the first; with π = 0.4 P(y = 1 | x) is 0.8 and 0.
    labelled = torch.tensor([True, False, False])
    values = {
        s: float(squared_error(torch.logit(torch.tensor([s, s, 1e-6])), labelled, prior=PRIOR))
        for s in (0.6, 0.7, 0.8, 0.9)
    }
    assert min(values, key=lambda s: values[s]) == 0.8


def test_pubn_border_is_a_percentile_of_u() -> None:
    s = torch.rand(137, generator=Generator().manual_seed(0))
    for prior, trusted in ((0.4, 0.9), (0.49, 0.7), (0.7, 1.0)):
        expected = np.percentile(s.numpy(), int((1 - prior) * 100 * trusted + 1e-9))
        assert float(border(s, prior=prior, trusted=trusted)) == pytest.approx(float(expected), abs=1e-6)


def test_pubn_risk_by_hand_with_the_plus_sign() -> None:
    logits = torch.tensor([1.0, -0.5, 2.0, -1.0, 0.3], dtype=torch.float64)
    s = torch.tensor([0.9, 0.2, 0.7, 0.1, 0.6], dtype=torch.float64)
    labelled = torch.tensor([True, True, False, False, False])
    f, eta = logits.numpy(), torch.tensor(0.3)

    def loss(margin: float) -> float:
        return math.log1p(math.exp(-margin))

    of_p = (loss(f[0]) + loss(-f[0]) * 0.1 / 0.9 + loss(f[1])) / 2  # the second is below the border
    of_u = loss(-f[3]) * 0.9 / 3  # the others are above it
    found = weighted_risk(logits, labelled, s, border=eta, prior=PRIOR)
    assert float(found) == pytest.approx(PRIOR * of_p + of_u, abs=1e-12)
    # The plus sign: a labelled row above the border also stands for the negatives there, and is pulled down for it.
    near, sure = (torch.tensor([value, 0.2, 0.7, 0.1, 0.6], dtype=torch.float64) for value in (0.4, 0.999))
    values = [float(weighted_risk(logits, labelled, of, border=eta, prior=PRIOR)) for of in (near, sure)]
    assert values[0] > values[1]


def test_pubn_weights_estimate_the_risk_of_all_labels() -> None:
    """With the true probabilities the risk is that of a fixed score with all labels known."""
    generator = Generator().manual_seed(0)
    n = 400_000
    x = torch.randn(n, generator=generator, dtype=torch.float64)
    s = torch.sigmoid(2 * x)
    hidden = torch.rand(n, generator=generator) < s
    prior = float(hidden.double().mean())
    logits = 1.5 * x + 0.3
    known = nn.functional.softplus(torch.where(hidden, -logits, logits)).mean()
    rows = torch.cat([hidden.nonzero().flatten(), torch.arange(n)])
    labelled = torch.arange(len(rows)) < int(hidden.sum())
    found = weighted_risk(logits[rows], labelled, s[rows], border=torch.tensor(0.4), prior=prior)
    assert float(found) == pytest.approx(float(known), rel=0.01)
