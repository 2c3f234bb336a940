"""log Z in tiles of PyTorch matrix products: any device, any floating type, memory of one tile."""

import torch
from torch import Tensor

# Rows and columns of a tile: one that stays in a core's cache, and one that keeps a GPU busy.
TILE, TILE_GPU = 512, 8192
# Up to this scale exp(s − scale) cannot underflow in float32, so no running maximum is needed.
LARGEST_SAFE_SCALE = 30.0


def tile_of(rows: Tensor) -> int:
    """Rows and columns of a tile where these rows are."""
    return TILE_GPU if rows.is_cuda else TILE


def forward(anchors: Tensor, rows: Tensor, first: int, scale: float) -> Tensor:
    """The sum log Σ_{j ≠ i} exp(scale · a_i · r_j) for every anchor, (m,); see the package docstring."""
    lse = anchors.new_full((len(anchors),), float("-inf"))
    safe, tile = scale <= LARGEST_SAFE_SCALE, tile_of(anchors)
    for i in range(0, len(anchors), tile):
        rows_i = slice(i, i + tile)
        block = anchors[rows_i] * scale
        for j in range(0, len(rows), tile):
            similarity = block @ rows[j : j + tile].T
            _fill_self(similarity, first + i - j, float("-inf"))
            part = _sum_exp(similarity, scale) if safe else similarity.logsumexp(dim=1)
            lse[rows_i] = torch.logaddexp(lse[rows_i], part)
    return lse


def backward(
    anchors: Tensor, rows: Tensor, first: int, scale: float, lse: Tensor, lse_rows: Tensor, g: Tensor, g_rows: Tensor
) -> Tensor:
    """The gradient of Σ_k g_k lse_k over all rows k with respect to the anchors, (m, d); see the package docstring."""
    out = torch.zeros_like(anchors)
    safe, tile = scale <= LARGEST_SAFE_SCALE, tile_of(anchors)
    own, others = g * (scale - lse).exp(), g_rows * (scale - lse_rows).exp()  # used where safe
    for i in range(0, len(anchors), tile):
        rows_i = slice(i, i + tile)
        block = anchors[rows_i] * scale
        for j in range(0, len(rows), tile):
            rows_j = slice(j, j + tile)
            similarity = block @ rows[rows_j].T
            if safe:
                weight = similarity.sub_(scale).exp_().mul_(own[rows_i, None] + others[rows_j])
            else:
                weight = (similarity - lse[rows_i, None]).exp_().mul_(g[rows_i, None])
                weight += similarity.sub_(lse_rows[rows_j]).exp_().mul_(g_rows[rows_j])
            _fill_self(weight, first + i - j, 0.0)
            out[rows_i].addmm_(weight, rows[rows_j])
    return out.mul_(scale)


def _sum_exp(tile: Tensor, bound: float) -> Tensor:
    """Log-sum-exp of every row of a tile whose values do not exceed `bound`; the tile is used up."""
    return tile.sub_(bound).exp_().sum(dim=1).log_().add_(bound)


def _fill_self(tile: Tensor, offset: int, value: float) -> None:
    """Set the entries of a tile that pair a row with itself: those on the diagonal `offset` to the right."""
    if -tile.shape[0] < offset < tile.shape[1]:
        tile.diagonal(offset).fill_(value)
