"""Robust-PU and bagging by hand; what these, PiCO, WConPU, rank pruning, TEDⁿ and Elkan-Noto all keep."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from baseline_examples import (
    First,
    problem_of,
    spread_blobs,
)
from pucl.baselines import fit_baseline, settings_of
from pucl.baselines.bagging import DEFAULT as BAGGING
from pucl.baselines.bagging import Machine, out_of_bag_scores, random_machine, solve
from pucl.baselines.robust_pu import RobustPUSettings, pu_error, thresholds, weights
from pucl.baselines.shared.contrast import ContrastSettings
from pucl.baselines.shared.learning import Learner
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.training_settings import Settings
from pucl.errors import InputError
from pucl.registry import entries

NAMES = ["bagging", "elkan_noto", "pico", "rank_pruning", "robust_pu", "tedn", "wconpu"]
CPU = torch.device("cpu")
QUICK: dict[str, dict[str, Any]] = {
    "bagging": {"bags": 5, "features": 20},
    "elkan_noto": {"epochs": 1, "steps": 2},
    "pico": {"epochs": 3, "steps": 2, "batch_size": 16, "queue": 24},
    "rank_pruning": {"epochs": 1, "steps": 2},
    "robust_pu": {"epochs": 2, "steps": 2, "first_epochs": 1, "first_steps": 2, "inner": 1},
    "tedn": {"epochs": 2, "warm": 1, "steps": 2},
    "wconpu": {"epochs": 3, "steps": 2, "batch_size": 16, "queue": 24},
}

every_method = pytest.mark.parametrize("name", NAMES)


@every_method
def test_the_same_seed_gives_the_same_logits(name: str) -> None:
    x, s = spread_blobs()

    def logits(seed: int) -> Tensor:
        scorer = fit_baseline(name, x, s, prior=0.5, encoder="mlp", settings=QUICK[name], seed=seed, device="cpu")
        found: Tensor = scorer(x)
        return found

    first = logits(0)
    assert first.shape == (len(x),)
    assert first.isfinite().all()
    assert torch.equal(first, logits(0))
    assert not torch.equal(first, logits(1))


@every_method
def test_the_global_generator_is_left_alone(name: str) -> None:
    x, s = spread_blobs()
    before = torch.get_rng_state()
    fit_baseline(name, x, s, prior=0.5, encoder="mlp", settings=QUICK[name], device="cpu")
    assert torch.equal(before, torch.get_rng_state())


@every_method
def test_a_prior_is_asked_for_only_where_it_is_needed(name: str) -> None:
    x, s = spread_blobs()
    if entries("baselines")[name].needs_prior:
        with pytest.raises(InputError, match="prior"):
            fit_baseline(name, x, s, settings=QUICK[name], device="cpu")
        assert name in ("robust_pu", "wconpu")
    else:
        fit_baseline(name, x, s, settings=QUICK[name], device="cpu")


@every_method
def test_presets_name_networks_that_exist(name: str) -> None:
    for task in ("mnist", "fmnist1", "cifar1", "cifar3", "svhn1", "stl3", "alzheimer"):
        settings = settings_of(name, task)
        assert settings.encoder in entries("encoders") or name == "bagging"


def test_presets_of_the_authors() -> None:
    pico, wconpu = settings_of("pico", "cifar3"), settings_of("wconpu", "cifar3")
    assert (pico.encoder, pico.epochs, pico.batch_size) == ("resnet18", 800, 256)
    assert (wconpu.encoder, wconpu.epochs, wconpu.learning_rate) == ("cnn13", 800, 0.01)
    assert isinstance(pico, ContrastSettings)
    assert isinstance(wconpu, ContrastSettings)
    assert (pico.queue, pico.temperature, pico.key_decay, pico.prototype_decay) == (8192, 0.07, 0.999, 0.99)
    assert (wconpu.queue, wconpu.prototype_decay) == (8192, 0.999)
    assert settings_of("wconpu", "stl3").encoder == "resnet18"
    tedn = settings_of("tedn", "cifar1")
    assert (tedn.encoder, tedn.labelled_batch, tedn.batch_size, tedn.learning_rate) == ("cnn7", 200, 200, 0.1)


@pytest.mark.parametrize("name", ["pico", "wconpu"])
@pytest.mark.parametrize("side", [8, 20])
def test_contrast_takes_images_of_bytes(name: str, side: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (40, 3, side, side), generator=generator, dtype=torch.uint8)
    settings = {"epochs": 2, "steps": 1, "batch_size": 8, "queue": 16}
    scorer = fit_baseline(name, x, torch.arange(40) < 10, prior=0.5, settings=settings, device="cpu")
    assert scorer(x).isfinite().all()


# Robust-PU


def test_robust_weights_are_the_formula() -> None:
    logits, labelled = torch.tensor([2.0, -1.0, 0.3, -2.0]), torch.tensor([True, True, False, False])
    found = weights(logits, labelled, (0.5, 0.8), (1.0, 1.3))
    f = logits.numpy().astype(float)
    expected = np.r_[np.exp(-np.log1p(np.exp(-f[:2])) / 0.25), np.exp(-np.log1p(np.exp(f[2:] / 1.3)) / 0.64)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_robust_thresholds_grow_in_a_straight_line() -> None:
    settings = RobustPUSettings(growing=4, lowest=(0.1, 0.2), highest=(1.0, 2.0))
    assert thresholds(settings, 0) == pytest.approx((0.1, 0.2))
    assert thresholds(settings, 2) == pytest.approx((0.55, 1.1))
    assert thresholds(settings, 9) == pytest.approx((1.0, 2.0))


def test_robust_selection_needs_no_truth() -> None:
    x = torch.tensor([1.0, 2.0, -1.0, 3.0, 1.0, -1.0, -2.0, -3.0])[:, None]
    held = problem_of(x, torch.arange(8) < 3, prior=0.4)
    expected = 2 * 0.4 * (1 / 3) + 2 / 5 - 0.4
    assert pu_error(held, First()) == pytest.approx(expected)  # type: ignore[arg-type]


def test_a_forgetful_optimiser_is_a_fresh_one() -> None:
    def steps(layer: nn.Linear, learner: Learner, count: int) -> None:
        for number in range(count):
            learner.descend((layer(torch.full((1, 3), 1.0 + number)) ** 2).sum())

    torch_state = torch.Generator().manual_seed(0)
    start = torch.randn(1, 3, generator=torch_state)
    first, second = nn.Linear(3, 1), nn.Linear(3, 1)
    settings = Settings(learning_rate=0.1)
    with torch.no_grad():
        first.weight.copy_(start)
        first.bias.zero_()
    learner = Learner(first, settings)
    steps(first, learner, 3)
    second.load_state_dict(first.state_dict())
    learner.forget()
    steps(first, learner, 2)
    steps(second, Learner(second, settings), 2)
    torch.testing.assert_close(first.weight, second.weight)


# Bagging


def test_machines_are_at_their_minimum() -> None:
    generator = torch.Generator().manual_seed(0)
    labelled = torch.randn(15, 8, generator=generator)
    sample = torch.randn(4, 25, 8, generator=generator)
    labelled[:, -1], sample[:, :, -1] = 1, 1
    found = solve(labelled, sample, 0.7)
    for w, rows in zip(found.double().numpy(), sample.double().numpy(), strict=True):
        phi = np.r_[labelled.double().numpy(), rows]
        side = np.r_[np.ones(15), -np.ones(25)]
        v = np.where(side > 0, 40 / 2 / 15, 40 / 2 / 25)
        slack = np.maximum(0, 1 - side * (phi @ w))
        gradient = np.r_[w[:-1], 1e-4 * w[-1]] - 2 * 0.7 * phi.T @ (v * side * slack)
        assert np.abs(gradient).max() < 1e-3


def test_random_features_stand_for_the_kernel() -> None:
    x, s = spread_blobs()
    problem = problem_of(x, s)
    machine = random_machine(problem, replace(BAGGING, features=20_000))
    phi = machine.features(x[:6])[:, :-1]
    scaled = problem.standardise(x[:6])
    kernel = torch.exp(-(torch.cdist(scaled, scaled) ** 2) / 4)
    torch.testing.assert_close(phi @ phi.T, kernel, atol=0.05, rtol=0)


def test_rows_are_scored_by_machines_that_did_not_draw_them() -> None:
    x, s = spread_blobs(4, 6)
    problem = problem_of(x, s)
    machine = random_machine(problem, replace(BAGGING, features=9))
    bags = torch.tensor([[0, 0, 1], [1, 2, 5], [1, 4, 4]])  # row 1 of U is in all, row 3 in none
    found = torch.randn(3, 10, generator=torch.Generator().manual_seed(1))
    each = (machine.features(x[4:]) @ found.T).numpy()
    expected = [each[0, 1:].mean(), each[1].mean(), each[2, [0, 2]].mean(), each[3].mean(), each[4, :2].mean()]
    expected.append(each[5, [0, 2]].mean())
    np.testing.assert_allclose(out_of_bag_scores(problem, machine, found, bags).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_the_threshold_of_bagging() -> None:
    x, s = spread_blobs(20, 200)
    free = fit_baseline("bagging", x, s, device="cpu")
    assert isinstance(free, Machine)
    with_prior = fit_baseline("bagging", x, s, prior=0.3, device="cpu")
    assert isinstance(with_prior, Moved)
    torch.testing.assert_close(with_prior(x), free(x) - with_prior.shift)
    assert float((with_prior(x[~s]) > 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert float((free(x[~s]) > 0).float().mean()) == pytest.approx(0.5, abs=0.1)
