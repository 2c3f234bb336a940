"""uPU, eq:uPU: the unbiased risk; the positives hidden in U are taken out again."""

from torch import Tensor

from pucl.registry import register
from pucl.risks import PartialRisks, Setting
from pucl.risks.margins import MarginLoss


@register("risks", reference="eq:uPU; du Plessis et al. 2015", needs_prior=True)
def upu(
    logits: Tensor,
    labelled: Tensor,
    *,
    prior: float,
    loss: MarginLoss = "sigmoid",
    setting: Setting = "case-control",
    labelled_share: float | None = None,
) -> Tensor:
    """The unbiased PU risk; it goes below 0 when the classifier overfits.

        R = π R_P⁺ + R_U⁻ − π R_P⁻

    where R_P⁺ and R_P⁻ are the mean losses of the labelled rows taken for positive and for negative, R_U⁻ that of the
    unlabelled rows taken for negative. See `PartialRisks` for the single-set setting and for batches without P or U.

    Args:
        logits: f(x), (n,).
        labelled: s, (n,) bool.
        prior: π, the share of positives among the unlabelled rows.
        loss: a margin loss.
        setting: how P and U were drawn.
        labelled_share: c, the share of labelled rows among all, for the single-set setting; that of the batch when not
            given.
    """
    parts = PartialRisks.of(
        "risk 'upu'", logits, labelled, prior=prior, loss=loss, setting=setting, labelled_share=labelled_share
    )
    return parts.positive + parts.negative
