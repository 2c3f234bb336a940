"""PUSB (Kato et al. 2019): a PU classifier whose threshold makes as many rows positive as the prior says."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from pucl.baselines.nnpu import PRESETS as NNPU_PRESETS
from pucl.baselines.nnpu import NnPUSettings
from pucl.baselines.shared.learning import minimise
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import with_networks
from pucl.registry import register
from pucl.risks.nnpu import nnpu as non_negative

DEFAULT = NnPUSettings(loss="logistic")
_CIFAR = replace(NNPU_PRESETS["cifar"], loss="logistic", batch_size=224)
_MNIST = replace(NNPU_PRESETS["mnist"], loss="logistic")
_ALZHEIMER = replace(_CIFAR, batch_size=64)
PRESETS = with_networks(_CIFAR, mnist=_MNIST, fmnist=_MNIST, alzheimer=_ALZHEIMER)


def prior_threshold(logits: Tensor, prior: float) -> Tensor:
    """The border above which a share π of the rows lies.

        θ = f_(⌊n (1 − π)⌋)

    where f_(k) is the k-th logit in rising order, counted from 0.
    """
    k = min(math.floor(len(logits) * (1 - prior)), len(logits) - 1)
    return torch.sort(logits).values[k]


@register("baselines", reference="Kato et al. 2019", needs_prior=True)
def pusb(problem: PUProblem, settings: NnPUSettings = DEFAULT) -> nn.Module:
    """The nnPU risk with the logistic loss, then a border above which a share π of U lies (nnPUSB).

        min_f  π R_P⁺ + max(0, R_U⁻ − π R_P⁻),    then  f(x) > θ,    θ = f_(⌊n (1 − π)⌋)

    where the R are mean logistic losses of a batch, see `pucl.risks.nnpu`, and f_(k) the k-th logit of the n unlabelled
    rows in rising order. The labelling may prefer some positives as long as the order of the rows stays right.

    Fidelity: author code (MasaKat0/PUlearning, BiasedPUlearning/nnPUSB).

    Differs:
        - The quantile is that of the unlabelled training rows; theirs is that of the test rows. A score must not
          depend on which other rows are scored.
        - No bias is added to the labelling; they draw P with a network trained on all labels, test labels included.

    Presets: CIFAR Adam 1e-5 with weight decay 0.005, 100 epochs of batches of 224; MNIST and F-MNIST as nnPU; all
    others as CIFAR, Alzheimer with batches of 64.
    """

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        options = {"loss": settings.loss, "beta": settings.beta, "gamma": settings.gamma}
        return non_negative(logits, labelled, prior=problem.share, **options)  # type: ignore[arg-type]

    network = minimise(problem, settings, risk)
    return Moved(network, prior_threshold(problem.scores(network, problem.unlabelled), problem.share))
