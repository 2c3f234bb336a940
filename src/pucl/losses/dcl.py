"""dCL, eq:dcl: ssCL with the positives hidden among the negatives taken out of the partition function."""

import math

import torch
from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


@register("losses", reference="eq:dcl; Chuang et al. 2020", needs_prior=True)
def dcl(pairs: Pairs, *, temperature: float, prior: float) -> Tensor:
    """Debiased contrastive learning: the partition function corrected by the class prior.

        ℓ_i = log(e^{p_i} + G_i) − p_i,    p_i = z_i · z_a(i) / τ
        G_i = max( (Σ_{j ≠ i, a(i)} e^{z_i · z_j / τ} − N π e^{p_i}) / (1 − π),  N e^{−1/τ} )

    where π is the prior and N = |I| − 2 the number of negatives. The paper's display multiplies N by a sum; this is
    the original's N times the mean, bounded below as there.

    All is computed relative to Z: with ℓ the term of ssCL, e^{p_i} / Z = e^{−ℓ}, so nothing overflows.
    """
    n_negative = pairs.n_rows - 2
    log_z = pairs.log_partition(temperature)
    plain = log_z - (pairs.z * pairs.partner).sum(dim=1) / temperature
    positive = torch.exp(-plain)
    negative = (-torch.expm1(-plain) - n_negative * prior * positive) / (1 - prior)
    floor = torch.exp(math.log(max(n_negative, 1)) - 1 / temperature - log_z) * (n_negative > 0)
    return plain + torch.log(positive + torch.maximum(negative, floor))
