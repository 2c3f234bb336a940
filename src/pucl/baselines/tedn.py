"""TEDⁿ (Garg et al. 2021): estimate the mixture proportion, drop that much of U as too positive, train, repeat."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings, with_networks
from pucl.encoders.inputs import to_float
from pucl.errors import check_count, check_share
from pucl.priors.bbe import bbe
from pucl.registry import register
from pucl.views.shift import shift


@dataclass(frozen=True, kw_only=True)
class TEDnSettings(Settings):
    """Those of TEDⁿ; `epochs` are those after the warm start.

    Attributes:
        warm: epochs of P against all of U at the start.
        held_out: share of P and of U that is never trained on, where π is estimated.
        shift: largest random shift of images in pixels, together with a random flip; 0 for none.
    """

    epochs: int = 27
    labelled_batch: int | None = 128
    batch_size: int = 128
    weight_decay: float = 0.03
    warm: int = 3
    held_out: float = 0.3
    shift: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        check_count(owner, "labelled_batch", self.labelled_batch)
        check_count(owner, "warm", self.warm)
        check_count(owner, "shift", self.shift, low=0)
        check_share(owner, "held_out", self.held_out)


DEFAULT = TEDnSettings()
_CIFAR = TEDnSettings(
    epochs=2000,
    steps=63,
    labelled_batch=200,
    batch_size=200,
    optimiser="sgd",
    learning_rate=0.1,
    weight_decay=5e-4,
    warm=100,
    held_out=0.2,
    shift=4,
)
_GREY = replace(_CIFAR, steps=75, shift=0)
_SMALL = replace(_CIFAR, labelled_batch=64, batch_size=64)
PRESETS = with_networks(_CIFAR, mnist=_GREY, fmnist=_GREY, alzheimer=_SMALL)


@register("baselines", reference="Garg et al. 2021")
def tedn(problem: PUProblem, settings: TEDnSettings = DEFAULT) -> nn.Module:
    """P against U without its likeliest positives, as many as BBE finds, anew before every epoch.

        π̂ = BBE(f on held-out P, f on held-out U)
        min_f  ½ mean_P CE(σ(f(x)), 1) + ½ mean_{U'} CE(σ(f(x)), 0)

    where U' is U without its ⌊π̂ n_U⌋ rows of highest f (CVIR, conditional value ignoring risk), and BBE is
    `pucl.priors.bbe`. The first epochs, the warm start, take all of U. π̂ comes from the rows: a prior is not needed,
    nor used where it is given.

    Fidelity: author code (acmi-lab/PU_learning).

    Differs:
        - They estimate π on rows of the test set (without their labels, and report the accuracy on them); here on rows
          of P and U held out from training.
        - BBE as in the paper; their code is off by one when it counts scores above a threshold.
        - The networks of the tables; they have a ResNet-18 for CIFAR and a multilayer perceptron for MNIST.
        - The defaults have Adam, a stronger weight decay and a warm start of three epochs: trained for longer
          on a hundred labelled rows, a network memorises them, and held-out ones look different.

    Presets: SGD 0.1 with momentum 0.9 and weight decay 5e-4, batches of 200 labelled and 200 unlabelled rows, 100
    epochs of warm start and 2,000 more, each of as many steps as theirs (63 on CIFAR, 75 on MNIST); images of CIFAR,
    SVHN, STL and Alzheimer are shifted by up to 4 pixels and flipped. F-MNIST as MNIST, the others as CIFAR.
    """
    seen, held = problem.hold_out(settings.held_out)
    network = problem.network()
    learner = Learner(network, settings)
    kept = torch.ones(len(seen.x), device=problem.device)

    def update(batch: PUBatch) -> Tensor:
        loss = half_each(network(moved(batch.x)), batch.n_labelled, kept[batch.rows[batch.n_labelled :]])
        learner.descend(loss)
        return loss.detach()

    def moved(x: Tensor) -> Tensor:
        if settings.shift == 0 or x.ndim != 4:
            return x
        return shift(to_float(x), seen.generator, pixels=settings.shift, flip=0.5)

    def choose(_: int) -> None:
        kept[seen.unlabelled] = ignore_top(seen.scores(network, seen.unlabelled), proportion(held, network))

    train(seen, replace(settings, epochs=settings.warm), update, learner, phase="warm")
    train(seen, settings, update, learner, phase="cvir", before_epoch=choose)
    return network


def half_each(logits: Tensor, n_labelled: int, kept: Tensor) -> Tensor:
    """The mean loss of the labelled rows, which come first, and that of the kept unlabelled ones, half each."""
    as_positive, as_negative = F.softplus(-logits[:n_labelled]), F.softplus(logits[n_labelled:])
    return (as_positive.mean() + (kept * as_negative).sum() / kept.sum().clamp(min=1)) / 2


def proportion(held: PUProblem, network: Network) -> float:
    """π̂, BBE's estimate on the scores of rows that were not trained on."""
    positive, unlabelled = (held.scores(network, rows).cpu().numpy() for rows in (held.positives, held.unlabelled))
    return bbe(positive, unlabelled).value


def ignore_top(scores: Tensor, share: float) -> Tensor:
    """1 for rows to train on as negatives and 0 for the ⌊share · n⌋ of highest score, (n,)."""
    kept = torch.ones_like(scores)
    kept[scores.argsort(descending=True, stable=True)[: int(share * len(scores))]] = 0
    return kept
