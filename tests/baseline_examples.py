"""Small problems, samples and quick fits for the tests of baselines."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

import pucl
from pucl.baselines import fit_baseline
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.training_problem import PUProblem
from pucl.data import Dataset
from pucl.encoders.inputs import Standardise

SIMPLE = ("naive", "naive_mixup", "labelled_centroid")  # what the others are compared with
TASKS: dict[str, dict[str, Any]] = {"digits": {}, "gaussians": {"modes": 3}}
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


def plane_problem(n: int = 40, n_labelled: int = 8, *, encoder: str | nn.Module = "raw", seed: int = 0) -> PUProblem:
    x = torch.randn(n, 2, generator=Generator().manual_seed(1))
    scale = Standardise(torch.zeros(2), torch.ones(2))
    return PUProblem("test", x, torch.arange(n) < n_labelled, PRIOR, encoder, scale, seed)


def line_problem(x: Tensor, n_labelled: int, *, prior: float = 0.5, encoder: str | nn.Module = "raw") -> PUProblem:
    labelled = torch.arange(len(x)) < n_labelled
    scale = Standardise(torch.zeros(x.shape[1]), torch.ones(x.shape[1]))
    return PUProblem("test", x, labelled, prior, encoder, scale, seed=0)


def line(n: int, n_labelled: int, **how: Any) -> PUProblem:
    """Rows 0, 1, …, n − 1 on a line, of which the first are labelled."""
    return line_problem(torch.arange(n, dtype=torch.float32)[:, None], n_labelled, **how)


def blobs(n: int = 240) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(0)
    centre = torch.where(torch.arange(n) < n // 2, 2.0, -2.0)[:, None]
    return torch.randn(n, 5, generator=generator) + centre, (torch.arange(n) < n // 6).long()


def set_weights(network: Network, weight: list[float], bias: float = 0.0) -> None:
    with torch.no_grad():
        network.layer.weight.copy_(torch.tensor([weight]))
        network.layer.bias.fill_(bias)


def spread_blobs(n_labelled: int = 12, n_unlabelled: int = 60, *, dim: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Positives around +1, negatives around −1; half of U is positive."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.ones(n_labelled + n_unlabelled, 1)
    centre[n_labelled + n_unlabelled // 2 :] = -1
    s = torch.arange(len(centre)) < n_labelled
    return centre + 0.7 * torch.randn(len(centre), dim, generator=generator), s


def problem_of(x: Tensor, labelled: Tensor, *, prior: float | None = 0.5, encoder: str = "mlp") -> PUProblem:
    return PUProblem("test", x, labelled, prior, encoder, Standardise.of(x), 0)


class First(nn.Module):
    """Scores rows by their first feature."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


@cache
def sample(task: str) -> tuple[Dataset, Tensor, Any, float]:
    data = pucl.load(task, **TASKS[task])
    drawn = pucl.make_pu(data.y_train, 100)
    return data, torch.as_tensor(data.x_train[drawn.rows]), drawn.s, drawn.prior


def small_net(inputs: int) -> nn.Module:
    """Quick on a CPU, and people's own: two layers with batch norm."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Linear(inputs, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.BatchNorm1d(64)]
        return nn.Sequential(nn.Flatten(), *layers, nn.ReLU())


def fit(name: str, task: str, **how: Any) -> tuple[Dataset, nn.Module]:
    data, x, s, prior = sample(task)
    net = small_net(x[0].numel())
    return data, fit_baseline(name, x, s, prior=prior, **{"encoder": net, "seed": 0, "device": "cpu", **how})


def accuracy(data: Dataset, scorer: nn.Module) -> float:
    return pucl.evaluate(data.y_test, scorer(torch.as_tensor(data.x_test))).accuracy


@cache
def naive(task: str) -> float:
    return accuracy(*fit("naive", task))
