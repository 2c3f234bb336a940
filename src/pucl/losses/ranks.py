"""Rows of all processes: gathering, and sums that carry gradients. On a single process everything is the identity."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def rank_and_world() -> tuple[int, int]:
    """This process's number and how many there are; (0, 1) without `torch.distributed`."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def gather(x: Tensor) -> Tensor:
    """The rows of all processes, stacked in their order; every process must hold the same number. No gradient."""
    _, world = rank_and_world()
    if world == 1:
        return x
    parts = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def total(x: Tensor) -> Tensor:
    """The sum of `x` over all processes, with the gradient of that sum.

    Every process uses the result in a loss of its own, and the whole loss is the sum of those: what flows back is the
    sum over processes as well.
    """
    _, world = rank_and_world()
    if world == 1:
        return x
    out: Tensor = _Total.apply(x)  # type: ignore[no-untyped-call]
    return out


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        out = x.clone()
        dist.all_reduce(out)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        del ctx, inputs, output

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> Tensor:
        del ctx
        out = gradient[0].clone()
        dist.all_reduce(out)
        return out


def mean_over_ranks(x: Tensor) -> Tensor:
    """The mean of the values of all processes, the same number on each; each holds the gradient of its own share."""
    _, world = rank_and_world()
    if world == 1:
        return x.mean()
    own = x.mean() / world
    whole = own.detach().clone()
    dist.all_reduce(whole)
    return own + (whole - own.detach())
