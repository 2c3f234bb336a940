"""mCL, eq:mcl: a mixture of sCL-PU and ssCL."""

from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:mcl")
def mcl(pairs: Pairs, *, temperature: float, mixing: float) -> Tensor:
    r"""The mixture λ · sCL-PU + (1 − λ) · ssCL.

        ℓ_i = log Z(z_i) − z_i · t_i / τ,    t_i = λ · mean of (P or U) \ i + (1 − λ) · z_a(i)

    where λ is `mixing`, within [0, 1], and the mean is over the side of the anchor, P or U. Both objectives share
    log Z, so mixing them is mixing what the anchors are drawn to.
    """
    target = mixing * pairs.mean_of_own_side() + (1 - mixing) * pairs.partner
    return pairs.loss_towards(target, temperature)
