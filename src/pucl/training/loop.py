"""The training loop. It knows rows, labels, a view, a network and an objective, and none of them by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from pucl.encoders.inputs import to_float
from pucl.losses import Objective
from pucl.training.config import TrainConfig
from pucl.training.lars import LARS
from pucl.training.schedule import learning_rate
from pucl.views import View


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch."""

    number: int
    of: int
    loss: float
    learning_rate: float


def train(
    network: nn.Module,
    x: Tensor,
    labelled: Tensor,
    *,
    view: View,
    objective: Objective,
    config: TrainConfig,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> list[Epoch]:
    """Train `network` (rows → projections) in place and return the history.

    Each step takes a batch, makes two views of it, and follows the gradient of the objective on their projections.
    Data, labels, network and randomness all live on the device of `x`.
    """
    generator = Generator(device=x.device).manual_seed(config.seed)
    steps = max(1, len(x) // config.batch_size)
    total = config.epochs * steps
    warmup = min(config.warmup_epochs * steps, total // 10)
    optimiser = LARS(
        network.parameters(), lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )
    history: list[Epoch] = []
    network.train()
    for number in range(config.epochs):
        running = torch.zeros((), device=x.device)
        for at, rows in enumerate(_batches(len(x), config.batch_size, generator), start=number * steps):
            rate = learning_rate(
                at, total=total, warmup=warmup, peak=config.learning_rate, final=config.final_learning_rate
            )
            for group in optimiser.param_groups:
                group["lr"] = rate
            batch = to_float(x[rows])
            views = view(torch.cat([batch, batch]), generator)  # both views in one call: half the launches on a GPU
            z1, z2 = network(views).chunk(2)
            loss = objective(z1, z2, labelled[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            running += loss.detach()
        history.append(Epoch(number + 1, config.epochs, float(running) / steps, rate))
        on_epoch(history[-1])
    network.eval()
    return history


def _batches(n: int, size: int, generator: Generator) -> Iterator[Tensor]:
    """Row numbers of one shuffled pass; the remainder smaller than a batch is left for another epoch."""
    order = torch.randperm(n, generator=generator, device=generator.device)
    if n <= size:
        yield order
    else:
        yield from torch.split(order[: n - n % size], size)
