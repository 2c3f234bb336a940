"""Inputs of networks: uint8 images or float rows as floats of zero mean and unit spread."""

from typing import Any

import torch
from torch import Tensor, nn

from pucl.errors import Described, bad_argument
from pucl.numerics.floats import CONSTANT, TINY, as_float32, as_tensor, pieces

ROWS = "images (n, c, h, w) or rows (n, d)"


def as_rows(x: Any, *, owner: str) -> Tensor:
    """Rows from a user as a tensor: images (n, c, h, w) as uint8 or float, tables and vectors (n, d) as float.

    uint8 and float32 arrays are not copied, so a memory-mapped file stays on the disk. They may be read-only: never
    write into the result.
    """
    try:
        rows = as_tensor(x)
    except (TypeError, ValueError):
        raise bad_argument(owner, "x", f"{ROWS} of numbers", Described(_content(x))) from None
    if rows.ndim not in (2, 4):
        raise bad_argument(owner, "x", ROWS, Described(f"shape {tuple(rows.shape)}"))
    if rows.dtype == torch.uint8:
        return rows
    return as_float32(owner, "x", rows)


def _content(x: Any) -> str:
    """What values that are no numbers are."""
    first = next(iter(x), None) if hasattr(x, "__iter__") else x
    return "texts" if isinstance(first, str) else f"{type(first).__name__} values"


def check_sides(encoder: str, input_shape: tuple[int, ...], smallest: int) -> None:
    """Both sides of the images (c, h, w) have at least `smallest` pixels, or one error that says so."""
    height, width = input_shape[1:]
    if min(height, width) < smallest:
        allowed = f"images of at least {smallest} × {smallest} pixels"
        raise bad_argument(f"encoder {encoder!r}", "x", allowed, Described(f"images of {height} × {width}"))


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
        """Constants computed from the training rows; a constant channel or feature keeps scale 1, whatever its unit.

            m = k + Σ (x − k) / n,    scale² = Σ (x − k)² / n − (m − k)²

        where n counts the values of a channel or feature and k is its mean in the first row. The sums are taken in one
        pass, piece by piece, in float64. For uint8 images k is rounded and both sums are whole numbers, hence exact.
        The first row is one of at most n, so k is within √n · scale of m and the difference is good to n · 2⁻⁵³.
        """
        axes = (0, 2, 3) if x.ndim == 4 else (0,)
        unit = 255 if x.dtype == torch.uint8 else 1
        near = in_float64(x[:1]).mean(dim=axes, keepdim=True)
        near = near.round() if unit == 255 else near
        total, square = torch.zeros_like(near), torch.zeros_like(near)
        for piece in pieces(x):
            away = in_float64(piece) - near
            total += away.sum(dim=axes, keepdim=True)
            square += away.square_().sum(dim=axes, keepdim=True)
        count = x.numel() // max(1, near.numel())
        shift = total / count
        spread = (square / count - shift**2).clamp(min=0).sqrt() / unit
        mean = (near + shift) / unit
        constant = (spread <= CONSTANT * mean.abs()) | (spread <= TINY)
        spread = torch.where(constant, torch.ones_like(spread), spread)
        return cls(mean[0].to(torch.float32), spread[0].to(torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Standardised rows, of the shape of `x`."""
        return (x - self.mean) / self.scale


def in_float64(x: Tensor) -> Tensor:
    """What `to_float` gives, in float64, with uint8 left on its scale of 0 to 255."""
    return (x if x.dtype == torch.uint8 else x.to(torch.float32)).to(torch.float64)


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
