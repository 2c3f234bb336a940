"""Several processes, one run: joining them, adding up their gradients, batch norm over the rows of all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from pucl.errors import Described, bad_argument
from pucl.losses.ranks import rank_and_world, total


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
            dist.destroy_process_group()


def pick_device(device: str | torch.device | None = None) -> torch.device:
    """The device asked for, or a GPU if there is one; of several GPUs the one of this process."""
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or (chosen.type != "cuda" and str(chosen) != "cpu"):
        raise bad_argument("pucl", "device", "'cpu', 'cuda', 'cuda:1' …", str(device))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise bad_argument("pucl", "device", "'cpu' on a machine without a CUDA device", str(device))
    count = torch.cuda.device_count()
    if chosen.type == "cuda" and chosen.index is not None and chosen.index >= count:
        raise bad_argument("pucl", "device", f"'cpu', or 'cuda:0' to 'cuda:{count - 1}' on this machine", str(device))
    if str(chosen) == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % count)
    return chosen


def own_part(batch_size: int) -> slice:
    """Which rows of every batch are this process's own."""
    rank, world = rank_and_world()
    if batch_size % world:
        allowed = f"a multiple of the number of processes ({world})"
        raise bad_argument("TrainConfig", "batch_size", allowed, Described(f"{batch_size:,}"))
    size = batch_size // world
    return slice(rank * size, (rank + 1) * size)


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
    found = [(module, type(module)) for module in network.modules() if isinstance(module, _BatchNorm)]
    for module, _ in found:
        on_gpu = module.weight is not None and module.weight.is_cuda
        module.__class__ = nn.SyncBatchNorm if on_gpu else _SharedBatchNorm
        module.process_group = None  # type: ignore[assignment]  # all processes; PyTorch's own asks for it
    try:
        yield
    finally:
        for module, kind in found:
            module.__class__ = kind
            del module.process_group


@contextmanager
def averaging(network: nn.Module) -> Iterator[nn.Module]:
    """The network with the gradients of all processes averaged; alone, the network as it is.

    What averages holds on to the group of processes. It is let go at the end, even when an error keeps the wrapper in
    its frames: if it were the last to hold the group, it would wait for the group's threads with the interpreter
    locked, and they for the interpreter.
    """
    if rank_and_world()[1] == 1:
        yield network
        return
    wrapped = DistributedDataParallel(network, broadcast_buffers=False)
    try:
        yield wrapped
    finally:
        del wrapped.logger, wrapped.reducer
