"""Dropout that draws from a generator of one's own, so that the same seed gives the same run."""

import torch
from torch import Generator, Tensor


def dropout(z: Tensor, rate: float, generator: Generator) -> Tensor:
    """Every number is 0 with probability `rate`; the others grow, so that the mean stays.

    z' = z · b / (1 − rate),    b ~ Bernoulli(1 − rate)
    """
    kept = torch.empty_like(z).bernoulli_(1 - rate, generator=generator)
    return z * kept / (1 - rate)
