"""Dist-PU (Zhao et al. 2022): scores whose mean over U is the prior, then mixing towards sure scores."""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.regularisers import beta, entropy, mix, permutations
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Decay, Settings, with_networks
from pucl.errors import check_count, check_positive
from pucl.registry import register
from pucl.risks import mean_over

LIMIT = 10.0  # of the logits


@dataclass(frozen=True, kw_only=True)
class DistPUSettings(Settings):
    """Those of Dist-PU; network, batches, epochs and optimiser are those of the first stage.

    Attributes:
        entropy: μ, weight of the entropy of U in the first stage.
        mix_epochs: epochs of the second stage.
        mix_learning_rate: at the start of the second stage.
        mix_weight_decay: in the second stage.
        mix_final: what the cosine of the second stage ends at, times its learning rate.
        late_entropy: weight of the entropy of U that the second stage ends with.
        mixed_entropy: weight of the entropy of mixed rows.
        mixup: weight of the cross-entropy of mixed rows.
        alpha: of the Beta distribution of the mixing.
    """

    epochs: int = 20
    decay: Decay = "cosine"
    entropy: float = 0.02
    mix_epochs: int = 10
    mix_learning_rate: float = 2e-5
    mix_weight_decay: float = 1e-3
    mix_final: float = 0.7
    late_entropy: float = 0.004
    mixed_entropy: float = 0.04
    mixup: float = 5.0
    alpha: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(type(self).__name__, "mix_epochs", self.mix_epochs)
        check_positive(type(self).__name__, "mix_learning_rate", self.mix_learning_rate)
        check_positive(type(self).__name__, "alpha", self.alpha)

    @property
    def second(self) -> Settings:
        """How the second stage is trained."""
        return replace(
            self,
            epochs=self.mix_epochs,
            learning_rate=self.mix_learning_rate,
            weight_decay=self.mix_weight_decay,
            decay="cosine",
            final=self.mix_final,
        )


DEFAULT = DistPUSettings()
_CIFAR = DistPUSettings(
    epochs=60, learning_rate=5e-4, weight_decay=5e-3, entropy=0.002, mix_epochs=60, mix_learning_rate=5e-5
)
PRESETS = with_networks(_CIFAR)


def distribution_risk(logits: Tensor, labelled: Tensor, *, prior: float, labelled_share: float = 0.0) -> Tensor:
    """How far the mean scores of P and of the population are from what they must be.

        R = (1 − mean_P σ(f)) + |mean_X σ(f) − π_X| / (2 π_X)

        mean_X = c mean_P + (1 − c) mean_U,    π_X = c + (1 − c) π

    where f are logits and c is `labelled_share`: 0 where P was drawn apart from U, which then is the population, and
    n_P / (n_P + n_U) where P was labelled out of it. It is that of the paper divided by 2 π_X. A part without rows is
    0, and without P the population is U.
    """
    scores = torch.sigmoid(logits)
    c = labelled_share * labelled.any().to(scores.dtype) if labelled_share else 0.0
    share = c + (1 - c) * prior
    of_x = (c * mean_over(scores, labelled) + (1 - c) * mean_over(scores, ~labelled) - share).abs() * (~labelled).any()
    return mean_over(1 - scores, labelled) + of_x / (2 * share)


def growth(epoch: int, epochs: int) -> float:
    """From 0 towards 1 along a cosine: 1 − cos(e / E · π / 2)."""
    return 1 - math.cos(epoch / epochs * math.pi / 2)


def mixed_cross_entropy(logits: Tensor, first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """λ CE(σ(f), t) + (1 − λ) CE(σ(f), t'), mean over the rows."""
    return F.binary_cross_entropy_with_logits(logits, weight * first + (1 - weight) * second)


@register("baselines", reference="Zhao et al. 2022", needs_prior=True)
def dist_pu(problem: PUProblem, settings: DistPUSettings = DEFAULT) -> nn.Module:
    """Label distributions first, then also mixed rows with the network's own scores as labels.

        1.  min_f  D(f) + μ H_U
        2.  min_f  D(f) + μ' (1 − cos(e / E · π / 2)) H_U + ν H_mix + β CE_mix

        D(f) = (1 − mean_P σ(f)) + |mean_U σ(f) − π| / (2 π)

    where H_U and H_mix are the mean entropies of the scores of U and of mixed rows λ x + (1 − λ) x', λ ~ Beta(α, α)
    once a batch, e of E is the epoch, and CE_mix the cross-entropy of mixed rows towards λ t + (1 − λ) t'. There t is 1
    for labelled rows and for others the score the network gave them last. The second stage goes on with the network,
    but not with the optimiser, of the first. Logits are kept within ±10, in the first stage for the entropy only. In
    the single-set setting mean_U and π are those of P ∪ U.

    Fidelity: author code (Ray-rui/Dist-PU-Positive-Unlabeled-Learning-from-a-Label-Distribution-Perspective).

    Differs:
        - The learning rate follows its cosine step by step; theirs epoch by epoch.
        - Their F-MNIST is another task, with a multilayer perceptron and no scaling of the inputs; here the network of
          the table.
        - They print the best and the last accuracy on the test rows; here the last epoch counts.

    Presets: for all data Adam 5e-4, weight decay 5e-3, cosine, 60 epochs of batches of 256; then 60 epochs with 5e-5,
    1e-3 and a cosine that ends at 0.7 of the rate; μ = 0.002, μ' = 0.004, ν = 0.04, β = 5, α = 6.
    """
    network = problem.network()
    _first(problem, settings, network)
    _second(problem, settings, network)
    return network


def _first(problem: PUProblem, settings: DistPUSettings, network: Network) -> None:
    learner, labelled_share = Learner(network, settings), problem.labelled_share

    def update(batch: PUBatch) -> Tensor:
        logits = network(batch.x)
        loss = distribution_risk(logits, batch.labelled, prior=problem.share, labelled_share=labelled_share)
        loss = loss + settings.entropy * mean_over(entropy(logits.clamp(-LIMIT, LIMIT)), ~batch.labelled)
        learner.descend(loss)
        return loss.detach()

    train(problem, settings, update, learner, phase="first")


def _second(problem: PUProblem, settings: DistPUSettings, network: Network) -> None:
    second = settings.second
    learner, labelled_share = Learner(network, second), problem.labelled_share
    labels = torch.sigmoid(problem.scores(network))
    late = torch.zeros((), device=problem.device)
    size = settings.batch_size + (settings.labelled_batch or 0)

    def draws(generator: Generator, steps: int) -> tuple[Tensor, Tensor]:
        return beta(settings.alpha, steps, generator), permutations(size, steps, generator)

    def update(batch: PUBatch) -> Tensor:
        weight, order = batch.draws
        target = torch.where(batch.labelled, torch.ones_like(weight), labels[batch.rows])
        mixed = network(mix(batch.x, batch.x[order], weight)).clamp(-LIMIT, LIMIT)
        logits = network(batch.x).clamp(-LIMIT, LIMIT)
        loss = distribution_risk(logits, batch.labelled, prior=problem.share, labelled_share=labelled_share)
        loss = loss + late * mean_over(entropy(logits), ~batch.labelled)
        loss = loss + settings.mixed_entropy * entropy(mixed).mean()
        loss = loss + settings.mixup * mixed_cross_entropy(mixed, target, target[order], weight)
        learner.descend(loss)
        labels.index_copy_(0, batch.rows, torch.sigmoid(logits.detach()))
        return loss.detach()

    def begin(epoch: int) -> None:
        late.fill_(settings.late_entropy * growth(epoch, second.epochs))

    train(problem, second, update, learner, phase="second", draws=draws, before_epoch=begin)
