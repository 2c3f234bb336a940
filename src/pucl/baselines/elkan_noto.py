"""Elkan and Noto (2008): P against U, corrected for the share of the positives that is labelled."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.probability import ProbabilitySettings, fit_probability, out_of_fold
from pucl.baselines.shared.problem import Problem
from pucl.registry import register

LEAST = 1e-6  # of the constant


@dataclass(frozen=True, kw_only=True)
class ElkanNotoSettings(ProbabilitySettings):
    """Those of Elkan and Noto's methods.

    Attributes:
        weighted: train a second time on U with weights (their section 3) instead of moving the threshold of the first
            classifier (their section 2).
    """

    weighted: bool = True


DEFAULT = ElkanNotoSettings()


@register("baselines", reference="Elkan & Noto 2008")
def elkan_noto(problem: Problem, settings: ElkanNotoSettings = DEFAULT) -> nn.Module:
    """TODO."""
    logits, _ = out_of_fold(problem, settings)
    constant = labelled_share(logits[problem.labelled])
    if not settings.weighted:
        return Moved(
            fit_probability(problem, settings, number=settings.folds, phase="labelled"), torch.logit(constant / 2)
        )
    target = torch.where(problem.labelled, 1.0, positive_weight(logits, constant))
    return fit_probability(problem, settings, target=target, number=settings.folds, phase="weighted")


def labelled_share(logits: Tensor) -> Tensor:
    """c = P(s = 1 | y = 1), the mean probability of held-out labelled rows, from their logits (n,)."""
    return torch.sigmoid(logits).mean().clamp(LEAST, 1 - LEAST)


def positive_weight(logits: Tensor, constant: Tensor) -> Tensor:
    """P(y = 1 | x, s = 0) = (1 − c) / c · g / (1 − g), at most 1, from the logits of g, (n,)."""
    return (torch.log((1 - constant) / constant) + logits).clamp(max=0).exp()
