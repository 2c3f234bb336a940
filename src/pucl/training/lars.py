"""LARS (You et al. 2017) as the paper's authors use it: SGD with steps scaled, tensor by tensor, to the weights."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from pucl.training.sgd import SGD

EPSILON = 1e-8


class LARS(SGD):
    """Layer-wise adaptive rate scaling of every tensor, with Nesterov momentum.

    For a tensor of weights w with gradient g, decay β, momentum m, trust coefficient η and ε = 1e-8::

        d = λ (g + β w),   λ = η ‖w‖ / (‖g‖ + β ‖w‖ + ε)      if ‖w‖ > 0 and ‖g‖ > 0
        d = g                                                 otherwise
        v ← m v + d,   w ← w − lr · (d + m v)

    Biases and the parameters of norms are scaled and decayed like all others: a bias that takes unscaled steps moves by
    many times its own size, which costs an encoder without norms some four points of a linear probe (LOG.md). Only its
    momentum moves a tensor whose gradient is 0: it is not decayed. A tensor of zeros, such as the shift of a fresh
    norm, takes an unscaled step. The authors' code scales nothing where β is 0; this scales there too.
    """

    nesterov = True

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust)

    def directions(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """The d of every tensor."""
        decay = group["weight_decay"]
        size, slope = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, gradients))
        scaled = (size > 0) & (slope > 0)
        ratio = torch.where(scaled, group["trust"] * size / (slope + decay * size + EPSILON), 1.0)
        shrink = torch._foreach_mul(weights, torch.where(scaled, ratio * decay, 0.0).unbind())
        directions = torch._foreach_mul(gradients, ratio.unbind())
        torch._foreach_add_(directions, shrink)
        return list(directions)
