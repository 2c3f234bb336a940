"""MixUp (Zhang et al. 2018): convex combinations of rows, and the draws they need."""

import torch
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


def mix(one: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    """λ · one + (1 − λ) · other, with one λ for all rows, or one each.

    Images as uint8 are mixed as floats within [0, 1].
    """
    if one.dtype == torch.uint8:
        one, other = to_float(one), to_float(other)
    if weight.ndim:
        weight = weight.view(-1, *[1] * (one.ndim - 1))
    return weight * one + (1 - weight) * other
