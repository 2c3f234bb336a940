"""One step of training: a batch → two views → projections → loss → gradients → weights."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from pucl.distributed import rank_and_world
from pucl.encoders.inputs import to_float
from pucl.losses import Objective
from pucl.training.averaging import WeightAverage
from pucl.views import View
from pucl.views.row_generator import RowGenerator


@dataclass(frozen=True)
class Result:
    """The loss of a step and the projections it was computed from."""

    loss: Tensor
    z1: Tensor
    z2: Tensor


@dataclass
class Update:
    """The step itself.

    Attributes:
        network: views → projections; over several processes the wrapper that adds up their gradients. Of several
            chunks an `InChunks`.
        view: makes the views of a batch.
        objective: (z1, z2, labelled) → scalar.
        optimiser: of the network's parameters.
        generator: of the views, seeded anew before every step.
        autocast: the type of the network's arithmetic, None for float32.
        clip: largest norm of the gradient.
        average: follows the network's weights.
        own: which rows of every chunk are this process's own, when the view needs to see the whole batch.
        chunks: how many chunks a batch has.
    """

    network: nn.Module
    view: View
    objective: Objective
    optimiser: Optimizer
    generator: Generator
    autocast: torch.dtype | None = None
    clip: float | None = None
    average: WeightAverage[nn.Module] | None = None
    own: slice | None = None
    chunks: int = 1

    def __call__(self, batch: Tensor, labelled: Tensor) -> Result:
        """Take the step; both views of a sample are neighbours, so that a part of the batch is a part of the views."""
        loss, z1, z2 = self.gradient(batch, labelled)
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.update()
        return Result(loss.detach(), z1.detach(), z2.detach())

    def gradient(self, batch: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a batch and the projections of both views; the parameters get their gradients."""
        inputs = (self._views(batch),) if self.chunks == 1 else self._in_chunks(batch)
        with torch.autocast(batch.device.type, self.autocast) if self.autocast is not None else nullcontext():
            z = self.network(*inputs)
        z1, z2 = z[0::2], z[1::2]
        loss = self.objective(z1, z2, labelled)
        self.optimiser.zero_grad(set_to_none=True)
        (loss * rank_and_world()[1]).backward()  # type: ignore[no-untyped-call]  # processes average their gradients
        return loss, z1, z2

    def _views(self, batch: Tensor) -> Tensor:
        """Both views of the own rows of a batch, or of a chunk of it."""
        views = self.view(to_float(batch).repeat_interleave(2, dim=0), self.generator)
        if self.own is not None:
            of_chunks = views.view(self.chunks, -1, *views.shape[1:])
            views = of_chunks[:, 2 * self.own.start : 2 * self.own.stop].flatten(0, 1)
        if views.is_cuda and views.ndim == 4:
            views = views.contiguous(memory_format=torch.channels_last)
        return views

    def _in_chunks(self, batch: Tensor) -> tuple[Tensor, Callable[[int, Tensor], Tensor]]:
        """What `InChunks` takes; views that treat every row alone are made chunk by chunk, each time it is encoded."""
        generator = self.generator
        if not isinstance(generator, RowGenerator):
            return self._views(batch), lambda _, views: views
        start, (rank, world) = generator.get_state(), rank_and_world()

        def views(c: int, rows: Tensor) -> Tensor:
            generator.set_state(start)
            generator.part = c * world + rank
            with torch.autocast(rows.device.type, enabled=False):
                return self._views(rows)

        return batch, views
