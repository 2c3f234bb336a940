"""One step of training: a batch → two views → projections → loss → gradients → weights."""

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
        network: rows → projections; over several processes the wrapper that adds up their gradients.
        view: makes the views of a batch.
        objective: (z1, z2, labelled) → scalar.
        optimiser: of the network's parameters.
        generator: of the views, seeded anew before every step.
        autocast: the type of the network's arithmetic, None for float32.
        clip: largest norm of the gradient.
        average: follows the network's weights.
        own: which of `batch`'s rows are this process's own, when the view needs to see them all.
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
        views = self.view(to_float(batch).repeat_interleave(2, dim=0), self.generator)
        if self.own is not None:
            views = views[2 * self.own.start : 2 * self.own.stop]
        if views.is_cuda and views.ndim == 4:
            views = views.contiguous(memory_format=torch.channels_last)
        kind = views.device.type
        with torch.autocast(kind, self.autocast) if self.autocast is not None else nullcontext():
            z = self.network(views)
        z1, z2 = z[0::2], z[1::2]
        loss = self.objective(z1, z2, labelled)
        self.optimiser.zero_grad(set_to_none=True)
        (loss * rank_and_world()[1]).backward()  # type: ignore[no-untyped-call]  # processes average their gradients
        return loss, z1, z2
