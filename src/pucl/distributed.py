"""Several processes, one run: joining them, rows and sums of all, averaged gradients, batch norm over the rows of all.

On a single process everything is the identity.
"""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from pucl.device import pick_device
from pucl.errors import Described, bad_argument

PAUSE = 0.05  # seconds before parting, in which the threads of gloo end: with torch 2.4 both could wait for ever


@contextmanager
def joined(device: str | torch.device | None = None) -> Iterator[torch.device]:
    """Join the processes that `torchrun` started, NCCL on GPUs and gloo on CPUs; yields the device of this one.

    A process started alone, or one that has joined already, just gets its device.
    """
    place = pick_device(device)
    join = int(os.environ.get("WORLD_SIZE", "1")) > 1 and not (dist.is_available() and dist.is_initialized())
    if join:
        if place.type == "cuda":
            torch.cuda.set_device(place)
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield place
    finally:
        if join:
            time.sleep(PAUSE)
            dist.destroy_process_group()


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

    Every process uses the result in its own loss, and the whole loss is the sum of those; so the gradient is a sum
    over processes too.
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


def own_part(size: int, argument: str = "batch_size") -> slice:
    """Which rows of every batch, or chunk of a batch, are this process's own."""
    rank, world = rank_and_world()
    if size % world:
        allowed = f"a multiple of the number of processes ({world})"
        raise bad_argument("TrainConfig", argument, allowed, Described(f"{size:,}"))
    own = size // world
    return slice(rank * own, (rank + 1) * own)


class _SharedBatchNorm(_BatchNorm):
    """Batch norm over the rows of all processes, for devices without PyTorch's own."""

    def _check_input_dim(self, x: Tensor) -> None:
        del x

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        axes = [0, *range(2, x.ndim)]
        shape = [1, -1] + [1] * (x.ndim - 2)
        count = x.numel() // x.shape[1] * rank_and_world()[1]
        mean = total(x.sum(axes)) / count
        centred = x - mean.view(shape)
        variance = total(centred.square().sum(axes)) / count
        if self.running_mean is not None and self.running_var is not None and self.momentum is not None:
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / max(count - 1, 1)), self.momentum)
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked.add_(1)
        out = centred * (variance + self.eps).rsqrt().view(shape)
        return out * self.weight.view(shape) + self.bias.view(shape) if self.affine else out


@contextmanager
def shared_batch_norm(network: nn.Module) -> Iterator[None]:
    """While this lasts, batch norms of the network see the rows of all processes; alone nothing changes."""
    if rank_and_world()[1] == 1:
        yield
        return
    norms = [(module, type(module)) for module in network.modules() if isinstance(module, _BatchNorm)]
    for module, _ in norms:
        on_gpu = module.weight is not None and module.weight.is_cuda
        module.__class__ = nn.SyncBatchNorm if on_gpu else _SharedBatchNorm
        module.process_group = None  # type: ignore[assignment]  # None means all processes; SyncBatchNorm reads it
    try:
        yield
    finally:
        for module, kind in norms:
            module.__class__ = kind
            del module.process_group


@contextmanager
def averaging(network: nn.Module) -> Iterator[nn.Module]:
    """The network with the gradients of all processes averaged; alone, the network as it is.

    DistributedDataParallel keeps the process group alive. It is released at the end, even if the frames of an error
    still hold the wrapper: as the last owner of the group it would wait for the group's threads while it holds the
    GIL, and the threads would wait for the GIL.
    """
    if rank_and_world()[1] == 1:
        yield network
        return
    with warnings.catch_warnings():  # what is to replace the argument is not in every version of torch yet
        warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
        wrapped = DistributedDataParallel(network, broadcast_buffers=False)
    try:
        yield wrapped
    finally:
        del wrapped.logger, wrapped.reducer
