"""How unsure a classifier is."""

import torch
import torch.nn.functional as F
from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """The entropy of σ(f), in nats, row by row.

    H = −σ(f) log σ(f) − σ(−f) log σ(−f)
    """
    return torch.sigmoid(logits) * F.softplus(-logits) + torch.sigmoid(-logits) * F.softplus(logits)
