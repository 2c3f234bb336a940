"""What networks trained on risks share: the best epoch, presets, settings, seeds."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from baseline_examples import (
    PRIOR,
    plane_problem,
)
from pucl.baselines import Settings, fit_baseline
from pucl.baselines.dist_pu import DistPUSettings
from pucl.baselines.imbpu import ImbPUSettings
from pucl.baselines.pan import PanSettings
from pucl.baselines.pulns import PulnsSettings
from pucl.baselines.shared.best_epoch import train_best
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.training_settings import with_networks
from pucl.baselines.vpu import VPUSettings
from pucl.errors import InputError

METHODS = ("pan", "pulns", "pubn", "apu", "imbpu", "abspu", "pusb", "dist_pu", "vpu")


def test_the_epoch_with_the_lowest_criterion_counts() -> None:
    problem = plane_problem()
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
    problem = plane_problem()
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


@pytest.mark.slow
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
