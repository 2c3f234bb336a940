"""vPU (Chen et al. 2020): a variational loss that needs no prior, kept smooth by mixing P into U."""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.baselines.shared.best_epoch import train_best
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.regularisers import beta, mix, permutations
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import StreamSettings, with_networks
from pucl.errors import check_positive, check_share
from pucl.registry import register


@dataclass(frozen=True, kw_only=True)
class VPUSettings(StreamSettings):
    """Those of vPU; at each of the milestones the optimiser starts anew.

    Attributes:
        weight: λ, that of the mixed rows.
        alpha: of the Beta distribution of the mixing.
        held_out: share of P and of U that is not trained on but says which epoch is the best.
    """

    epochs: int = 25
    labelled_batch: int | None = 128
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.99)
    weight: float = 3.0
    alpha: float = 0.3
    held_out: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(type(self).__name__, "alpha", self.alpha)
        check_share(type(self).__name__, "held_out", self.held_out)


DEFAULT = VPUSettings()
_CIFAR = VPUSettings(
    epochs=50,
    steps=30,
    batch_size=500,
    labelled_batch=500,
    learning_rate=3e-5,
    decay="steps",
    milestones=(19, 39),
    factor=0.5,
    weight=0.03,
)
_FMNIST = replace(_CIFAR, learning_rate=3e-4, weight=0.3)
_STL = replace(_CIFAR, learning_rate=1e-4, weight=0.3)
_ALZHEIMER = replace(_CIFAR, batch_size=64, labelled_batch=64)
PRESETS = with_networks(_CIFAR, mnist=_FMNIST, fmnist=_FMNIST, stl=_STL, alzheimer=_ALZHEIMER)


def variational_loss(log_phi_p: Tensor, log_phi_u: Tensor, labelled_share: float = 0.0) -> Tensor:
    """An upper bound, up to a constant, of how far φ is from the density ratio of the positives.

        L = log mean_X φ − mean_P log φ,    mean_X = c mean_P + (1 − c) mean_U

    where φ within (0, 1] is what the network says, up to a factor, of P(y = 1 | x), and c is `labelled_share`: 0 where
    P was drawn apart from U, which then is the population X, and n_P / (n_P + n_U) where P was labelled out of it.
    """
    log_mean = _log_mean(log_phi_u)
    if labelled_share:
        of_p = _log_mean(log_phi_p) + math.log(labelled_share)
        log_mean = torch.logaddexp(of_p, log_mean + math.log1p(-labelled_share))
    return log_mean - log_phi_p.mean()


def _log_mean(log_phi: Tensor) -> Tensor:
    return torch.logsumexp(log_phi, dim=0) - math.log(len(log_phi))


def mixed_loss(log_phi_x: Tensor, log_phi_mixed: Tensor, weight: Tensor) -> Tensor:
    """How far log φ of mixed rows u x + (1 − u) p is from that of the mixed values.

        mean (log(u φ(x) + 1 − u) − log φ(u x + (1 − u) p))²

    where p is labelled, so that its φ counts as 1. The gradient goes through both terms.
    """
    target = weight * log_phi_x.exp() + (1 - weight)
    return ((target.log() - log_phi_mixed) ** 2).mean()


def held_out_loss(logits: Tensor, labelled: Tensor, labelled_share: float = 0.0) -> Tensor:
    """The variational loss of rows of P and U by their logits."""
    log_phi = F.logsigmoid(logits)
    return variational_loss(log_phi[labelled], log_phi[~labelled], labelled_share)


def half_of_largest(log_phi: Tensor) -> Tensor:
    """The logit at which φ is half of its largest value.

    θ = log(m / (2 − m)),    m = max φ
    """
    largest = log_phi.max()
    return largest - (2 - largest.exp()).log()


@register("baselines", reference="Chen et al. 2020, variational PU learning")
def vpu(problem: PUProblem, settings: VPUSettings = DEFAULT) -> nn.Module:
    """The variational loss between P and U, with rows of U drawn towards P.

        min_φ  log mean_U φ − mean_P log φ + λ mean (log(u φ(x) + 1 − u) − log φ(u x + (1 − u) p))²

    where φ = σ(f), u ~ Beta(α, α) once a batch, and every x of U has a p of P. No prior is needed. The epoch with the
    lowest first two terms on held-out rows counts; positive is where φ is above half of its largest value over all
    training rows. In the single-set setting mean_U is the mean over P ∪ U, but rows are mixed with those of U alone.

    Fidelity: author code (HC-Feynman/vpu).

    Differs:
        - Their validation rows of P are drawn separately and may overlap with training; here a tenth of P and of U is
          held out of training.
        - Their inputs of F-MNIST lie between −1 and 509 by an oversight; here they are standardised.
        - They also keep, but do not report, the epoch that is best on the test rows.
        - At epochs 19 and 39 they make a new optimiser; here its state is set to 0, which has the same effect.

    Presets: 50 epochs of 30 steps of 500 labelled and 500 unlabelled rows, Adam (0.5, 0.99), the rate halved at epochs
    19 and 39; rate and λ 3e-5 and 0.03 for CIFAR, 3e-4 and 0.3 for F-MNIST, 1e-4 and 0.3 for STL; MNIST as F-MNIST,
    SVHN and Alzheimer (batches of 64) as CIFAR.
    """
    left, held = problem.hold_out(settings.held_out)
    network = left.network()
    learner, labelled_share = Learner(network, settings), problem.labelled_share
    n_p, n = settings.labelled_batch or 1, settings.batch_size
    place = torch.arange(n, device=problem.device) % n_p

    def draws(generator: Generator, steps: int) -> tuple[Tensor, Tensor]:
        return beta(settings.alpha, steps, generator), permutations(n_p, steps, generator)

    def update(batch: PUBatch) -> Tensor:
        u, order = batch.draws
        log_phi = F.logsigmoid(network(batch.x))
        mixed = mix(batch.unlabelled, batch.positive[order[place]], u)
        log_phi_mixed = F.logsigmoid(network(mixed))
        loss = variational_loss(log_phi[:n_p], log_phi[n_p:], labelled_share)
        loss = loss + settings.weight * mixed_loss(log_phi[n_p:], log_phi_mixed, u)
        learner.descend(loss)
        return loss.detach()

    def begin(epoch: int) -> None:
        if settings.decay == "steps" and epoch in settings.milestones:
            learner.forget()

    train_best(
        left, settings, update, learner,
        watched=network, held=held, criterion=partial(held_out_loss, labelled_share=labelled_share),
        draws=draws, before_epoch=begin,
    )  # fmt: skip
    return Moved(network, half_of_largest(F.logsigmoid(left.scores(network))))
