"""The running average of a network's weights."""

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

N = TypeVar("N", bound=nn.Module)


class WeightAverage(Generic[N]):
    r"""A copy of a network that follows it: every number is a running average over the steps.

        w̄ ← α_t w̄ + (1 − α_t) w,    α_t = min(α, (1 + t) / (10 + t))

    where w are the weights and buffers after step t and α is the decay. Early steps count more, so that the start is
    soon forgotten. Whole numbers are copied. The copy is in evaluation mode and needs no gradient.

    Attributes:
        network: the copy.
    """

    def __init__(self, network: N, decay: float) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        own, other = self.network.state_dict(keep_vars=True), network.state_dict(keep_vars=True)
        self._pairs = [(own[name], value) for name, value in other.items()]
        self._decay = decay
        self._share = torch.zeros((), device=next(network.parameters()).device)  # 1 − α_t, read by a recorded step

    def prepare(self, step: int) -> None:
        """Set the decay of a step, counted from 0; this is not part of a recorded step, all else is."""
        self._share.fill_(1 - min(self._decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self) -> None:
        """Follow the network by one step."""
        for average, value in self._pairs:
            if average.is_floating_point():
                average.lerp_(value, self._share.to(average.dtype))
            else:
                average.copy_(value)
