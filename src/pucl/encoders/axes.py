"""axes: the standardised rows along their principal axes, for rows with very many features."""

import torch
from torch import Generator, Tensor, nn

from pucl.encoders import Shape, flat_size
from pucl.encoders.inputs import Encoder, Standardise, to_float
from pucl.encoders.raw import raw_encoder
from pucl.numerics.pca import enough, principal_axes
from pucl.registry import register

COUNT = 512  # of axes, at most
WIDE = 1024  # features beyond which principal axes stand for them


class Axes(nn.Module):
    """Rows flattened and seen along some directions, with a constant beside them."""

    directions: Tensor
    constant: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        count = min(dim, COUNT)
        block = torch.randn(dim, count, generator=Generator().manual_seed(0))
        self.register_buffer("directions", torch.linalg.qr(block).Q)
        self.register_buffer("constant", torch.tensor(count**0.5))

    def forward(self, x: Tensor) -> Tensor:
        """(n, …) → (n, r + 1)."""
        along = x.flatten(1) @ self.directions
        return torch.cat([along, self.constant * torch.ones_like(along[:, :1])], dim=1)


@register("encoders", reference="ours; Halko et al. 2011")
def axes(input_shape: Shape) -> nn.Module:
    """The row along the 512 axes of largest variance, nothing else to be learnt.

        z = (Vᵀ x, c),    c² = mean ‖Vᵀ x‖²

    where every feature of x has zero mean and unit spread, and V are the axes, all of them where there are no more. As
    for `raw`, the constant keeps the length of a row. Until rows are seen V are random directions.
    """
    return Axes(flat_size(input_shape))


@torch.no_grad()
def axes_encoder(rows: Tensor, *, seed: int = 0) -> Encoder:
    """The encoder `axes` with scaling and principal axes of these rows, ready to be used; some thousand rows decide."""
    standardise, network = Standardise.of(rows), Axes(flat_size(tuple(rows.shape[1:])))
    most = enough(len(network.directions))  # of these alone a float copy is made
    picked = torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:most]
    flat = standardise(to_float(rows[picked])).flatten(1)
    found, _ = principal_axes(flat, network.directions.shape[1], seed=seed)
    network.directions.zero_()  # fewer rows than axes leave some out
    network.directions[:, : found.shape[1]] = found
    network.constant.copy_((flat @ found).square().sum(dim=1).mean().sqrt())
    return Encoder(standardise, network).eval()


def plain_encoder(rows: Tensor, *, along: bool = False, seed: int = 0) -> tuple[str, Encoder]:
    """The encoder that takes rows as they are, and its name: `raw`, or `axes` where asked for or for wide rows."""
    if along or flat_size(tuple(rows.shape[1:])) > WIDE:
        return "axes", axes_encoder(rows, seed=seed)
    return "raw", raw_encoder(rows)
