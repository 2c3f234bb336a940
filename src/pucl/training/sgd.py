"""Momentum SGD whose step can be recorded as a CUDA graph: nothing waits for the device."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class SGD(Optimizer):
    """Momentum SGD.

    For weights w with gradient g, decay β and momentum m::

        v ← m v + d,   w ← w − lr · v,   d = g + β w

    Vectors (biases and the parameters of norms) are not decayed: β = 0. The learning rate may be a tensor, which a CUDA
    graph reads anew at every replay.
    """

    nesterov = False

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        **more: float,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, **more})
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight]["velocity"] = torch.zeros_like(weight)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As PyTorch does it, but for its compiler: loading that takes a second, and nothing here is compiled."""
        add = Optimizer.add_param_group
        getattr(add, "__wrapped__", add)(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, without loading the compiler."""
        if not set_to_none:
            super().zero_grad(set_to_none=False)
            return
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        if closure is not None:
            raise NotImplementedError(f"{type(self).__name__} takes one gradient per step, not a closure")
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, group)

    def directions(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """The d of every tensor."""
        decay = group["weight_decay"]
        return [g.add(w, alpha=decay) if w.ndim > 1 else g for w, g in zip(weights, gradients, strict=True)]

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        gradients, momentum = [weight.grad for weight in weights if weight.grad is not None], group["momentum"]
        directions = self.directions(weights, gradients, group)
        velocities = [self.state[weight]["velocity"] for weight in weights]
        torch._foreach_mul_(velocities, momentum)
        torch._foreach_add_(velocities, directions)
        moves = torch._foreach_add(directions, velocities, alpha=momentum) if self.nesterov else velocities
        torch._foreach_sub_(weights, torch._foreach_mul(moves, group["lr"]))
