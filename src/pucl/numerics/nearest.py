"""Nearest rows by inner product, exactly, with a bounded number of similarities held at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 1 << 24  # similarities held at a time


def nearest(rows: Tensor, among: Tensor, k: int, *, skip_self: bool = False) -> tuple[Tensor, Tensor]:
    """The k largest of z_i · a_j over j, and these j, (n, k) each, largest first; cosines where rows have length 1.

    Args:
        rows: z, (n, d).
        among: a, (m, d), the rows that are searched.
        k: how many, at most m, or m − 1 with `skip_self`.
        skip_self: `among` are the same rows, and no row is its own neighbour.
    """
    similarity, index = [], []
    for start, block in blocks(rows, len(among)):
        products = block @ among.T
        if skip_self:
            own = torch.arange(len(block), device=rows.device)
            products[own, start + own] = -torch.inf
        top = products.topk(k, dim=1)
        similarity.append(top.values)
        index.append(top.indices)
    return torch.cat(similarity), torch.cat(index)


def blocks(rows: Tensor, n_among: int) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows that are compared with so many others at a time, each with the number of its first row."""
    size = max(1, BLOCK // n_among)
    for start in range(0, len(rows), size):
        yield start, rows[start : start + size]
