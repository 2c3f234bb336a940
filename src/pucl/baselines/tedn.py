"""TEDⁿ (Garg et al. 2021): estimate the mixture proportion, drop that much of U as too positive, train, repeat."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.loop import Batch, Learner, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.settings import Settings
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
    weight_decay: float = 0.01
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
    encoder="cnn13",
    epochs=2000,
    steps=63,
    labelled_batch=200,
    batch_size=200,
    optimiser="sgd",
    learning_rate=0.1,
    weight_decay=5e-4,
    warm=100,
    shift=4,
)
_GREY = replace(_CIFAR, encoder="lenet5", steps=75, shift=0)
PRESETS = {
    "mnist": replace(_GREY, encoder="mlp"),
    "fmnist": _GREY,
    "cifar": _CIFAR,
    "cifar1": replace(_CIFAR, encoder="cnn7"),
    "cifar2": replace(_CIFAR, encoder="cnn7"),
    "svhn": _CIFAR,
    "stl": replace(_CIFAR, encoder="cnn7"),
    "alzheimer": replace(_CIFAR, encoder="resnet50"),
}


@register("baselines", reference="Garg et al. 2021")
def tedn(problem: Problem, settings: TEDnSettings = DEFAULT) -> nn.Module:
    """TODO."""
    seen, held = problem.hold_out(settings.held_out)
    network = problem.network()
    learner = Learner(network, settings)
    kept = torch.ones(len(seen.x), device=problem.device)

    def update(batch: Batch) -> Tensor:
        x = shift(to_float(batch.x), seen.generator, pixels=settings.shift, flip=0.5) if settings.shift else batch.x
        loss = half_each(network(x), batch.n_labelled, kept[batch.rows[batch.n_labelled :]])
        learner.descend(loss)
        return loss.detach()

    def choose(_: int) -> None:
        share = proportion(held, network)
        kept[seen.unlabelled] = ignore_top(seen.scores(network, seen.unlabelled), share)

    train(seen, replace(settings, epochs=settings.warm), update, learner, phase="warm")
    train(seen, settings, update, learner, phase="cvir", before_epoch=choose)
    return network


def half_each(logits: Tensor, n_labelled: int, kept: Tensor) -> Tensor:
    """The mean loss of the labelled rows, which come first, and that of the kept unlabelled ones, half each."""
    as_positive, as_negative = F.softplus(-logits[:n_labelled]), F.softplus(logits[n_labelled:])
    return (as_positive.mean() + (kept * as_negative).sum() / kept.sum().clamp(min=1)) / 2


def proportion(held: Problem, network: Network) -> float:
    """π̂, BBE's estimate on the scores of rows that were not trained on."""
    positive, unlabelled = (held.scores(network, rows).cpu().numpy() for rows in (held.positives, held.unlabelled))
    return bbe(positive, unlabelled).value


def ignore_top(scores: Tensor, share: float) -> Tensor:
    """1 for rows to train on as negatives and 0 for the ⌊share · n⌋ of highest score, (n,)."""
    kept = torch.ones_like(scores)
    kept[scores.argsort(descending=True, stable=True)[: int(share * len(scores))]] = 0
    return kept
