"""nnPU, eq:nnPU: the unbiased risk with the part that estimates the negatives kept from going below 0."""

import torch
from torch import Tensor

from pucl.errors import bad_argument, check_positive, is_number
from pucl.registry import register
from pucl.risks import PartialRisks, Setting
from pucl.risks.margins import MarginLoss

OWNER = "risk 'nnpu'"


@register("risks", reference="eq:nnPU; Kiryo et al. 2017", needs_prior=True)
def nnpu(
    logits: Tensor,
    labelled: Tensor,
    *,
    prior: float,
    loss: MarginLoss = "sigmoid",
    setting: Setting = "case-control",
    labelled_share: float | None = None,
    beta: float = 0.0,
    gamma: float = 1.0,
) -> Tensor:
    """The non-negative PU risk, with the step of its authors as gradient.

        R = π R_P⁺ + max(−β, B),    B = R_U⁻ − π R_P⁻

        ∇ = ∇(π R_P⁺ + B)  where B ≥ −β,    ∇ = −γ ∇B  where B < −β

    where R_P⁺ and R_P⁻ are the mean losses of the labelled rows taken for positive and for negative, R_U⁻ that of the
    unlabelled rows taken for negative. Where B is too low, `backward` gives not the gradient of the value but one that
    undoes the overfitting. See `PartialRisks` for the single-set setting and for batches without P or U.

    Args:
        logits: f(x), (n,).
        labelled: s, (n,) bool.
        prior: π, the share of positives among the unlabelled rows.
        loss: a margin loss.
        setting: how P and U were drawn.
        labelled_share: c, the share of labelled rows among all, for the single-set setting; that of the batch when not
            given.
        beta: β ≥ 0, how far below 0 the part B may go.
        gamma: γ > 0, the size of the steps back.
    """
    if not is_number(beta) or beta < 0:
        raise bad_argument(OWNER, "beta", "a finite number ≥ 0", beta)
    check_positive(OWNER, "gamma", gamma)
    parts = PartialRisks.of(
        OWNER, logits, labelled, prior=prior, loss=loss, setting=setting, labelled_share=labelled_share
    )
    value = parts.positive + parts.negative.clamp(min=-beta)
    descended = torch.where(parts.negative < -beta, -gamma * parts.negative, parts.positive + parts.negative)
    return value.detach() + (descended - descended.detach())  # the bracket is 0 and brings the gradient along
