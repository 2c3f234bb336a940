"""sCL-PU, eq:scl_pu: supervised contrastive learning that takes the unlabelled rows for a class. Biased."""

from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:scl_pu")
def scl_pu(pairs: Pairs, *, temperature: float) -> Tensor:
    r"""Labelled anchors are drawn to each other, unlabelled anchors to each other as if they were a class.

        ℓ_i = log Z(z_i) − z_i · t_i / τ,    t_i = mean of P \ i  if i ∈ P,   t_i = mean of U \ i  if i ∈ U

    where P and U are the labelled and the unlabelled rows of the multi-viewed batch. Its bias is
    2κ(ρ_intra − ρ_inter) with κ = π(1 − π)/(1 + γ) (th:scl_pu_bias).
    """
    return pairs.loss_towards(pairs.mean_of_own_side(), temperature)
