"""LARS (You et al. 2017): momentum SGD whose step is scaled layer by layer to the size of the weights."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling; plain momentum SGD without a trust coefficient.

    For weights w with gradient g, decay β and trust coefficient η::

        v ← m v + λ (g + β w),   λ = η ‖w‖ / (‖g‖ + β ‖w‖),   w ← w − lr · v

    Vectors (biases and the parameters of norms) are neither scaled nor decayed: λ = 1 and β = 0. So is λ where w or g
    is 0, and everywhere without η. The learning rate may be a tensor, which a CUDA graph reads anew at every replay.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float | None = 1e-3,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight]["velocity"] = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        if closure is not None:
            raise NotImplementedError("LARS takes one gradient per step, not a closure")
        for group in self.param_groups:
            moved = [weight for weight in group["params"] if weight.grad is not None]
            for weights, scaled in (
                ([w for w in moved if w.ndim > 1], True),
                ([w for w in moved if w.ndim <= 1], False),
            ):
                if weights:
                    self._update(weights, group, scaled)

    def _update(self, weights: list[Tensor], group: dict[str, Any], scaled: bool) -> None:
        gradients = [weight.grad for weight in weights]
        if scaled:
            decay, trust = group["weight_decay"], group["trust"]
            steps = torch._foreach_add(gradients, weights, alpha=decay)  # type: ignore[arg-type]
            if trust is not None:
                size, slope = (torch.stack(torch._foreach_norm(of)) for of in (weights, gradients))  # type: ignore[arg-type]
                ratio = trust * size / (slope + decay * size)
                torch._foreach_mul_(steps, torch.where((size > 0) & (slope > 0), ratio, 1.0).unbind())
            gradients = list(steps)
        velocities = [self.state[weight]["velocity"] for weight in weights]
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_add_(velocities, gradients)  # type: ignore[arg-type]
        torch._foreach_sub_(weights, torch._foreach_mul(velocities, group["lr"]))
