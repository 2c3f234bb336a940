"""Risks of PU learning: from logits, PU labels and π to a scalar whose gradient trains a classifier.

π is the share of positives *inside the unlabelled rows*, in every setting.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pucl.errors import Described, bad_argument, check_share, unknown_name
from pucl.risks.margins import MarginLoss, margin_loss

Setting = Literal["case-control", "single-set"]

SETTINGS = ("case-control", "single-set")


@dataclass(frozen=True)
class PartialRisks:
    """The two parts of a PU risk.

        A = π_X R_P⁺,    B = R_X⁻ − π_X R_P⁻

    where R_P⁺ and R_P⁻ are the mean losses of the labelled rows taken for positive and for negative, R_X⁻ that of the
    rows which stand for the population, taken for negative, and π_X is the share of positives among those. B estimates
    the risk of the negatives; it can be below 0 only by chance or by overfitting.

    In the case-control setting the population is that of U: R_X⁻ = R_U⁻ and π_X = π. In the single-set setting it is
    P ∪ U, of which P was a part: R_X⁻ is the mean over all rows and π_X = (n_P + π n_U) / (n_P + n_U).

    A mean over no rows is 0, so batches without labelled or without unlabelled rows are legal.

    Attributes:
        positive: A, a scalar.
        negative: B, a scalar.
    """

    positive: Tensor
    negative: Tensor

    @classmethod
    def of(
        cls, owner: str, logits: Tensor, labelled: Tensor, *, prior: float, loss: MarginLoss, setting: Setting
    ) -> "PartialRisks":
        """Both parts of a batch, in float32 at least; the host never waits for the device."""
        _check_batch(owner, logits, labelled)
        if setting not in SETTINGS:
            raise unknown_name(f"setting of {owner}", setting, SETTINGS)
        share: float | Tensor = check_share(owner, "prior", prior)
        function = margin_loss(loss)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        as_negative, population = function(-wide), ~labelled
        if setting == "single-set":
            population = torch.ones_like(labelled)
            n_labelled, n = labelled.sum(), max(len(labelled), 1)
            share = (n_labelled + share * (len(labelled) - n_labelled)) / n
        positive = share * mean_over(function(wide), labelled)
        return cls(positive, mean_over(as_negative, population) - share * mean_over(as_negative, labelled))


def mean_over(values: Tensor, members: Tensor) -> Tensor:
    """The mean over the marked rows, 0 when there are none."""
    return (values * members).sum() / members.sum().clamp(min=1)


def _check_batch(owner: str, logits: Tensor, labelled: Tensor) -> None:
    if logits.ndim != 1 or not logits.is_floating_point():
        got = Described(f"{logits.dtype} of shape {tuple(logits.shape)}")
        raise bad_argument(owner, "logits", "a floating-point vector (n,)", got)
    if labelled.dtype != torch.bool or labelled.shape != logits.shape:
        got = Described(f"{labelled.dtype} of shape {tuple(labelled.shape)}")
        raise bad_argument(owner, "labelled", f"a bool vector of length {len(logits)}, one per logit", got)
