"""aPU (Hammoudeh & Lowd 2020): PURR, a risk that corrects every part which must not be below 0."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pucl.baselines.shared.best_epoch import train_best
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import with_networks
from pucl.baselines.upu import RiskSettings
from pucl.errors import check_positive, check_share
from pucl.registry import register
from pucl.risks import mean_over
from pucl.risks.margins import MarginLoss, margin_loss


@dataclass(frozen=True, kw_only=True)
class APUSettings(RiskSettings):
    """Those of aPU.

    Attributes:
        gamma: the size of the steps back.
        held_out: share of P and of U that is not trained on but says which epoch is the best.
    """

    gamma: float = 1.0
    held_out: float = 1 / 6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(type(self).__name__, "gamma", self.gamma)
        check_share(type(self).__name__, "held_out", self.held_out)


DEFAULT = APUSettings()
_CIFAR = APUSettings(epochs=200, steps=4, batch_size=10_000, learning_rate=1e-3, amsgrad=True)
_MNIST = replace(_CIFAR, steps=10, batch_size=5_000)
_SMALL = replace(_CIFAR, steps=None, batch_size=500)
PRESETS = with_networks(_CIFAR, mnist=_MNIST, fmnist=_MNIST, stl=_SMALL, alzheimer=_SMALL)


def purr(logits: Tensor, labelled: Tensor, *, prior: float, loss: MarginLoss = "sigmoid", gamma: float = 1.0) -> Tensor:
    """PURR with one unlabelled set, which stands for that of training and for that of testing.

        R = [R_U⁺ − [N⁺]₊]₊ + [N⁻]₊,    N± = R_U± − π R_P±

        ∇ = −γ ∇T  for the first T of N⁻, N⁺ and R_U⁺ − [N⁺]₊ that is below 0,    ∇ = ∇R  if none is

    where R_P± and R_U± are the mean losses of the labelled and of the unlabelled rows taken for positive (+) or for
    negative (−), N± estimates that of the negatives in U, and [·]₊ = max(0, ·).
    """
    function = margin_loss(loss)
    plus, minus = function(logits), function(-logits)
    n_plus = mean_over(plus, ~labelled) - prior * mean_over(plus, labelled)
    n_minus = mean_over(minus, ~labelled) - prior * mean_over(minus, labelled)
    p_plus = mean_over(plus, ~labelled) - n_plus.clamp(min=0)
    value = p_plus.clamp(min=0) + n_minus.clamp(min=0)
    descended = value
    for term in (p_plus, n_plus, n_minus):  # the last one takes precedence
        descended = torch.where(term < 0, -gamma * term, descended)
    return value.detach() + (descended - descended.detach())  # the bracket is 0 and brings the gradient along


@register("baselines", reference="Hammoudeh & Lowd 2020", needs_prior=True)
def apu(problem: PUProblem, settings: APUSettings = DEFAULT) -> nn.Module:
    """PURR, one of the risks for positives that shift between training and test, here without a shift.

        min_f  [R_U⁺ − [R_U⁺ − π R_P⁺]₊]₊ + [R_U⁻ − π R_P⁻]₊

    where the R are mean losses of a batch taken for positive (+) or negative (−), see `purr` for the steps back. The
    epoch with the lowest value of the same risk on held-out rows counts.

    Which reduction: the method needs a second unlabelled set, drawn like the test rows. There is none here, so the
    unlabelled rows stand for both, the priors of training and test are the same and their ratio (1 − π_te) / (1 − π_tr)
    is 1. The first part is then min(R_U⁺, π R_P⁺): the risk is that of nnPU with one more step back, where
    R_U⁺ < π R_P⁺. The two-step risks of the same paper (wUU, aPNU) are not run.

    Fidelity: author code (ZaydH/arbitrary_pu).

    Differs:
        - One unlabelled set, as above.
        - Theirs are two or three linear layers, for CIFAR on features of an ImageNet network; here the networks of the
          tables are trained on the images.
        - Their AdamW also shrinks the weights by 1e-6 a step, which is left out here.

    Presets: Adam with AMSGrad 1e-3, 200 epochs of batches of 10,000 (CIFAR) or 5,000 (MNIST and F-MNIST), a sixth held
    out; SVHN as CIFAR, STL and Alzheimer with batches of 500.
    """
    left, held = problem.hold_out(settings.held_out)
    network = left.network()
    learner = Learner(network, settings)

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        return purr(logits, labelled, prior=problem.share, loss=settings.loss, gamma=settings.gamma)

    def update(batch: PUBatch) -> Tensor:
        loss = risk(network(batch.x), batch.labelled)
        learner.descend(loss)
        return loss.detach()

    train_best(left, settings, update, learner, watched=network, held=held, criterion=risk)
    return network
