"""From what people have (uint8 images, float rows) to what a network wants: floats of zero mean and unit spread."""

from typing import Any

import torch
from torch import Tensor, nn

from pucl.errors import Described, bad_argument


def as_rows(x: Any, *, owner: str) -> Tensor:
    """People's rows as a tensor: images (n, c, h, w) as uint8 or float, tables and vectors (n, d) as float."""
    rows = torch.as_tensor(x)
    if rows.ndim not in (2, 4):
        got = Described(f"shape {tuple(rows.shape)}")
        raise bad_argument(owner, "x", "images (n, c, h, w) or rows (n, d)", got)
    if rows.dtype == torch.uint8:
        return rows
    rows = rows.to(torch.float32)
    check_finite(owner, "x", rows)
    return rows


def check_finite(owner: str, argument: str, rows: Tensor) -> None:
    """No row holds NaN or infinity, or one error that counts such rows and names the first."""
    bad = (~torch.isfinite(rows.flatten(1)).all(dim=1)).nonzero().flatten()
    if len(bad):
        got = Described(f"NaN or infinity in {len(bad)} rows, first {int(bad[0])}")
        raise bad_argument(owner, argument, "finite", got)


def to_float(x: Tensor) -> Tensor:
    """uint8 to [0, 1]; floats stay as they are."""
    return x.to(torch.float32) / 255 if x.dtype == torch.uint8 else x.to(torch.float32)


class Standardise(nn.Module):
    """Zero mean and unit spread per channel (images) or per feature (rows), as seen in the training data."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    @classmethod
    def of(cls, x: Tensor) -> "Standardise":
        """Constants computed from the training rows; a constant channel or feature keeps scale 1."""
        rows = to_float(x).to(torch.float64)
        axes = (0, 2, 3) if rows.ndim == 4 else (0,)
        mean, spread = rows.mean(dim=axes, keepdim=True)[0], rows.std(dim=axes, keepdim=True, correction=0)[0]
        spread = torch.where(spread > 1e-12, spread, torch.ones_like(spread))
        return cls(mean.to(torch.float32), spread.to(torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Standardised rows, of the shape of `x`."""
        return (x - self.mean) / self.scale


class Encoder(nn.Module):
    """A network with its own input scaling: raw rows in, embeddings (n, k) out."""

    def __init__(self, standardise: Standardise, network: nn.Module) -> None:
        super().__init__()
        self.standardise = standardise
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of raw rows."""
        out: Tensor = self.network(self.standardise(to_float(x)))
        return out
