"""Rank pruning, Elkan-Noto and TEDⁿ: shares, weights and what is dropped, by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from baseline_examples import First, problem_of, spread_blobs
from pucl.baselines import fit_baseline
from pucl.baselines.elkan_noto import labelled_share, positive_weight
from pucl.baselines.rank_pruning import keep, shares, unlabelled_rate
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.probability import ProbabilitySettings, fit_probability, out_of_fold
from pucl.baselines.tedn import half_each, ignore_top, proportion
from pucl.errors import InputError
from pucl.numerics.logistic import fit_logistic


def test_rank_pruning_reference_values() -> None:
    labelled = torch.arange(10) < 4
    probability = torch.tensor([0.9, 0.8, 0.7, 0.3, 0.75, 0.6, 0.2, 0.1, 0.4, 0.05], dtype=torch.float64)
    rate = unlabelled_rate(probability, labelled)
    assert rate == pytest.approx(0.25)
    assert shares(labelled, rate) == pytest.approx((0.533333, 0.222222), abs=1e-6)


def test_the_top_of_u_is_dropped_but_for_ten_rows() -> None:
    labelled = torch.arange(24) < 4
    probability = torch.linspace(1, 0, 24)
    assert (~keep(probability, labelled, 0.37)).nonzero().flatten().tolist() == list(range(4, 11))  # int(0.37 · 20)
    assert int((~keep(probability, labelled, 0.99)).sum()) == 10
    assert keep(probability[:12], labelled[:12], 0.99).all()


def test_probabilities_come_from_models_that_never_saw_the_row() -> None:
    x, s = spread_blobs()
    problem = problem_of(x, s, encoder="raw")
    logits, fold = out_of_fold(problem, ProbabilitySettings())
    assert set(fold.tolist()) == {0, 1, 2}
    assert [int(s[fold == k].sum()) for k in range(3)] == [4, 4, 4]
    scaled = problem.standardise(x)
    for k in range(3):
        layer = fit_logistic(scaled[fold != k], s[fold != k], torch.ones(int((fold != k).sum())), l2=1e-2)
        torch.testing.assert_close(logits[fold == k], layer(scaled[fold == k])[:, 0])


def test_the_best_epoch_of_held_out_rows_counts() -> None:
    """With a learning rate that ruins the network in the end, the weights of an earlier epoch are returned."""
    x, s = spread_blobs(60, 300)
    how: dict[str, Any] = {
        "epochs": 6,
        "steps": 4,
        "batch_size": 64,
        "optimiser": "sgd",
        "decay": "steps",
        "momentum": 0.0,
    }
    settings = ProbabilitySettings(**how, learning_rate=0.05, milestones=(3,), factor=1e3)
    scorer = fit_probability(problem_of(x, s), settings).eval()
    loss = nn.functional.binary_cross_entropy_with_logits(scorer(x), s.float())
    assert float(loss.detach()) < 0.6


def test_cross_fitting_needs_two_labelled_rows() -> None:
    x, s = spread_blobs(1)
    with pytest.raises(InputError, match="at least two rows of each kind"):
        fit_baseline("rank_pruning", x, s, device="cpu")


def test_weights_of_elkan_and_noto_are_the_posterior() -> None:
    """Ten kinds of rows with known shares of positives; labels at random: w must give those shares back."""
    c, positive = 0.3, torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
    g = c * positive  # P(s = 1 | x)
    expected = (positive - g) / (1 - g)  # P(y = 1 | x, s = 0)
    torch.testing.assert_close(positive_weight(torch.logit(g), torch.tensor(c, dtype=torch.float64)), expected)
    assert float(positive_weight(torch.tensor([9.0]), torch.tensor(0.3))) == 1.0
    assert float(labelled_share(torch.tensor([0.0, 0.0]))) == 0.5


@pytest.mark.parametrize("weighted", [True, False])
def test_elkan_and_noto_on_raw_rows(weighted: bool) -> None:
    x, s = spread_blobs(60, 400)
    scorer = fit_baseline("elkan_noto", x, s, encoder="raw", settings={"weighted": weighted}, device="cpu")
    right = (scorer(x) > 0) == (torch.arange(len(x)) < 60 + 200)
    assert right.float().mean() > 0.95
    assert isinstance(scorer, Moved) != weighted


# TEDⁿ


def test_tedn_ignores_rows_in_loss_and_gradient() -> None:
    logits = torch.tensor([2.0, -1.0, 0.3, -2.0, 1.0], dtype=torch.float64, requires_grad=True)
    kept = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    loss = half_each(logits, 2, kept)
    f = logits.detach().numpy()
    expected = (np.log1p(np.exp(-f[:2])).mean() + np.log1p(np.exp(f[2:4])).mean()) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-12)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert float(logits.grad[4]) == 0
    assert float(half_each(logits, 2, 0 * kept).detach()) == pytest.approx(np.log1p(np.exp(-f[:2])).mean() / 2)


def test_tedn_drops_the_top_share() -> None:
    scores = torch.tensor([0.1, 5.0, 3.0, -2.0, 4.0])
    assert ignore_top(scores, 0.5).tolist() == [1, 0, 1, 1, 0]  # int(2.5) rows
    assert ignore_top(scores, 0.0).tolist() == [1] * 5


def test_tedn_estimates_the_proportion_of_separable_rows() -> None:
    positive = np.linspace(0.51, 0.99, 100)
    unlabelled = np.r_[np.linspace(0.5101, 0.9899, 60), np.linspace(0.01, 0.49, 140)]
    x = torch.tensor(np.r_[positive, unlabelled], dtype=torch.float32)[:, None]
    held = problem_of(x, torch.arange(300) < 100)
    assert proportion(held, First()) == pytest.approx(0.3)  # type: ignore[arg-type]


def test_tedn_shifts_images_only() -> None:
    x, s = spread_blobs()
    quick = {"epochs": 2, "warm": 1, "steps": 2}
    settings = {**quick, "shift": 2}
    plain = fit_baseline("tedn", x, s, settings=quick, device="cpu")
    assert torch.equal(plain(x), fit_baseline("tedn", x, s, settings=settings, device="cpu")(x))
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    made = [
        fit_baseline("tedn", images, s[:40], encoder="mlp", settings={**settings, "shift": pixels}, device="cpu")
        for pixels in (0, 2)
    ]
    assert not torch.equal(made[0](images), made[1](images))
