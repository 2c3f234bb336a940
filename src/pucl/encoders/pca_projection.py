"""pca: the standardised rows projected on their principal axes, for rows with very many features."""

import torch
from torch import Generator, Tensor, nn

from pucl.encoders.shapes import Shape, flat_size
from pucl.registry import register

MAX_AXES = 512


class PCAProjection(nn.Module):
    """Rows flattened and projected on some directions, with a constant as one more feature."""

    directions: Tensor
    constant: Tensor

    def __init__(self, directions: Tensor) -> None:
        super().__init__()
        self.register_buffer("directions", directions)
        self.register_buffer("constant", torch.tensor(directions.shape[1] ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """(n, …) → (n, r + 1)."""
        projected = x.flatten(1) @ self.directions
        return torch.cat([projected, self.constant * torch.ones_like(projected[:, :1])], dim=1)


@register("encoders", reference="ours; Halko et al. 2011", former_names=("axes",))
def pca(input_shape: Shape) -> nn.Module:
    """The row projected on its 512 principal axes, without training.

        z = (Vᵀ x, c),    c² = mean ‖Vᵀ x‖²

    where every feature of x has zero mean and unit spread, and V holds the axes of largest variance, or all axes where
    x has fewer than 512 features. As for `raw`, the constant keeps the length of a row. Until rows are seen, V holds
    random directions.
    """
    dim = flat_size(input_shape)
    block = torch.randn(dim, min(dim, MAX_AXES), generator=Generator().manual_seed(0))
    return PCAProjection(torch.linalg.qr(block).Q)
