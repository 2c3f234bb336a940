"""The projection head h_Γ of the paper: used while training, thrown away afterwards."""

from torch import nn


def projection_head(dim: int, *, hidden: int = 512, out: int = 128) -> nn.Sequential:
    """Two linear layers with batch norm and ReLU between them: dim → hidden → out."""
    return nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, out))
