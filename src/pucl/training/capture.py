"""A step of training as a CUDA graph: the device launches its kernels itself, without waiting for Python."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from pucl.numerics.memory import kept_memory

R = TypeVar("R")
WARM = 3  # steps taken one by one before a graph is made of them: kernels are chosen and memory is laid out in these


class Captured(Generic[R]):
    """A function of tensors that is recorded once and then replayed.

    The first calls are made as they are; then one is recorded, and every further call replays it on the tensors put
    into its places. What it reads besides its arguments, such as a learning rate, is a tensor that keeps its place,
    and so is what it changes. The result lies in the same place every time.

    Args:
        function: takes the step.
        generators: the random generators of the device that it draws from.
        optimisers: those whose steps it takes.
    """

    def __init__(
        self,
        function: Callable[..., R],
        *,
        generators: Sequence[Generator] = (),
        optimisers: Sequence[Optimizer] = (),
    ) -> None:
        self.function, self.generators, self.optimisers = function, generators, optimisers
        self.taken = 0
        self.graph: Any = None
        self.inputs: tuple[Tensor, ...]
        self.result: R

    def __call__(self, *inputs: Tensor) -> R:
        """Take the step."""
        self.taken += 1
        if self.taken <= WARM:
            return self.function(*inputs)
        if self.graph is None:
            self._record(*inputs)
        for place, value in zip(self.inputs, inputs, strict=True):
            place.copy_(value)
        self.graph.replay()
        return self.result

    def _record(self, *inputs: Tensor) -> None:
        self.inputs = tuple(value.clone() for value in inputs)
        self.graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            self.graph.register_generator_state(generator)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)  # gradients get their lasting place inside the graph
        with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream()):
            self.result = self.function(*self.inputs)


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """A separate CUDA stream, which recording needs, with cuDNN's benchmark mode on; on a CPU memory that is kept.

    The streams wait for each other at both ends.
    """
    if device.type != "cuda":
        with kept_memory(device):
            yield
        return
    torch.cuda.synchronize(device)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream), torch.backends.cudnn.flags(enabled=True, benchmark=True):
        yield
    torch.cuda.synchronize(device)


def is_recordable(network: nn.Module) -> bool:
    """Whether all parts of a network are torch's or ours; none of those waits for the device."""
    return all(type(part).__module__.startswith(("torch.nn.", "pucl.")) for part in network.modules())
