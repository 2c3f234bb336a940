"""Principal axes of many columns, by the power method on a random block: no matrix of columns by columns."""

import torch
from torch import Generator, Tensor

TURNS = 6  # of the power method
SPARE = 10  # axes more than are wanted while it runs
MOST, HELD = 5000, 1 << 27  # rows that axes are found on at most, and numbers of these


def enough(columns: int, most: int = MOST) -> int:
    """How many rows axes are found on: `most`, or fewer where they have very many columns."""
    return max(2, min(most, HELD // columns))


def principal_axes(rows: Tensor, count: int, *, seed: int, most: int = MOST) -> tuple[Tensor, Tensor]:
    """The directions (k, r) of largest variance of centred rows (n, k), and the variances (r,), largest first.

    Of more than `most` rows, or of fewer with very many columns, a random sample decides. r is `count`, or as many as
    there are (Halko et al. 2011).
    """
    generator = Generator().manual_seed(seed)
    most = enough(rows.shape[1], most)
    if len(rows) > most:
        rows = rows[torch.randperm(len(rows), generator=generator)[:most].to(rows.device)]
    small = min(rows.shape)
    block = torch.randn(rows.shape[1], min(count + SPARE, small), generator=generator).to(rows)
    for _ in range(TURNS):
        block = torch.linalg.qr(rows.T @ (rows @ block)).Q
    _, lengths, within = torch.linalg.svd(rows @ block, full_matrices=False)
    r = min(count, small)
    return block @ within[:r].T, lengths[:r] ** 2 / len(rows)
