"""The non-contrastive loss: rows of one pseudo-class are drawn together, wrong pairs hardly, and none pushed apart.

It is no registered objective: those contrast both views of a batch by one network and take s; this one draws the rows
of a network to those of another, and takes pseudo-classes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pucl.errors import Described, bad_argument
from pucl.losses.kernels.tiled import tile_of
from pucl.losses.pairs import unit_rows

OWNER = "pucl.losses.non_contrastive"
SMOOTHING = 1e-4  # ε


def non_contrastive(q: Tensor, k: Tensor, classes: Tensor) -> Tensor:
    r"""What every row is drawn to: its own target, and those of the rows of its pseudo-class, (n,).

        ℓ_i = [2 (1 − c_ii) + Σ_{j ∈ C(i) \ i} 2 (√(1 − c_ij + ε) − √ε)] / |C(i)|,    c_ij = cos(q_i, k_j)

    where q_i is the row in one view by the network that learns, k_j a row in another view by its target network, C(i)
    the rows of the pseudo-class of i, itself among them, and ε = 1e-4. At an angle θ the pull of the own target is
    2 sin θ; that of another row fades as √2 cos(θ/2) where θ is large, as it is for most wrong pairs. ε only keeps the
    slope finite at c = 1, where that of √(1 − c) is not. (The two terms are those of NcPU, 2026.)

    Memory is O(n·d): the similarities are computed in tiles, again in the backward pass. A row of zeros has c = 0.

    Args:
        q: rows of the network that learns (n, d), not yet normalised.
        k: those of the target network (n, d), row by row the same samples; constants, which get no gradient.
        classes: the pseudo-class of every row, (n,) bool or whole numbers.
    """
    if q.ndim != 2 or not q.is_floating_point() or q.shape != k.shape:
        got = Described(f"{q.dtype} of shape {tuple(q.shape)} and {tuple(k.shape)}")
        raise bad_argument(OWNER, "q", "a floating-point tensor of shape (n, d), and k likewise", got)
    if classes.shape != q.shape[:1]:
        got = Described(f"shape {tuple(classes.shape)}")
        raise bad_argument(OWNER, "classes", f"of length {len(q)}, one per row of q", got)
    with torch.autocast(q.device.type, enabled=False):
        terms: Tensor = _NonContrastive.apply(unit_rows(q), unit_rows(k.detach()), classes)  # type: ignore[no-untyped-call]
    return terms


class _NonContrastive(torch.autograd.Function):
    """Of normalised rows, in tiles; the forward pass keeps the size of every row's class."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, classes: Tensor) -> Tensor:
        own = 2 - 2 * (q * k).sum(dim=1)
        others, count = torch.zeros_like(own), torch.zeros_like(own)
        for rows, columns in _tiles(q):
            alike = _alike(classes, rows, columns)
            distance = (1 + SMOOTHING - q[rows] @ k[columns].T).sqrt_().sub_(SMOOTHING**0.5)
            others[rows] += distance.mul_(alike).sum(dim=1)
            count[rows] += alike.sum(dim=1)
        ctx.save_for_backward(q, k, classes, 1 + count)
        return (own + 2 * others) / (1 + count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor, None, None]:
        q, k, classes, count = ctx.saved_tensors
        out = -2 * k
        for rows, columns in _tiles(q):
            slope = (1 + SMOOTHING - q[rows] @ k[columns].T).rsqrt_().mul_(_alike(classes, rows, columns))
            out[rows] -= slope @ k[columns]
        return out.mul_((g[0] / count)[:, None]), None, None


def _tiles(rows: Tensor) -> list[tuple[slice, slice]]:
    """Rows and columns of every tile."""
    tile = tile_of(rows)
    parts = [slice(i, i + tile) for i in range(0, len(rows), tile)]
    return [(one, other) for one in parts for other in parts]


def _alike(classes: Tensor, rows: slice, columns: slice) -> Tensor:
    """Which pairs of a tile are two rows of one class."""
    alike = classes[rows, None] == classes[columns]
    return alike.fill_diagonal_(fill_value=False) if rows == columns else alike
