"""The partition function log Z, shared by all objectives."""

import torch
from torch import Tensor


def log_partition(z: Tensor, temperature: float) -> Tensor:
    """Log-sum-exp of every row's similarity to all the others.

        log Z(z_i) = log Σ_{j ≠ i} exp(z_i · z_j / τ)

    Args:
        z: L2-normalised rows (m, d).
        temperature: τ.

    Returns:
        log Z for every row, (m,).
    """
    similarity = z @ z.T / temperature
    self_pair = torch.eye(len(z), dtype=torch.bool, device=z.device)
    return similarity.masked_fill(self_pair, float("-inf")).logsumexp(dim=1)


def anchor_loss(z: Tensor, target: Tensor, temperature: float) -> Tensor:
    """The term of every anchor, ``log Z(z_i) − z_i · t_i / τ``, (m,)."""
    return log_partition(z, temperature) - (z * target).sum(dim=1) / temperature
