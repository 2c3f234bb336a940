"""Elkan and Noto (2008): P against U, corrected for the share of the positives that is labelled."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from pucl.baselines.rank_pruning import PRESETS as NETWORKS
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.probability import ProbabilitySettings, fit_probability, out_of_fold
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Presets
from pucl.registry import register

LEAST = 1e-6  # of the constant


@dataclass(frozen=True, kw_only=True)
class ElkanNotoSettings(ProbabilitySettings):
    """Those of Elkan and Noto's methods.

    Attributes:
        weighted: train a second time, on U as both classes with weights (section 3 of the paper); otherwise the
            threshold of a classifier of P against U is moved (section 2).
    """

    weighted: bool = True


DEFAULT = ElkanNotoSettings()
PRESETS: Presets = MappingProxyType({task: ElkanNotoSettings(**vars(preset)) for task, preset in NETWORKS.items()})


@register("baselines", reference="Elkan & Noto 2008")
def elkan_noto(problem: PUProblem, settings: ElkanNotoSettings = DEFAULT) -> nn.Module:
    """How likely a row of U is positive, from how likely it is labelled: weights of a second classifier.

        c = mean_P g,    w(x) = P(y = 1 | x, s = 0) = (1 − c) / c · g(x) / (1 − g(x))
        min_f  Σ_P CE(σ(f), 1) + Σ_U [w CE(σ(f), 1) + (1 − w) CE(σ(f), 0)]

    where g(x) is P(s = 1 | x) by networks that never saw the row (three folds), c = P(s = 1 | y = 1) the estimator e₁
    of the paper, and w is kept below 1. Without `weighted` the positives are those with g(x) / c > 1/2, by a g trained
    on all rows. Labels must have been given to positives at random. No prior is needed.

    Fidelity: paper only.

    Differs:
        - The paper takes c from a validation set and w from the rows g was trained on; networks memorise those,
          so here g is cross-fitted, which also leaves all of P for c.
        - Networks instead of Platt-scaled support vector machines; the epoch with the lowest held-out loss
          counts. With ``encoder="raw"`` both classifiers are logistic regressions.

    Presets: the paper has other data; those of rank pruning, whose networks have the same task.
    """
    logits, _ = out_of_fold(problem, settings)
    constant = labelled_share(logits[problem.labelled])
    if not settings.weighted:
        scorer = fit_probability(problem, settings, number=settings.folds, phase="labelled")
        return Moved(scorer, torch.logit(constant / 2))
    target = torch.where(problem.labelled, 1.0, positive_weight(logits, constant))
    return fit_probability(problem, settings, target=target, number=settings.folds, phase="weighted")


def labelled_share(logits: Tensor) -> Tensor:
    """The constant c = P(s = 1 | y = 1): the mean probability of held-out labelled rows, from their logits (n,)."""
    return torch.sigmoid(logits).mean().clamp(LEAST, 1 - LEAST)


def positive_weight(logits: Tensor, constant: Tensor) -> Tensor:
    """P(y = 1 | x, s = 0) = (1 − c) / c · g / (1 − g), at most 1, from the logits of g, (n,)."""
    return (torch.log((1 - constant) / constant) + logits).clamp(max=0).exp()
