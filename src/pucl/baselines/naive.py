"""Naive: take every unlabelled row for a negative, eq:disambiguation_free_approach."""

from torch import Tensor, nn

from pucl.encoders.inputs import Encoder, Standardise
from pucl.heads import LinearHead
from pucl.logistic import fit_logistic
from pucl.registry import register


@register("baselines", reference="eq:disambiguation_free_approach")
def naive(x: Tensor, labelled: Tensor, *, prior: float | None = None, seed: int = 0, l2: float = 1e-2) -> nn.Module:
    """Logistic regression of labelled against unlabelled rows, as if those were negative."""
    del prior, seed
    encoder = Encoder(Standardise.of(x), nn.Flatten())
    layer = fit_logistic(encoder(x), labelled, labelled.new_ones(len(x)).float(), l2=l2)
    return nn.Sequential(encoder, LinearHead(layer.weight[0], layer.bias[0]))
