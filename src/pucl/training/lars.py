"""LARS (You et al. 2017): momentum SGD whose step is scaled layer by layer to the size of the weights."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling.

    For weights w with gradient g, decay β and trust coefficient η::

        v ← m v + λ (g + β w),   λ = η ‖w‖ / (‖g‖ + β ‖w‖),   w ← w − lr · v

    Vectors (biases and the parameters of norms) are neither scaled nor decayed: λ = 1 and β = 0.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        if closure is not None:
            raise NotImplementedError("LARS takes one gradient per step, not a closure")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if weight.ndim > 1:
            decay = group["weight_decay"]
            size, slope = weight.norm(), gradient.norm()
            scale = group["trust"] * size / (slope + decay * size)
            scale = torch.where((size > 0) & (slope > 0), scale, torch.ones_like(scale))
            gradient = scale * (gradient + decay * weight)
        velocity = self.state[weight].setdefault("velocity", torch.zeros_like(weight))
        velocity.mul_(group["momentum"]).add_(gradient)
        weight.sub_(velocity, alpha=group["lr"])
