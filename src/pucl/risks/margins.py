"""Margin losses ℓ(m): what a decision costs whose logit, turned towards the right class, is m."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.errors import unknown_name

MarginLoss = Literal["sigmoid", "logistic", "zero-one"]


def sigmoid(margin: Tensor) -> Tensor:
    """The sigmoid loss, bounded and symmetric: ℓ(m) + ℓ(−m) = 1.

        ℓ(m) = σ(−m) = 1 / (1 + eᵐ)

    where m is the margin.
    """
    return torch.sigmoid(-margin)


def logistic(margin: Tensor) -> Tensor:
    """The logistic loss, convex, with ℓ(m) − ℓ(−m) = −m; with it the uPU risk of a linear classifier is convex.

        ℓ(m) = log(1 + e⁻ᵐ)

    where m is the margin.
    """
    return F.softplus(-margin)


def zero_one(margin: Tensor) -> Tensor:
    """The share of wrong decisions; it can be measured but not minimised, its gradient is 0.

        ℓ(m) = (1 − sign m) / 2

    where m is the margin; a logit of exactly 0 counts one half.
    """
    return (1 - torch.sign(margin)) / 2


LOSSES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"sigmoid": sigmoid, "logistic": logistic, "zero-one": zero_one}
)
_BY_NAME = tuple(LOSSES.items())


def margin_loss(name: str) -> Callable[[Tensor], Tensor]:
    """The margin loss of that name."""
    for known, loss in _BY_NAME:  # the compiler of torch 2.4 cannot look into a `MappingProxyType`
        if name == known:
            return loss
    raise unknown_name("margin loss", name, LOSSES)
