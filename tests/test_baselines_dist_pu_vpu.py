"""Dist-PU and vPU: formulae by hand, gradients, what they remember."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from baseline_examples import (
    PRIOR,
    A,
    batch,
    plane_problem,
    sigma,
)
from pucl.baselines import Settings, settings_of
from pucl.baselines import dist_pu as dist_pu_module
from pucl.baselines.dist_pu import DistPUSettings, distribution_risk, growth, mixed_cross_entropy
from pucl.baselines.shared.learning import Learner
from pucl.baselines.shared.regularisers import entropy
from pucl.baselines.vpu import VPUSettings, half_of_largest, mixed_loss, variational_loss


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
    problem = plane_problem(16, 4)
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
