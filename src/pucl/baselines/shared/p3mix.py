"""P3Mix (Li et al. 2022): mixing where doubtful unlabelled rows get hard positives as partners, for -C and -E alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Generator, Tensor

from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.regularisers import beta, mix, permutations
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import P3MIX, StreamSettings, with_networks
from pucl.errors import bad_argument, check_count, check_positive, is_number

LEAST = 1e-4  # probabilities stay this far from 0 and 1 under a logarithm


@dataclass(frozen=True, kw_only=True)
class P3MixSettings(StreamSettings):
    """Those of P3Mix.

    Attributes:
        start: the epoch, counted from 0, from which doubtful rows get hard positives.
        hard: how many labelled rows of the highest entropy those are drawn from.
        upper: an unlabelled row is doubtful while its probability is between 1 − upper and upper.
        alpha: of λ ~ Beta(α, α).
        mix_after: how many layers with weights come before the mixing; 0 mixes the inputs.
        entropy: the weight of the entropy of what is predicted for mixed rows.
    """

    epochs: int = 20
    labelled_batch: int | None = 128
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.99)
    start: int = 5
    hard: int = 100
    upper: float = 0.8
    alpha: float = 1.0
    mix_after: int = 1
    entropy: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        check_count(owner, "hard", self.hard)
        for name in ("start", "mix_after"):
            check_count(owner, name, getattr(self, name), low=0)
        check_positive(owner, "alpha", self.alpha)
        if not is_number(self.upper) or not 0.5 <= self.upper <= 1:
            raise bad_argument(owner, "upper", "a number from 0.5 to 1", self.upper)


S = TypeVar("S", bound=P3MixSettings)


def presets(like: S) -> Mapping[str, S]:
    """The author's settings for CIFAR, with what is the method's own taken from `like`, and networks and depths."""
    cifar = replace(like, epochs=200, weight_decay=1e-6, start=10, mix_after=4, **P3MIX)
    return with_networks(
        cifar,
        fmnist=replace(cifar, mix_after=3),
        mnist=replace(cifar, mix_after=0),
        alzheimer=replace(cifar, mix_after=0, batch_size=64, labelled_batch=64),
    )


@dataclass(frozen=True)
class Mixed:
    """What came of a batch.

    Attributes:
        probability: p̃ of the mixed rows, (m,), within [1e-4, 1 − 1e-4].
        target: their labels, mixed likewise, (m,).
        n_labelled: how many rows at the beginning are mixed from a labelled one.
        other: λ t + (1 − λ) t' for any t of the rows of the batch, where t' of a hard positive is 1.
    """

    probability: Tensor
    target: Tensor
    n_labelled: int
    other: Callable[[Tensor], Tensor]


Regulariser = Callable[[PUBatch, Mixed], Tensor]


def fit(
    problem: PUProblem,
    settings: P3MixSettings,
    regularise: Regulariser | None = None,
    *,
    relabel: bool = False,
    before_epoch: Callable[[int], None] = lambda _: None,
    network: Network | None = None,
) -> Network:
    """Train a network on mixed rows.

    Args:
        problem: the rows.
        settings: how to train.
        regularise: what is added to the loss of a batch.
        relabel: whether unlabelled rows with a probability of at least `upper` are taken for positive.
        before_epoch: called with the number of the epoch.
        network: what to train, a fresh one when not given.
    """
    steps = _P3MixSteps(problem, settings, network or problem.network(), regularise, relabel=relabel)

    def prepare(epoch: int) -> None:
        steps.begin(epoch)
        before_epoch(epoch)

    train(problem, settings, steps.update, steps.learner, draws=steps.draws, before_epoch=prepare)
    return steps.network


class _P3MixSteps:
    """The steps of P3Mix: the partners of a batch, its mixed rows and their loss; the arguments are those of `fit`."""

    def __init__(
        self,
        problem: PUProblem,
        settings: P3MixSettings,
        network: Network,
        regularise: Regulariser | None,
        *,
        relabel: bool,
    ) -> None:
        self.problem, self.settings, self.network = problem, settings, network
        self.regularise, self.relabel = regularise, relabel
        self.learner, self.depth = Learner(network, settings), network.depth_after(settings.mix_after)
        self.hard = problem.positives[: settings.hard].clone()
        self.begun = torch.zeros((), dtype=torch.bool, device=problem.device)

    def begin(self, epoch: int) -> None:
        """Before an epoch: whether doubtful rows get hard positives, and which those are."""
        self.begun.fill_(epoch >= self.settings.start)
        if epoch >= self.settings.start:
            positives = self.problem.positives
            self.hard.copy_(hardest(self.problem.scores(self.network, positives), positives, len(self.hard)))

    def draws(self, generator: Generator, steps: int) -> tuple[Tensor, ...]:
        """λ, the partner of every row, and a hard positive for every unlabelled one."""
        size = self.settings.batch_size + (self.settings.labelled_batch or 0)
        weight = beta(self.settings.alpha, steps, generator)
        partner = permutations(size, steps, generator)
        if self.begun:
            partner = torch.randint(size, (steps, size), generator=generator)
        chosen = torch.randint(len(self.hard), (steps, self.settings.batch_size), generator=generator)
        return torch.maximum(weight, 1 - weight), partner, chosen

    def update(self, batch: PUBatch) -> Tensor:
        """One step on the mixed rows of a batch."""
        made = self._mixed(batch)
        loss = loss_of(made, self.settings.entropy)
        if self.regularise is not None:
            loss = loss + self.regularise(batch, made)
        self.learner.descend(loss)
        return loss.detach()

    def _mixed(self, batch: PUBatch) -> Mixed:
        weight, partner, chosen = batch.draws
        network, first_u, upper = self.network, batch.n_labelled, self.settings.upper
        with torch.no_grad():
            p = torch.sigmoid(network(batch.unlabelled))
        doubtful = self.begun & (p > 1 - upper) & (p < upper)
        label = batch.labelled.float()
        if self.relabel:
            label[first_u:] = (self.begun & (p >= upper)).float()
        other = batch.x.index_select(0, partner)
        other[first_u:] = choose(doubtful, self.problem.x.index_select(0, self.hard[chosen]), other[first_u:])

        def mixed(values: Tensor) -> Tensor:
            theirs = values[partner]
            theirs[first_u:] = torch.where(doubtful, 1.0, theirs[first_u:])
            return mix(values, theirs, weight)

        hidden = mix(network.until(batch.x, self.depth), network.until(other, self.depth), weight)
        probability = torch.sigmoid(network.onward(hidden, self.depth)).clamp(LEAST, 1 - LEAST)
        return Mixed(probability, mixed(label), first_u, mixed)


def loss_of(made: Mixed, entropy: float) -> Tensor:
    """The loss both variants share.

        mean_P CE(p̃, t̃) + mean_U CE(p̃, t̃) + w_e mean H(p̃)

    where P and U are the mixed rows whose first parent is labelled or not.
    """
    p, t = made.probability, made.target
    cross, doubt = (-(q * p.log() + (1 - q) * (1 - p).log()) for q in (t, p))
    return cross[: made.n_labelled].mean() + cross[made.n_labelled :].mean() + entropy * doubt.mean()


def hardest(logits: Tensor, rows: Tensor, count: int) -> Tensor:
    """The `count` rows whose predictions have the highest entropy: whose logits are nearest to 0."""
    return rows[logits.abs().argsort(stable=True)[:count]]


def choose(mask: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The rows of `first` where the mask (n,) holds, else those of `second`."""
    return torch.where(mask.view(-1, *[1] * (first.ndim - 1)), first, second)
