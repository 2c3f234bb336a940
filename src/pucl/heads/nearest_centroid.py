"""Nearest centroid, of the paper's remark (remark:kNN): the class whose mean embedding is closer."""

from torch import Tensor

from pucl.heads import LinearHead
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register


@register("heads", reference="the paper's remark on nearest centroids")
def nearest_centroid(z: Tensor, labelled: Tensor, pseudo: PseudoLabels) -> LinearHead:
    """Positive where the mean of the pseudo-positives is nearer than that of the pseudo-negatives.

    f(z) = ‖z − μ_N‖² − ‖z − μ_P‖² = 2 z · (μ_P − μ_N) + ‖μ_N‖² − ‖μ_P‖²
    """
    del labelled
    positive, negative = z[pseudo.labels].mean(dim=0), z[~pseudo.labels].mean(dim=0)
    return LinearHead(2 * (positive - negative), negative.pow(2).sum() - positive.pow(2).sum())
