"""Nearest rows by inner product, exactly, with a bounded number of similarities held at a time."""

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
    start, similarity, index = 0, [], []
    for block in torch.split(rows, block_size(len(among))):
        top = most_similar(block, among, k, own=start if skip_self else None)
        start += len(block)
        similarity.append(top[0])
        index.append(top[1])
    return torch.cat(similarity), torch.cat(index)


def most_similar(block: Tensor, among: Tensor, k: int, *, own: int | None = None) -> tuple[Tensor, Tensor]:
    """`nearest` for one block of rows, without a loop; the block is not its own neighbour from row `own` of `among`."""
    products = block @ among.transpose(0, 1)
    if own is not None:
        products.diagonal(own).fill_(-torch.inf)
    top = products.topk(k, dim=1)
    return top.values, top.indices


def block_size(n_among: int) -> int:
    """How many rows are compared with so many others at a time."""
    return max(1, BLOCK // n_among)
