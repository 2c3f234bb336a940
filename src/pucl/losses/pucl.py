"""puCL, eq:puCL: labelled positives attract each other, unlabelled rows only their own other view."""

import torch
from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:puCL")
def pucl(pairs: Pairs, *, temperature: float) -> Tensor:
    r"""Labelled anchors are drawn to each other, unlabelled anchors to their own other view.

        ℓ_i = log Z(z_i) − z_i · t_i / τ,    t_i = mean of P \ i  if i ∈ P,   t_i = z_a(i)  if i ∈ U

    where P and U are the labelled and the unlabelled rows of the multi-viewed batch. Views come in pairs, so P \ i is
    never empty for a labelled anchor; a batch without labelled rows gives ssCL.
    """
    positives = pairs.mean_of_others(pairs.labelled)
    target = torch.where(pairs.labelled[:, None], positives, pairs.partner)
    return pairs.loss_towards(target, temperature)
