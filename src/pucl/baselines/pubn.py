"""PUbN without biased negatives (Hsieh et al. 2019): probabilities first, then a risk weighted with them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pucl.baselines.shared.best_epoch import Criterion, train_best
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import with_networks
from pucl.baselines.upu import RiskSettings
from pucl.errors import check_share
from pucl.registry import register
from pucl.risks import mean_over
from pucl.risks.margins import MarginLoss, margin_loss
from pucl.risks.nnpu import nnpu as non_negative
from pucl.risks.upu import upu as unbiased


@dataclass(frozen=True, kw_only=True)
class PUbNSettings(RiskSettings):
    """Those of PUbN; both steps are trained with them.

    Attributes:
        trusted: τ, the share of the expected negatives that are taken for sure ones.
        held_out: share of P and of U that is not trained on but says which epoch is the best.
    """

    loss: MarginLoss = "logistic"
    epochs: int = 20
    trusted: float = 0.9
    held_out: float = 1 / 6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(type(self).__name__, "trusted", self.trusted, closed=True)
        check_share(type(self).__name__, "held_out", self.held_out)


DEFAULT = PUbNSettings()
_CIFAR = PUbNSettings(
    epochs=200,
    steps=100,
    batch_size=100,
    labelled_batch=10,
    learning_rate=1e-3,
    weight_decay=1e-4,
    amsgrad=True,
    decay="steps",
    milestones=(80, 120),
    factor=0.1,
)
_MNIST = replace(_CIFAR, epochs=100, steps=50, batch_size=120, decay="constant", milestones=())
PRESETS = with_networks(_CIFAR, mnist=_MNIST, fmnist=_MNIST)


def squared_error(logits: Tensor, labelled: Tensor, *, prior: float) -> Tensor:
    """The mean squared error of s(x) = σ(f(x)) as P(y = 1 | x), up to a constant.

    J = mean_U s² − 2 π mean_P s
    """
    s = torch.sigmoid(logits)
    return mean_over(s**2, ~labelled) - 2 * prior * mean_over(s, labelled)


def border(s: Tensor, *, prior: float, trusted: float) -> Tensor:
    """η: the quantile of the probabilities of U at (1 − π) τ, in whole percent."""
    percent = int(100 * (1 - prior) * trusted + 1e-9)
    return torch.quantile(s, percent / 100)


def weighted_risk(
    logits: Tensor, labelled: Tensor, s: Tensor, *, border: Tensor, prior: float, loss: MarginLoss = "logistic"
) -> Tensor:
    """The risk in which U stands for negatives where s is low, and P, weighted, for those where s is high.

        R = π mean_P[ℓ(f) + ℓ(−f) (1 − s) / s · 1(s > η)] + mean_U[ℓ(−f) (1 − s) · 1(s ≤ η)]

    where ℓ is a margin loss, s the estimated P(y = 1 | x) and η the border.
    """
    function = margin_loss(loss)
    high = s > border
    odds = torch.where(high, (1 - s) / s, torch.zeros_like(s))
    of_p = mean_over(function(logits) + function(-logits) * odds, labelled)
    of_u = mean_over(function(-logits) * (1 - s) * ~high, ~labelled)
    return prior * of_p + of_u


@register("baselines", reference="Hsieh et al. 2019, PUbN\\N", needs_prior=True)
def pubn(problem: PUProblem, settings: PUbNSettings = DEFAULT) -> nn.Module:
    r"""Probabilities s(x) by the non-negative risk, then a second network on a risk weighted with them.

        min_f  π mean_P[ℓ(f) + ℓ(−f) (1 − s) / s · 1(s > η)] + mean_U[ℓ(−f) (1 − s) · 1(s ≤ η)]

    where ℓ is the logistic loss, s(x) = σ(h(x)) and h minimises the nnPU risk with the same loss; η is the quantile of
    s over U at (1 − π) τ. The epoch of h with the lowest mean_U s² − 2 π mean_P s on held-out rows counts, and that of
    f with the lowest unbiased risk of the sigmoid loss.

    This is PUbN\N, the method with ρ = 0: there are no biased negatives in the setting of the tables.

    Fidelity: author code (cyber-meow/PUbiasedN).

    Differs:
        - The network of the table; theirs for CIFAR is a PreAct-ResNet-18, for MNIST a small CNN with dropout.
        - They draw validation rows in addition to 1,000 (CIFAR) or 500 (MNIST) labelled ones; here a sixth of the
          given rows is held out, which is the same share.
        - A version of their code adds virtual adversarial training to the second step for CIFAR, which the paper does
          not have; it is left out here.
        - An epoch has as many steps as one of theirs, which is a pass over P.

    Presets: CIFAR Adam with AMSGrad 1e-3 (a tenth from epoch 80 and again from 120), weight decay 1e-4, 200 epochs of
    100 steps of 10 labelled and 100 unlabelled rows, for both steps; MNIST and F-MNIST 100 epochs of 50 steps of 10 and
    120 at a constant rate; τ = 0.9, theirs for ρ = 0; all others as CIFAR.
    """
    left, held = problem.hold_out(settings.held_out)
    prior = problem.share

    def first(logits: Tensor, batch: PUBatch) -> Tensor:
        return non_negative(logits, batch.labelled, prior=prior, loss=settings.loss)

    estimate = _fit(left, held, settings, 0, first, lambda f, labelled: squared_error(f, labelled, prior=prior))
    s = torch.sigmoid(left.scores(estimate))
    eta = border(s[left.unlabelled], prior=prior, trusted=settings.trusted)

    def second(logits: Tensor, batch: PUBatch) -> Tensor:
        return weighted_risk(logits, batch.labelled, s[batch.rows], border=eta, prior=prior, loss=settings.loss)

    return _fit(left, held, settings, 1, second, lambda f, labelled: unbiased(f, labelled, prior=prior))


def _fit(
    left: PUProblem,
    held: PUProblem,
    settings: PUbNSettings,
    number: int,
    risk: Callable[[Tensor, PUBatch], Tensor],
    criterion: Criterion,
) -> Network:
    """The `number`-th network, trained on a risk; its epoch with the lowest criterion."""
    network = left.network(number)
    learner = Learner(network, settings)

    def update(batch: PUBatch) -> Tensor:
        loss = risk(network(batch.x), batch)
        learner.descend(loss)
        return loss.detach()

    train_best(
        left, settings, update, learner, watched=network, held=held, criterion=criterion, phase=f"step {number + 1}"
    )
    return network
