"""ImbPU (Su et al. 2021): the non-negative risk of a population in which positives have another share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pucl.baselines.shared.learning import minimise
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import with_networks
from pucl.baselines.upu import RiskSettings
from pucl.errors import check_share
from pucl.registry import register
from pucl.risks import PartialRisks
from pucl.risks.margins import MarginLoss


@dataclass(frozen=True, kw_only=True)
class ImbPUSettings(RiskSettings):
    """Those of ImbPU.

    Attributes:
        share: π', the share of positives in the population whose risk is minimised.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(type(self).__name__, "share", self.share)


DEFAULT = ImbPUSettings()
_CIFAR = ImbPUSettings(epochs=200, steps=100, batch_size=500, labelled_batch=10, learning_rate=1e-5, weight_decay=5e-3)
PRESETS = with_networks(_CIFAR, alzheimer=replace(_CIFAR, batch_size=64))


def rebalanced_risk(
    logits: Tensor, labelled: Tensor, *, prior: float, share: float = 0.5, loss: MarginLoss = "sigmoid"
) -> Tensor:
    """The non-negative risk as if a share π' of the population were positive.

        R = π' R_P⁺ + max(0, w B),    B = R_U⁻ − π R_P⁻,    w = (1 − π') / (1 − π)

        ∇ = ∇(π' R_P⁺ + w B)  where B ≥ 0,    ∇ = −∇ w B  where B < 0

    where the R are mean losses, see `pucl.risks.PartialRisks`.
    """
    parts = PartialRisks.of("risk 'imbpu'", logits, labelled, prior=prior, loss=loss, setting="case-control")
    positive = share / prior * parts.positive
    negative = (1 - share) / (1 - prior) * parts.negative
    descended = torch.where(negative < 0, -negative, positive + negative)
    value = positive + negative.clamp(min=0)
    return value.detach() + (descended - descended.detach())  # the bracket is 0 and brings the gradient along


@register("baselines", reference="Su et al. 2021", needs_prior=True)
def imbpu(problem: PUProblem, settings: ImbPUSettings = DEFAULT) -> nn.Module:
    """The non-negative risk with both classes weighted as if positives had the share π', usually one half.

        min_f  π' R_P⁺ + max(0, (1 − π') / (1 − π) · (R_U⁻ − π R_P⁻))

    where the R are mean losses of a batch; where the bracket is below 0 the step goes back along it, see
    `rebalanced_risk`. With π' = π it is nnPU. It aims at the mean of recall and specificity (or at F1), not at
    accuracy, and calls more rows positive than nnPU where π < π'.

    Fidelity: author code (214159537/ImbalancedPU).

    Differs:
        - Their positives are one class of CIFAR-10 against all others; here the classes are those of the tables.
        - Their code takes learning rate and weight decay as arguments. With those of its example (1e-3 and 5e-8) all
          rows end up negative here, so ours are those of nnPU's author.

    Presets: CIFAR Adam 1e-5 with weight decay 5e-3, 200 epochs of 100 steps of 10 labelled and 500 unlabelled rows; all
    others the same, Alzheimer with 64 unlabelled rows.
    """

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        return rebalanced_risk(logits, labelled, prior=problem.share, share=settings.share, loss=settings.loss)

    return minimise(problem, settings, risk)
