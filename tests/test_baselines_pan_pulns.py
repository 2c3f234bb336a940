"""PAN and PULNS: games and rewards by hand."""

import math

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from baseline_examples import (
    gradient,
    plane_problem,
    sigma,
)
from pucl.baselines import fit_baseline
from pucl.baselines.pan import Leaky, game
from pucl.baselines.pulns import RunningReward, performance, picked_loss, reinforce_loss
from pucl.baselines.shared.regularisers import dropout


def scores() -> tuple[Tensor, Tensor, Tensor]:
    """D of two labelled rows, D and C of four unlabelled ones."""
    p, u, c = [0.8, 0.6], [0.3, 0.7, 0.9, 0.2], [0.4, 0.9, 0.2, 0.5]
    d_p, d_u, c_u = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in (p, u, c))
    return d_p, d_u, c_u


def test_pan_value_by_hand() -> None:
    d_p, d_u, c = scores()
    e, lam = 0.01, 0.1
    usual = math.log(1 - (0.3 + 0.7) / 2)
    below = sum(max(math.log(1 - d + e) - usual, 0) for d in (0.3, 0.7))
    pairs = zip([0.4, 0.9, 0.2, 0.5], [0.3, 0.7, 0.9, 0.2], strict=True)
    towards = sum((math.log(1 - k + e) - math.log(k + e)) * (2 * d - 1) for k, d in pairs)
    expected = math.log(0.8 + e) + math.log(0.6 + e) + below + lam * towards
    assert float(game(d_p, d_u, c, weight=lam, slack=e).detach()) == pytest.approx(expected, abs=1e-12)


def test_pan_game_reaches_the_classifier_and_no_gradient_goes_through_the_mean() -> None:
    d_p, d_u, c = scores()
    e, lam = 0.01, 0.1
    to_p, to_u, to_c = torch.autograd.grad(game(d_p, d_u, c, weight=lam, slack=e), (d_p, d_u, c))
    k, d = np.array([0.4, 0.9, 0.2, 0.5]), np.array([0.3, 0.7, 0.9, 0.2])
    assert to_c.tolist() == pytest.approx((lam * (-1 / (1 - k + e) - 1 / (k + e)) * (2 * d - 1)).tolist(), abs=1e-12)
    assert (to_c.abs() > 1e-3).all() and (to_c[d < 0.5] > 0).all(), "C is pushed to where D is"
    assert to_p.tolist() == pytest.approx([1 / 0.81, 1 / 0.61], abs=1e-12)
    own = np.array([-1 / (1 - 0.3 + e), 0, 0, 0])  # of U', the one below the mean; the others are left alone
    by_c = 2 * lam * (np.log(1 - k + e) - np.log(k + e))
    assert to_u.tolist() == pytest.approx((own + by_c).tolist(), abs=1e-12)


def test_pan_value_stays_finite_where_d_is_1() -> None:
    value = game(torch.ones(2), torch.ones(3), torch.tensor([1.0, 0.0, 0.5]), weight=1e-4, slack=0.01)
    assert value.isfinite()


def test_pan_classifier_learns_from_the_game() -> None:
    """Without a weight on the game the classifier stays as it is; with one it moves."""
    x = torch.randn(120, 2, generator=Generator().manual_seed(0))
    moved = {}
    for weight in (0.0, 1e-4):
        quick = {"epochs": 1, "steps": 3, "weight": weight, "weight_decay": 0.0}
        scorer = fit_baseline("pan", x, np.arange(120) < 30, encoder="raw", settings=quick, device="cpu")
        assert isinstance(scorer, Leaky)
        fresh = plane_problem(seed=0).network(1)
        moved[weight] = float((scorer.network.layer.weight - fresh.layer.weight).detach().abs().max())
    assert moved[0.0] == 0 and moved[1e-4] > 1e-5


def test_pan_network_has_a_leaky_relu_where_ours_has_a_relu() -> None:
    problem = plane_problem(encoder="mlp")
    plain = problem.network().eval()
    leaky = Leaky(problem.network()).eval()
    with torch.no_grad():
        z = plain.features(problem.x)
        assert torch.allclose(leaky(problem.x), plain.layer(nn.functional.leaky_relu(z, 0.2)).squeeze(1))
        assert not torch.allclose(leaky(problem.x), plain(problem.x))
        raw = plane_problem().network()
        assert torch.equal(Leaky(plane_problem().network())(problem.x), raw(problem.x)), "raw rows have none"


def test_dropout_keeps_the_mean_and_follows_the_generator() -> None:
    z = torch.full((20_000,), 2.0)
    first, again = (dropout(z, 0.3, Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, again)
    assert float((first == 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert float(first.mean()) == pytest.approx(2, abs=0.05)
    assert first.max() == pytest.approx(2 / 0.7)


def test_pulns_performance_by_hand() -> None:
    f = np.array([1.0, 2.0, -1.0, -2.0, 0.5, -0.5])
    labelled = torch.arange(6) < 2
    decided = sigma(5 * f / np.sqrt((f**2).mean()))
    expected = decided[:2].mean() ** 2 / decided[2:].mean()
    assert float(performance(torch.tensor(f), labelled)) == pytest.approx(expected, abs=1e-12)
    assert float(performance(torch.tensor(f) * 9, labelled)) == pytest.approx(expected, abs=1e-12)
    # All of P found and half of U called positive: 1 / 0.5.
    sure = torch.tensor([9.0, 9, 9, -9, 9, -9])
    assert float(performance(sure, labelled)) == pytest.approx(2, abs=0.1)
    assert performance(-sure, labelled) < 0.1


def test_pulns_loss_sees_p_and_what_was_picked() -> None:
    logits = torch.tensor([0.4, -1.0, 2.0, 0.3], dtype=torch.float64, requires_grad=True)
    labelled, picked = torch.tensor([True, False, False, False]), torch.tensor([False, True, False, True])
    value = picked_loss(logits, labelled, picked)
    by_hand = (math.log1p(math.exp(-0.4)) + (math.log1p(math.exp(-1)) + math.log1p(math.exp(0.3))) / 2) / 2
    assert float(value.detach()) == pytest.approx(by_hand, abs=1e-12)
    assert gradient(value, logits)[2] == 0
    assert picked_loss(logits, labelled, torch.zeros(4, dtype=torch.bool)).isfinite(), "nothing need be picked"


def test_pulns_reinforce_gradient_is_the_score_function() -> None:
    g = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    picked = torch.tensor([True, False, False])
    for advantage in (1.5, -0.5):
        found = gradient(reinforce_loss(g, picked, torch.tensor(advantage, dtype=torch.float64)), g)
        score = picked.double() - torch.sigmoid(g.detach())  # ∇ log p(a)
        assert torch.allclose(found, -advantage * score / 3)


def test_pulns_reinforce_finds_the_rows_that_are_rewarded() -> None:
    """A reward for picking the first half and not the second: REINFORCE must find it."""
    g = torch.zeros(8, requires_grad=True)
    generator = Generator().manual_seed(0)
    total, usual = torch.zeros(()), RunningReward(torch.zeros(()))
    for _ in range(600):
        picked = torch.rand(8, generator=generator) < torch.sigmoid(g.detach())
        total = total + picked[:4].sum() - picked[4:].sum()
        step = gradient(reinforce_loss(g, picked, usual.advantage(total)), g)
        g = (g - 0.5 * step).detach().requires_grad_()
    assert (g[:4] > 0.5).all() and (g[4:] < -0.5).all()


def test_pulns_advantage_is_the_rise_against_the_usual() -> None:
    usual = RunningReward(torch.tensor(10.0))
    even = torch.ones(())
    for step in range(200):
        even = usual.advantage(torch.tensor(11.0 + step))
    assert abs(float(even)) < 0.1, "a steady rise is nothing unusual"
    assert usual.advantage(usual.last + 5) == 3 and usual.advantage(usual.last - 5) < -1
