"""Slow loop versions of the objectives, written from the paper's equations and not from the package's code."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Reference = Callable[..., float]


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


def sscl(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float) -> float:
    n = len(s)
    return _mean_loss(z1, z2, tau, lambda i, j: float(j == (i + n) % (2 * n)))


def pucl(z1: Tensor, z2: Tensor, s: Sequence[int], tau: float) -> float:
    n = len(s)
    labelled = [*s, *s]

    def weight(i: int, j: int) -> float:
        if labelled[i]:
            return labelled[j] / (sum(labelled) - 1)
        return float(j == (i + n) % (2 * n))

    return _mean_loss(z1, z2, tau, weight)


LOOPS: dict[str, Reference] = {"sscl": sscl, "pucl": pucl}

# z[i,d] = sin(1.3 i + 0.7 d + 0.1), z2[i,d] = cos(0.9 i - 0.4 d + 0.2), s = [1,1,0,0,0,1], τ = 0.5, float64
VALUES = {"sscl": 2.990788069804499, "pucl": 2.8495346369995915}


def value_batch() -> tuple[Tensor, Tensor, Tensor]:
    i, d = torch.arange(6, dtype=torch.float64)[:, None], torch.arange(4, dtype=torch.float64)
    return torch.sin(1.3 * i + 0.7 * d + 0.1), torch.cos(0.9 * i - 0.4 * d + 0.2), torch.tensor([1, 1, 0, 0, 0, 1])
