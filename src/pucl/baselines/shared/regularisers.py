"""Regularisers that several methods share: MixUp (Zhang et al. 2018) with its draws, dropout, entropy."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.encoders.inputs import to_float


def beta(alpha: float, steps: int, generator: Generator) -> Tensor:
    """λ ~ Beta(α, α), one per step, (steps,)."""
    shape = torch.full((2, steps), alpha, dtype=torch.float64)
    gamma: Tensor = torch._standard_gamma(shape, generator=generator).clamp(min=torch.finfo(torch.float64).tiny)
    return (gamma[0] / gamma.sum(dim=0)).float()


def permutations(size: int, steps: int, generator: Generator) -> Tensor:
    """A random order of the rows of every step, (steps, size)."""
    return torch.rand(steps, size, generator=generator).argsort(dim=1)


def mix(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """λ · first + (1 − λ) · second, with one λ for all rows, or one each.

    Images as uint8 are mixed as floats within [0, 1].
    """
    if first.dtype == torch.uint8:
        first, second = to_float(first), to_float(second)
    if weight.ndim:
        weight = weight.view(-1, *[1] * (first.ndim - 1))
    return weight * first + (1 - weight) * second


def dropout(z: Tensor, rate: float, generator: Generator) -> Tensor:
    """Dropout from a given generator: a number is 0 with probability `rate`, the others grow to keep the mean.

    z' = z · b / (1 − rate),    b ~ Bernoulli(1 − rate)
    """
    kept = torch.empty_like(z).bernoulli_(1 - rate, generator=generator)
    return z * kept / (1 - rate)


def entropy(logits: Tensor) -> Tensor:
    """How unsure a classifier is: the entropy of σ(f), in nats, row by row.

    H = −σ(f) log σ(f) − σ(−f) log σ(−f)
    """
    return torch.sigmoid(logits) * F.softplus(-logits) + torch.sigmoid(-logits) * F.softplus(logits)
