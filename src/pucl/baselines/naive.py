"""Naive: take every unlabelled row for a negative, eq:disambiguation_free_approach."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.learning import minimise
from pucl.baselines.shared.probability import regression
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings, with_networks
from pucl.registry import register

DEFAULT = Settings()
_CIFAR = Settings(epochs=60, decay="cosine", weight_decay=1e-4)
PRESETS = with_networks(_CIFAR, alzheimer=replace(_CIFAR, batch_size=64))


@register("baselines", reference="eq:disambiguation_free_approach")
def naive(problem: PUProblem, settings: Settings = DEFAULT) -> nn.Module:
    """Labelled against unlabelled rows, as if those were negative.

        min_f  mean CE(σ(f(x_i)), s_i)

    On raw rows (``encoder="raw"``) this is a logistic regression with a ridge of 0.01, solved to the end.

    Fidelity: paper only, which names it as the approach to avoid.

    Presets: ours, for the networks of the tables: Adam 1e-3, weight decay 1e-4, cosine, 60 epochs of batches of 256.
    """
    if problem.encoder == "raw":
        target = problem.labelled.float()
        return regression(problem, target, torch.ones_like(target))

    return minimise(problem, settings, label_cross_entropy)


def label_cross_entropy(logits: Tensor, labelled: Tensor) -> Tensor:
    """The mean of CE(σ(f), s): every unlabelled row counts as negative."""
    return F.binary_cross_entropy_with_logits(logits, labelled.float())
