"""Slow loop versions of the objectives, written from the paper's equations and not from the package's code."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pucl.registry import get

Reference = Callable[..., float]


def options(name: str) -> dict[str, Any]:
    """What the objective cannot do without, beyond pairs and temperature."""
    takes = inspect.signature(get("losses", name).function).parameters
    return {key: value for key, value in (("prior", 0.4), ("mixing", 0.3)) if key in takes}


def _rows(z1: Tensor, z2: Tensor) -> list[list[float]]:
    rows = torch.cat([z1, z2]).double().tolist()
    return [[v / math.sqrt(sum(w * w for w in row)) for v in row] for row in rows]


def _mean_loss(z1: Tensor, z2: Tensor, tau: float, weight: Callable[[int, int], float]) -> float:
    """− mean_i [Σ_j weight(i, j) z_i·z_j/τ − log Σ_{k≠i} exp(z_i·z_k/τ)]."""
    z = _rows(z1, z2)
    total = 0.0
    for i in range(len(z)):
        sim = [sum(a * b for a, b in zip(z[i], z[j], strict=True)) / tau for j in range(len(z))]
        others = [sim[k] for k in range(len(z)) if k != i]
        top = max(others)
        log_z = top + math.log(sum(math.exp(v - top) for v in others))
        total += log_z - sum(weight(i, j) * sim[j] for j in range(len(z)) if j != i)
    return total / len(z)


def _side_mean(labelled: list[int]) -> Callable[[int, int], float]:
    def weight(i: int, j: int) -> float:
        return float(labelled[i] == labelled[j]) / (labelled.count(labelled[i]) - 1)

    return weight


def _own_view(n: int) -> Callable[[int, int], float]:
    return lambda i, j: float(j == (i + n) % (2 * n))


def sscl(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float) -> float:
    return _mean_loss(z1, z2, tau, _own_view(len(s)))


def scl_pu(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float) -> float:
    return _mean_loss(z1, z2, tau, _side_mean([*s, *s]))


def mcl(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float, *, mixing: float) -> float:
    return mixing * scl_pu(z1, z2, s, tau) + (1 - mixing) * sscl(z1, z2, s, tau)


def pucl(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float) -> float:
    labelled, side, own = [*s, *s], _side_mean([*s, *s]), _own_view(len(s))
    return _mean_loss(z1, z2, tau, lambda i, j: side(i, j) if labelled[i] else own(i, j))


def punce(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float, *, prior: float, variant: str = "paper") -> float:
    labelled, side, own = [*s, *s], _side_mean([*s, *s]), _own_view(len(s))
    n_p = sum(labelled)

    def weight(i: int, j: int) -> float:
        if labelled[i]:
            return side(i, j)
        if variant == "released":
            return (own(i, j) + (prior * labelled[j] / n_p if n_p else 0)) / (1 + (prior if n_p else 0))
        return prior * (labelled[j] + own(i, j)) / (n_p + 1) + (1 - prior) * own(i, j)

    return _mean_loss(z1, z2, tau, weight)


def dcl(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float, *, prior: float) -> float:
    z, n = _rows(z1, z2), len(s)
    n_neg = 2 * n - 2
    loss = 0.0
    for i in range(2 * n):
        sim = [math.exp(sum(a * b for a, b in zip(z[i], z[j], strict=True)) / tau) for j in range(2 * n)]
        own = sim[(i + n) % (2 * n)]
        others = sum(sim[j] for j in range(2 * n) if j not in (i, (i + n) % (2 * n)))
        negatives = max((others - n_neg * prior * own) / (1 - prior), n_neg * math.exp(-1 / tau))
        loss -= math.log(own / (own + negatives))
    return loss / (2 * n)


LOOPS: dict[str, Reference] = {
    "sscl": sscl, "scl": scl_pu, "scl_pu": scl_pu, "mcl": mcl, "pucl": pucl, "punce": punce, "dcl": dcl
}  # fmt: skip

# z[i,d] = sin(1.3 i + 0.7 d + 0.1), z2[i,d] = cos(0.9 i - 0.4 d + 0.2), s = [1,1,0,0,0,1], τ = 0.5, float64;
# measured with the code of the papers the objectives come from.
VALUES: list[tuple[str, dict[str, Any], float]] = [
    ("sscl", {}, 2.990788069804499),
    ("scl", {}, 2.5993394848893163),
    ("scl_pu", {}, 2.5993394848893163),
    ("mcl", {"mixing": 0.3}, 2.8733534943299444),
    ("pucl", {}, 2.8495346369995915),
    ("dcl", {"prior": 0.1}, 2.9497941342194736),
    ("dcl", {"prior": 0.3}, 2.835212404499399),
    ("punce", {"prior": 0.1}, 2.8768677985461992),
    ("punce", {"prior": 0.3}, 2.9315341216394146),
    ("punce", {"prior": 0.1, "variant": "released"}, 2.8785243537914487),
    ("punce", {"prior": 0.3, "variant": "released"}, 2.923123918086612),
]


def value_batch() -> tuple[Tensor, Tensor, Tensor]:
    i, d = torch.arange(6, dtype=torch.float64)[:, None], torch.arange(4, dtype=torch.float64)
    return torch.sin(1.3 * i + 0.7 * d + 0.1), torch.cos(0.9 * i - 0.4 * d + 0.2), torch.tensor([1, 1, 0, 0, 0, 1])
