"""puNCE, eq:puNCE: puCL for a known class prior; an unlabelled row is a positive with probability π."""

from typing import Literal

import torch
from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:puNCE", needs_prior=True)
def punce(pairs: Pairs, *, temperature: float, prior: float, variant: Literal["paper", "released"] = "paper") -> Tensor:
    r"""Labelled anchors are drawn to each other, unlabelled ones to P with weight π and to their view.

        ℓ_i = log Z(z_i) − z_i · t_i / τ
        t_i = mean of P \ i                                       if i ∈ P   (eq:puNCE.P_risk)
        t_i = π · mean of P ∪ {a(i)} + (1 − π) · z_a(i)           if i ∈ U   (eq:puNCE.U_risk)

    where π is the prior. The display of eq:puNCE.U_risk has a logarithm around the last similarity, a misprint: it can
    be negative. ``variant="released"`` draws an unlabelled anchor to (z_a(i) + π · mean of P) / (1 + π) instead, as the
    authors' code does. A batch without labelled rows gives ssCL in both.
    """
    whole, count = pairs.sum_and_count(pairs.labelled)
    if variant == "paper":  # z_a + π (mean of P ∪ {a} − z_a), which is z_a to the bit when P is empty
        towards = pairs.partner + prior / (count + 1) * (whole - count * pairs.partner)
    else:
        weight = prior * (count > 0).to(count.dtype)
        towards = (pairs.partner + weight * whole / count.clamp(min=1)) / (1 + weight)
    labelled = pairs.labelled[:, None]
    positives = (whole - pairs.z) / (count - 1).clamp(min=1)
    return pairs.loss_towards(torch.where(labelled, positives, towards), temperature)
