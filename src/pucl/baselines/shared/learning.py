"""How the networks of baselines learn: rows lie on the device, and any step is replayed as a CUDA graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from pucl.baselines.shared.network import Network
from pucl.baselines.shared.regularisers import mix
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import LEAST_STEPS, Settings
from pucl.errors import RunError
from pucl.seeds import seed_of
from pucl.training.batches import passes
from pucl.training.capture import Captured, own_stream

Draws = Callable[[Generator, int], Sequence[Tensor]]
Risk = Callable[[Tensor, Tensor], Tensor]  # logits, labelled → a scalar


@dataclass(frozen=True)
class PUBatch:
    """The rows of a step; with batches in two streams the first `n_labelled` are the labelled ones.

    Attributes:
        x: raw rows (m, …).
        labelled: which are labelled, (m,) bool.
        rows: their numbers, (m,).
        n_labelled: how many labelled rows come first, 0 for shuffled batches.
        draws: what the method's `draws` gave for this step.
    """

    x: Tensor
    labelled: Tensor
    rows: Tensor
    n_labelled: int
    draws: tuple[Tensor, ...] = ()

    @property
    def positive(self) -> Tensor:
        """The labelled rows of batches in two streams."""
        return self.x[: self.n_labelled]

    @property
    def unlabelled(self) -> Tensor:
        """The unlabelled rows of batches in two streams."""
        return self.x[self.n_labelled :]


class Learner:
    """A network, or several taken together, its optimiser and its learning rate."""

    def __init__(self, network: nn.Module, settings: Settings) -> None:
        self.network, self.settings = network, settings
        parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.rate = torch.tensor(settings.learning_rate, device=parameters[0].device)
        self.optimiser = _optimiser(parameters, self.rate, settings)

    def descend(self, loss: Tensor) -> None:
        """One step down the gradient of the loss."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()

    @torch.no_grad()
    def forget(self) -> None:
        """Reset the state of the optimiser in place, so that a recorded step still finds it."""
        for state in self.optimiser.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()


def _optimiser(parameters: list[nn.Parameter], rate: Tensor, settings: Settings) -> Optimizer:
    if settings.optimiser == "sgd":
        options = {"momentum": settings.momentum, "nesterov": settings.nesterov}
        return SGD(parameters, lr=rate, weight_decay=settings.weight_decay, fused=True, **options)  # type: ignore[arg-type]
    return Adam(
        parameters,
        lr=rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        amsgrad=settings.amsgrad,
        capturable=rate.is_cuda,
        fused=True,
    )


def steps_of(problem: PUProblem, settings: Settings) -> int:
    """The steps of an epoch."""
    n = len(problem.x) if settings.labelled_batch is None else len(problem.unlabelled)
    return settings.steps or max(LEAST_STEPS, n // settings.batch_size)


def mixed_risk(network: nn.Module, risk: Risk, batch: PUBatch) -> Tensor:
    """The risk R of rows mixed with other rows of their batch.

        λ R(f(x̃), s) + (1 − λ) R(f(x̃), s'),    x̃ = λ x + (1 − λ) x'

    where λ and the places of x' are the draws of the batch.
    """
    weight, order = batch.draws
    logits = network(mix(batch.x, batch.x.index_select(0, order), weight))
    return mix(risk(logits, batch.labelled), risk(logits, batch.labelled[order]), weight)


def train(
    problem: PUProblem,
    settings: Settings,
    update: Callable[[PUBatch], Tensor],
    *learners: Learner,
    phase: str = "train",
    draws: Draws = lambda _generator, _steps: (),
    before_epoch: Callable[[int], None] = lambda _: None,
    captured: bool = True,
) -> None:
    """Take all steps.

    Args:
        problem: the rows.
        settings: how many steps, of which batches.
        update: takes one step, usually by `Learner.descend`, and returns a value that must stay finite. On a GPU it is
            recorded once and replayed: it must not ask the device for a number (no ``if`` on a tensor, no ``.item()``),
            and what changes between steps must be a tensor changed in place.
        learners: whose learning rates follow their settings and whose networks are in training mode.
        phase: a name for the seeds, for methods that train more than once.
        draws: (generator on the CPU, steps) → tensors with a first axis of `steps`; each step gets its part.
        before_epoch: called with the number of the epoch; it may wait for the device.
        captured: False for a step that cannot be recorded.
    """
    steps, n_labelled, at = steps_of(problem, settings), settings.labelled_batch or 0, 0

    def plain(rows: Tensor, *drawn: Tensor) -> Tensor:
        return update(PUBatch(problem.x.index_select(0, rows), problem.labelled[rows], rows, n_labelled, drawn))

    optimisers = [learner.optimiser for learner in learners]
    graph = captured and problem.x.is_cuda
    step = Captured(plain, generators=[problem.generator], optimisers=optimisers) if graph else plain
    with own_stream(problem.device):
        for epoch in range(settings.epochs):
            before_epoch(epoch)
            for learner in learners:
                learner.network.train()
            inputs = [part.to(problem.device) for part in _epoch(problem, settings, f"{phase}/{epoch}", steps, draws)]
            value = torch.zeros((), device=problem.device)
            for own in zip(*inputs, strict=True):
                for learner in learners:
                    learner.rate.fill_(learner.settings.rate(at, steps))
                problem.generator.manual_seed(seed_of(problem.seed, phase, at))
                value = step(*own)
                at += 1
            if not value.isfinite():
                advice = "lower the learning rate"
                raise RunError(f"{problem.owner}: the loss is not finite in epoch {epoch + 1} of {phase!r}; {advice}")
    for learner in learners:
        learner.network.eval()


def minimise(problem: PUProblem, settings: Settings, risk: Risk, *, phase: str = "train") -> Network:
    """A network trained on a risk (logits, labelled) → scalar of every batch; the last epoch's."""
    network = problem.network()
    learner = Learner(network, settings)

    def update(batch: PUBatch) -> Tensor:
        loss = risk(network(batch.x), batch.labelled)
        learner.descend(loss)
        return loss.detach()

    train(problem, settings, update, learner, phase=phase)
    return network


def _epoch(problem: PUProblem, settings: Settings, name: str, steps: int, draws: Draws) -> list[Tensor]:
    """The rows of every step, (steps, m), and what the method draws; on the CPU, the same for every device."""
    generator = problem.drawing(f"batches/{name}")
    n_labelled, n = settings.labelled_batch, settings.batch_size
    if n_labelled is None:
        order = passes(torch.arange(len(problem.x)), steps * n, generator).view(steps, n)
    else:
        parts = ((problem.positives, n_labelled), (problem.unlabelled, n))
        order = torch.cat([passes(rows.cpu(), steps * k, generator).view(steps, k) for rows, k in parts], dim=1)
    return [order, *draws(generator, steps)]
