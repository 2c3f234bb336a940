"""PAN, PULNS, PUbN, aPU, ImbPU, absPU, PUSB, Dist-PU and vPU: formulae by hand, gradients, what they remember."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.baselines import Settings, fit_baseline, settings_of
from pucl.baselines import dist_pu as dist_pu_module
from pucl.baselines.abspu import absolute_risk
from pucl.baselines.apu import purr
from pucl.baselines.dist_pu import DistPUSettings, distribution_risk, growth, mixed_cross_entropy
from pucl.baselines.imbpu import ImbPUSettings, rebalanced_risk
from pucl.baselines.pan import Leaky, PanSettings, game
from pucl.baselines.pubn import border, squared_error, weighted_risk
from pucl.baselines.pulns import PulnsSettings, Usual, performance, picked_loss, reinforce_loss
from pucl.baselines.pusb import prior_threshold
from pucl.baselines.shared.best_epoch import train_best
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.regularisers import dropout, entropy
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import with_networks
from pucl.baselines.vpu import VPUSettings, half_of_largest, mixed_loss, variational_loss
from pucl.encoders.inputs import Standardise
from pucl.errors import InputError
from pucl.risks import mean_over
from pucl.risks.nnpu import nnpu

METHODS = ("pan", "pulns", "pubn", "apu", "imbpu", "abspu", "pusb", "dist_pu", "vpu")
PRIOR = 0.4
Case = tuple[list[float], list[float]]
A: Case = [2, -1, 0.5], [0.3, -2, 1, -0.4, -3]
B: Case = [3, 2.5, 4], [-5, -4, -6, -3]  # the part of the negatives is below 0
C: Case = [-3, -4], [5, 6, 4]  # the part of the negatives taken for positive is below 0

cases = pytest.mark.parametrize("case", [A, B, C], ids=["A", "B", "C"])


def sigma(z: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(z, dtype=float)))


def batch(case: Case) -> tuple[Tensor, Tensor]:
    """Logits of P, then of U, in float64, and who is labelled."""
    logits = torch.tensor([*case[0], *case[1]], dtype=torch.float64, requires_grad=True)
    return logits, torch.arange(len(logits)) < len(case[0])


def parts(case: Case) -> tuple[float, float, float, float]:
    """R_P⁺, R_P⁻, R_U⁺ and R_U⁻ of the sigmoid loss."""
    p, u = (sigma(part) for part in case)
    return (1 - p).mean(), p.mean(), (1 - u).mean(), u.mean()


def gradient(value: Tensor, at: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(value, at)
    return found


def by_differences(function: Callable[[Any, Any], float], case: Case, h: float = 1e-6) -> list[float]:
    """The gradient of a function of (P, U) as arrays, by central differences."""
    both, n_p = np.array([*case[0], *case[1]], dtype=float), len(case[0])
    found = []
    for i in range(len(both)):
        step = h * (np.arange(len(both)) == i)
        up, down = both + step, both - step
        found.append((function(up[:n_p], up[n_p:]) - function(down[:n_p], down[n_p:])) / (2 * h))
    return found


def make_problem(n: int = 40, n_labelled: int = 8, *, encoder: str | nn.Module = "raw", seed: int = 0) -> PUProblem:
    x = torch.randn(n, 2, generator=Generator().manual_seed(1))
    scale = Standardise(torch.zeros(2), torch.ones(2))
    return PUProblem("test", x, torch.arange(n) < n_labelled, PRIOR, encoder, scale, seed)


# ---------------------------------------------------------------------------------------------------- absPU, ImbPU, aPU


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


# --------------------------------------------------------------------------------------------------------- Dist-PU, vPU


def test_dist_pu_reference_value() -> None:
    logits, labelled = batch(A)
    found = float(distribution_risk(logits, labelled, prior=PRIOR).detach())
    assert found == pytest.approx(0.44090688, abs=1e-7)  # which was measured in float32


def test_dist_pu_parts_without_rows_are_0() -> None:
    logits = torch.tensor([0.5, -1.0])
    only_p, only_u = torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bool)
    s = sigma([0.5, -1.0])
    assert float(distribution_risk(logits, only_p, prior=PRIOR)) == pytest.approx((1 - s).mean(), abs=1e-6)
    expected = abs(s.mean() - PRIOR) / (2 * PRIOR)
    assert float(distribution_risk(logits, only_u, prior=PRIOR)) == pytest.approx(expected, abs=1e-6)


def test_dist_pu_entropy_mixing_and_growth() -> None:
    f, t, t2, lam = np.array([0.3, -2.0, 10.0]), np.array([1.0, 0.2, 0.7]), np.array([0.7, 1.0, 0.2]), 0.3
    s = sigma(f)
    by_hand = -s * np.log(s) - (1 - s) * np.log(1 - s)
    assert entropy(torch.tensor(f)).numpy() == pytest.approx(by_hand, abs=1e-12)

    def cross(target: Any) -> float:
        return float(-(target * np.log(s) + (1 - target) * np.log(1 - s)).mean())

    found = mixed_cross_entropy(torch.tensor(f), torch.tensor(t), torch.tensor(t2), torch.tensor(lam).double())
    assert float(found) == pytest.approx(lam * cross(t) + (1 - lam) * cross(t2), abs=1e-6)
    assert growth(0, 60) == 0 and growth(60, 60) == pytest.approx(1)
    assert growth(30, 60) == pytest.approx(1 - math.cos(math.pi / 4))


def test_dist_pu_second_stage_has_an_optimiser_of_its_own() -> None:
    preset = settings_of("dist_pu", "cifar3")
    assert isinstance(preset, DistPUSettings)
    second = preset.second
    assert (preset.epochs, preset.learning_rate, preset.weight_decay) == (60, 5e-4, 5e-3)
    assert (second.epochs, second.learning_rate, second.weight_decay) == (60, 5e-5, 1e-3)
    last = 60 * 200
    assert second.rate(0, 200) == pytest.approx(5e-5) and second.rate(last, 200) == pytest.approx(3.5e-5)
    assert preset.rate(last, 200) == pytest.approx(0, abs=1e-12)


def test_dist_pu_remembers_scores_and_keeps_labelled_rows_at_1(monkeypatch: pytest.MonkeyPatch) -> None:
    targets: list[tuple[Tensor, Tensor]] = []

    def spy(logits: Tensor, one: Tensor, other: Tensor, weight: Tensor) -> Tensor:
        targets.append((one.clone(), other.clone()))
        return mixed_cross_entropy(logits, one, other, weight)

    monkeypatch.setattr(dist_pu_module, "mixed_cross_entropy", spy)
    problem = make_problem(16, 4)
    settings = DistPUSettings(epochs=1, mix_epochs=3, steps=1, batch_size=16, mix_learning_rate=0.5)
    dist_pu_module.dist_pu(problem, settings)
    first, second, third = (sorted(one.tolist()) for one, _ in targets)  # a batch is all rows, in another order
    assert first.count(1.0) == second.count(1.0) == third.count(1.0) == 4
    assert second == pytest.approx(first, abs=1e-5), "the scores of the first step are those it began with"
    assert third != pytest.approx(first, abs=1e-3), "those of the second come after a large step"
    for one, other in targets:
        assert sorted(one.tolist()) == sorted(other.tolist()), "partners are the same rows"


def test_vpu_reference_value() -> None:
    p, x = torch.tensor([0.9, 0.8, 0.7], dtype=torch.float64), torch.tensor([0.9, 0.2, 0.1, 0.5], dtype=torch.float64)
    assert float(variational_loss(p.log(), x.log())) == pytest.approx(-0.6272731064, abs=1e-9)
    # A factor on φ changes nothing.
    assert float(variational_loss((p / 7).log(), (x / 7).log())) == pytest.approx(-0.6272731064, abs=1e-9)


def test_vpu_target_is_not_detached() -> None:
    x, mixed = (torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in ([0.2, 0.6], [0.3, 0.9]))
    u = torch.tensor(0.3, dtype=torch.float64)
    value = mixed_loss(x.log(), mixed.log(), u)
    target = 0.3 * np.array([0.2, 0.6]) + 0.7
    assert float(value.detach()) == pytest.approx(((np.log(target) - np.log([0.3, 0.9])) ** 2).mean(), abs=1e-12)
    away = np.log(target) - np.log([0.3, 0.9])
    to_x, to_mixed = torch.autograd.grad(value, (x, mixed))
    assert to_x.tolist() == pytest.approx((away * 0.3 / target).tolist(), abs=1e-12)
    assert to_mixed.tolist() == pytest.approx((-away / np.array([0.3, 0.9])).tolist(), abs=1e-12)


def test_vpu_border_is_half_of_the_largest() -> None:
    logits = torch.tensor([-1.0, 0.4, 2.0, -3.0, -0.3])
    phi = torch.sigmoid(logits)
    border_at = half_of_largest(nn.functional.logsigmoid(logits))
    assert torch.equal(logits > border_at, phi > phi.max() / 2)
    assert torch.sigmoid(border_at) == pytest.approx(float(phi.max() / 2), abs=1e-6)
    assert half_of_largest(torch.tensor([0.0])) == 0  # where the largest is 1, the border is one half


def test_vpu_optimiser_starts_anew() -> None:
    """After `forget` the optimiser goes on as a fresh one would."""
    start, rate = torch.tensor([[1.0, -2.0]]), 0.1
    networks = []
    for forgets in (True, False):
        layer = nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            layer.weight.copy_(start)
        learner = Learner(layer, Settings(learning_rate=rate))
        if forgets:
            learner.descend((layer.weight * torch.tensor([[3.0, 0.1]])).sum())
            learner.forget()
            with torch.no_grad():
                layer.weight.copy_(start)
        learner.descend((layer.weight * torch.tensor([[-0.5, 7.0]])).sum())
        networks.append(layer.weight.detach())
    assert torch.equal(*networks)


def test_vpu_presets_are_the_author_s() -> None:
    found = {task: settings_of("vpu", task) for task in ("cifar1", "fmnist2", "stl1")}
    numbers = {}
    for task, preset in found.items():
        assert isinstance(preset, VPUSettings)
        assert (preset.epochs, preset.steps, preset.batch_size, preset.labelled_batch) == (50, 30, 500, 500)
        assert preset.betas == (0.5, 0.99) and preset.alpha == 0.3
        rates = [preset.rate(epoch * 30, 30) / preset.learning_rate for epoch in (18, 19, 38, 39, 49)]
        assert rates == [1, 0.5, 0.5, 0.25, 0.25]
        numbers[task] = preset.weight, preset.learning_rate, preset.encoder
    assert numbers == {
        "cifar1": (0.03, 3e-5, "cnn7"), "fmnist2": (0.3, 3e-4, "lenet5"), "stl1": (0.3, 1e-4, "cnn7")
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- PAN, PULNS


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
        fresh = make_problem(seed=0).network(1)
        moved[weight] = float((scorer.network.layer.weight - fresh.layer.weight).detach().abs().max())
    assert moved[0.0] == 0 and moved[1e-4] > 1e-5


def test_pan_network_has_a_leaky_relu_where_ours_has_a_relu() -> None:
    problem = make_problem(encoder="mlp")
    plain = problem.network().eval()
    leaky = Leaky(problem.network()).eval()
    with torch.no_grad():
        z = plain.features(problem.x)
        assert torch.allclose(leaky(problem.x), plain.layer(nn.functional.leaky_relu(z, 0.2)).squeeze(1))
        assert not torch.allclose(leaky(problem.x), plain(problem.x))
        raw = make_problem().network()
        assert torch.equal(Leaky(make_problem().network())(problem.x), raw(problem.x)), "raw rows have none"


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
    total, usual = torch.zeros(()), Usual(torch.zeros(()))
    for _ in range(600):
        picked = torch.rand(8, generator=generator) < torch.sigmoid(g.detach())
        total = total + picked[:4].sum() - picked[4:].sum()
        step = gradient(reinforce_loss(g, picked, usual.advantage(total)), g)
        g = (g - 0.5 * step).detach().requires_grad_()
    assert (g[:4] > 0.5).all() and (g[4:] < -0.5).all()


def test_pulns_advantage_is_the_rise_against_the_usual() -> None:
    usual = Usual(torch.tensor(10.0))
    even = torch.ones(())
    for step in range(200):
        even = usual.advantage(torch.tensor(11.0 + step))
    assert abs(float(even)) < 0.1, "a steady rise is nothing unusual"
    assert usual.advantage(usual.last + 5) == 3 and usual.advantage(usual.last - 5) < -1


# ------------------------------------------------------------------------------------------------- what they share


def test_the_epoch_with_the_lowest_criterion_counts() -> None:
    problem = make_problem()
    left, held = problem.hold_out(0.25)
    network = left.network()
    learner = Learner(network, Settings(learning_rate=0.1))
    seen: list[float] = []
    weights: list[Tensor] = []

    def update(batch: PUBatch) -> Tensor:
        loss: Tensor = network(batch.x).square().mean()
        learner.descend(loss)
        return loss.detach()

    def criterion(logits: Tensor, labelled: Tensor) -> Tensor:
        assert len(logits) == len(held.x) and int(labelled.sum()) == 2
        seen.append([5.0, math.nan, 2.0, 3.0][len(seen)])
        weights.append(network.layer.weight.detach().clone())
        return torch.tensor(seen[-1])

    settings = Settings(epochs=4, steps=2, batch_size=8)
    train_best(left, settings, update, learner, watched=network, held=held, criterion=criterion)
    assert len(seen) == 4, "looked at after every epoch"
    assert torch.equal(network.layer.weight, weights[2]) and not torch.equal(weights[2], weights[3])


def test_without_a_finite_criterion_the_last_epoch_counts() -> None:
    problem = make_problem()
    network = problem.network()
    learner, before = Learner(network, Settings()), network.layer.weight.detach().clone()

    def update(batch: PUBatch) -> Tensor:
        loss: Tensor = network(batch.x).square().mean()
        learner.descend(loss)
        return loss.detach()

    how = {"watched": network, "held": problem, "criterion": lambda logits, _: logits.sum() * math.nan}
    train_best(problem, Settings(epochs=1, steps=2, batch_size=8), update, learner, **how)  # type: ignore[arg-type]
    assert not torch.equal(network.layer.weight, before)


def test_presets_name_the_networks_of_the_tables() -> None:
    base, other = Settings(epochs=3), Settings(epochs=7)
    presets = with_networks(base, fmnist=other)
    assert presets["fmnist"] == replace(other, encoder="lenet5") and presets["svhn"] == replace(base, encoder="cnn13")
    assert presets["cifar1"] == replace(base, encoder="cnn7") and presets["cifar"] == replace(base, encoder="cnn13")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PanSettings(labelled_batch=None), "PanSettings: labelled_batch must be a whole number ≥ 1; got None"),
        (lambda: PanSettings(dropout=1.0), "dropout must be a number strictly between 0 and 1; got 1.0"),
        (lambda: VPUSettings(held_out=0.0), "held_out must be a number strictly between 0 and 1; got 0.0"),
        (lambda: ImbPUSettings(share=1), "share must be a number strictly between 0 and 1; got 1"),
        (lambda: DistPUSettings(mix_epochs=0), "mix_epochs must be a whole number ≥ 1; got 0"),
        (lambda: PulnsSettings(selector_rate=-1.0), "selector_rate must be a finite number > 0; got -1.0"),
    ],
)
def test_bad_settings_are_one_line(make: Callable[[], Settings], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_equal_logits_and_another_others(name: str) -> None:
    generator = Generator().manual_seed(0)
    x = torch.cat([torch.randn(150, 2, generator=generator) + 2, torch.randn(90, 2, generator=generator) - 2])
    s = np.arange(240) < 60
    quick: dict[str, Any] = {"epochs": 2, "steps": 4, "batch_size": 32}
    if name == "dist_pu":
        quick["mix_epochs"] = 2

    def run(seed: int) -> Tensor:
        prior = PRIOR if name not in ("vpu", "pan", "pulns") else None
        scorer = fit_baseline(name, x, s, prior=prior, encoder="mlp", settings=quick, seed=seed, device="cpu")
        logits: Tensor = scorer(x)
        return logits

    first = run(0)
    assert torch.equal(first, run(0)) and not torch.equal(first, run(1))
    assert first.shape == (240,) and first.isfinite().all()
