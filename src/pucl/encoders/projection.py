"""The projection head h_Γ of the paper: used while training, thrown away afterwards."""

from torch import nn


def projection_head(dim: int, *, hidden: int = 512, out: int = 128, output_norm: bool = False) -> nn.Sequential:
    """Two linear layers with batch norm and ReLU between them: dim → hidden → out.

    With `output_norm`, as in the authors' released code, there is a batch norm on the output too; the last layer's
    bias, which that would undo, is left out.
    """
    last = [nn.Linear(hidden, out, bias=not output_norm), *([nn.BatchNorm1d(out)] if output_norm else [])]
    return nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), *last)
