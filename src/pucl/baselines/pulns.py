"""PULNS (Luo et al. 2021): a selector picks negatives from U and is rewarded by how well the classifier then does."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.best_epoch import train_best
from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import P3MIX, Settings, StreamSettings, with_networks
from pucl.errors import check_count, check_positive, check_share
from pucl.registry import register
from pucl.risks import mean_over
from pucl.seeds import seeded

STEEP = 5.0  # slope of the smoothed decisions
MAX_ADVANTAGE = 3.0  # standard deviations
MEMORY = 0.95  # decay of the running mean and variance of rewards


@dataclass(frozen=True, kw_only=True)
class PulnsSettings(StreamSettings):
    """Those of PULNS.

    Attributes:
        warm_epochs: epochs with all of U as negatives, of the classifier and then of the selector, before they meet.
        selector_rate: the learning rate of the selector.
        width: units of each of its two hidden layers.
        held_out: share of P and of U that is not trained on; it gives the reward and says which epoch is the best.
        judged: held-out rows of P, and as many of U, that give the reward of a step.
    """

    epochs: int = 15
    learning_rate: float = 1e-4
    warm_epochs: int = 1
    selector_rate: float = 1e-3
    width: int = 100
    held_out: float = 0.2
    judged: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("warm_epochs", "width", "judged"):
            check_count(type(self).__name__, name, getattr(self, name))
        check_positive(type(self).__name__, "selector_rate", self.selector_rate)
        check_share(type(self).__name__, "held_out", self.held_out)


DEFAULT = PulnsSettings()
_CIFAR = PulnsSettings(
    epochs=50, steps=100, batch_size=500, labelled_batch=100, learning_rate=1e-4, warm_epochs=5, held_out=0.1
)
_CNN7 = replace(_CIFAR, epochs=200, **P3MIX)
PRESETS = with_networks(_CIFAR, cnn7=_CNN7, alzheimer=replace(_CIFAR, batch_size=64, labelled_batch=32))


class Selector(nn.Module):
    """A perceptron of three layers: from the state of a row to how likely it is picked as a negative."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(features),
            nn.Linear(features, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, states: Tensor) -> Tensor:
        """Logits (n,) of being picked."""
        out: Tensor = self.layers(states)
        return out.squeeze(1)


def performance(logits: Tensor, labelled: Tensor) -> Tensor:
    """How good a classifier is by held-out P and U (Lee & Liu 2003), with smoothed decisions.

        J = r² / q,    r = mean_P d,    q = mean_U d,    d = σ(5 f / √mean f²)

    where r is the recall and q the share of rows called positive; J is precision times recall divided by π. It does not
    depend on how large the logits are, which says how sure a classifier is, not how right.
    """
    decided = torch.sigmoid(STEEP * logits / logits.square().mean().sqrt().clamp(min=1e-8))
    return mean_over(decided, labelled) ** 2 / mean_over(decided, ~labelled).clamp(min=1e-6)


def picked_loss(logits: Tensor, labelled: Tensor, picked: Tensor) -> Tensor:
    """Cross-entropy of P as positives and of the picked rows of U as negatives, both with the same weight.

    L = (mean_P log(1 + e⁻ᶠ) + mean_N log(1 + eᶠ)) / 2
    """
    return (mean_over(F.softplus(-logits), labelled) + mean_over(F.softplus(logits), picked)) / 2


def reinforce_loss(logits: Tensor, picked: Tensor, advantage: Tensor) -> Tensor:
    """−A mean log p(a): its gradient makes those picks more likely after which the reward was better than usual.

    where A is the advantage and p(a) = σ(g) for what was picked and σ(−g) for what was not.
    """
    return advantage * F.binary_cross_entropy_with_logits(logits, picked.to(logits.dtype))


class RunningReward:
    """The running mean and spread of the rewards, on the device."""

    def __init__(self, first: Tensor) -> None:
        self.last, self.mean, self.variance = first, torch.zeros_like(first), torch.zeros_like(first)

    def advantage(self, value: Tensor) -> Tensor:
        """How much more than usual the value has risen since the last time, in standard deviations."""
        away = value - self.last - self.mean
        self.variance.lerp_(away**2, 1 - MEMORY)
        self.mean.lerp_(value - self.last, 1 - MEMORY)
        self.last.copy_(value)
        return (away / self.variance.sqrt().clamp(min=1e-8)).clamp(-MAX_ADVANTAGE, MAX_ADVANTAGE)


@register("baselines", reference="Luo et al. 2021")
def pulns(problem: PUProblem, settings: PulnsSettings = DEFAULT) -> nn.Module:
    """A classifier of P against the rows a selector picks from U; the selector learns by REINFORCE.

        min_f  (mean_P CE(σ(f), 1) + mean_N CE(σ(f), 0)) / 2,    N = {x ∈ U : a(x) = 1},    a(x) ~ σ(g(x))
        ∇_g = A ∇ mean_U log p(a(x)),    A: the rise of r² / q by the step, in standard deviations from the usual

    where f is the classifier and g the selector, p(a) the probability of what was drawn, r the share of held-out P and
    q that of held-out U which f calls positive, both smoothed, see `performance`. Both networks take a step on every
    batch. No prior is needed; the epoch with the highest r² / q on held-out rows counts.

    Fidelity: paper only; no code was published, and we know the paper only from descriptions by others: a selector, a
    perceptron of three layers, picks negatives from U; the performance of the classifier rewards it; REINFORCE.

    Differs:
        - Everything else is our choice. The state of a row is its embedding after a warm start with all of U as
          negatives, and stays fixed; the selector first learns to pick U and not P. The reward is Lee and Liu's r² / q
          after every step, because F1 would need negatives; its baseline is a running mean. P and N have equal
          weight. All numbers in the settings are ours.
        - The paper's α = 1 and β between 0.4 and 1, which others quote without saying what they weigh, are left out.

    Presets: none is published; for all data Adam 1e-4, 5 epochs before and 50 with the selector, of 100 steps of 100
    labelled and 500 unlabelled rows (Alzheimer 32 and 64), a tenth held out. For the 7-layer CNN optimiser and batches
    are those of P3Mix's authors: Adam 5e-5 (0.5, 0.99), halved at epochs 20, 40, …, 100, 200 epochs of 20 steps of 512
    and 512 rows.
    """
    left, held = problem.hold_out(settings.held_out)
    network = left.network()
    learner = Learner(network, settings)
    _warm(left, settings, network, learner)
    states = torch.cat(list(left.each(network, network.features, None))).float()
    selector = _selector(left, states.shape[1], settings.width)
    chooser = Learner(selector, _of_selector(settings))
    _imitate(left, settings, selector, states, chooser)
    judged = _judged(held, settings.judged)
    usual = RunningReward(_judge(network, judged))

    def update(batch: PUBatch) -> Tensor:
        logits, choice = network(batch.x), selector(states[batch.rows])
        drawn = torch.rand(choice.shape, generator=left.generator, device=left.device)
        picked = (drawn < torch.sigmoid(choice)) & ~batch.labelled
        loss = picked_loss(logits, batch.labelled, picked)
        learner.descend(loss)
        advantage = usual.advantage(_judge(network, judged))
        of_u = slice(batch.n_labelled, None)
        chooser.descend(reinforce_loss(choice[of_u], picked[of_u], advantage))
        return loss.detach()

    train_best(
        left,
        settings,
        update,
        learner,
        chooser,
        watched=network,
        held=held,
        criterion=lambda logits, labelled: -performance(logits, labelled),
        phase="select",
    )
    return network


def _of_selector(settings: PulnsSettings) -> Settings:
    """How the selector is trained."""
    return replace(settings, learning_rate=settings.selector_rate, betas=(0.9, 0.999), weight_decay=0.0)


def _selector(problem: PUProblem, features: int, width: int) -> Selector:
    with seeded(problem.drawing("selector").initial_seed()):
        return Selector(features, width).to(problem.device)


def _warm(problem: PUProblem, settings: PulnsSettings, network: Network, learner: Learner) -> None:
    """The classifier with all of U as negatives."""

    def update(batch: PUBatch) -> Tensor:
        loss = picked_loss(network(batch.x), batch.labelled, ~batch.labelled)
        learner.descend(loss)
        return loss.detach()

    train(problem, replace(settings, epochs=settings.warm_epochs), update, learner, phase="warm")


def _imitate(problem: PUProblem, settings: PulnsSettings, selector: Selector, states: Tensor, chooser: Learner) -> None:
    """The selector, to pick U and not P."""

    def update(batch: PUBatch) -> Tensor:
        loss = picked_loss(selector(states[batch.rows]), ~batch.labelled, batch.labelled)
        chooser.descend(loss)
        return loss.detach()

    train(problem, replace(settings, epochs=settings.warm_epochs), update, chooser, phase="imitate")


def _judged(held: PUProblem, max_rows: int) -> tuple[Tensor, Tensor]:
    """At most `max_rows` rows of P and of U each, and who is labelled."""
    parts = []
    for number, rows in enumerate((held.positives, held.unlabelled)):
        order = torch.randperm(len(rows), generator=held.drawing("judged", number))[:max_rows]
        parts.append(rows[order.to(rows.device)])
    rows = torch.cat(parts)
    return held.x[rows], held.labelled[rows]


@torch.no_grad()
def _judge(network: Network, judged: tuple[Tensor, Tensor]) -> Tensor:
    """The performance on these rows, with the network as it is now."""
    network.eval()
    value = performance(network(judged[0]), judged[1])
    network.train()
    return value
