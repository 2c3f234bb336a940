"""sCL, eq:scl: fully supervised contrastive learning, the upper bound in the paper's figures."""

from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:scl", needs_classes=True, revision=2)
def scl(pairs: Pairs, *, temperature: float) -> Tensor:
    r"""Every anchor is drawn to all rows of its true class; takes the truth in place of s.

        ℓ_i = log Z(z_i) − z_i · t_i / τ,    t_i = mean of P* \ i  if i ∈ P*,   t_i = mean of N \ i  if i ∈ N

    where P* and N are the true positives and negatives of the multi-viewed batch. For benchmarks only. (The paper's
    display sums over P where P* is meant.)
    """
    return pairs.loss_towards(pairs.mean_of_own_side(), temperature)
