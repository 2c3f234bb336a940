"""ssCL, eq:sscl: self-supervised contrastive learning, which ignores the labels."""

from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:sscl")
def sscl(pairs: Pairs, *, temperature: float) -> Tensor:
    """Every anchor is drawn to its own other view.

        ℓ_i = log Z(z_i) − z_i · z_a(i) / τ

    where a(i) is the other view of the sample of i, and Z sums over all rows but i.
    """
    return pairs.loss_towards(pairs.partner, temperature)
