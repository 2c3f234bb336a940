"""Nearest labelled centroid: closer to the mean of P than to the mean of U."""

from torch import Tensor, nn

from pucl.encoders.inputs import Encoder, Standardise
from pucl.heads.nearest_centroid import nearest_centroid
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register


@register("baselines", reference="remark:kNN, with U standing in for the negatives")
def labelled_centroid(x: Tensor, labelled: Tensor, *, prior: float | None = None, seed: int = 0) -> nn.Module:
    """Positive where the mean of the labelled rows is nearer than the mean of the unlabelled rows."""
    del prior, seed
    encoder = Encoder(Standardise.of(x), nn.Flatten())
    pseudo = PseudoLabels.from_probability(labelled.float(), labelled)
    return nn.Sequential(encoder, nearest_centroid(encoder(x), labelled, pseudo))
