"""Principal axes: of many columns by the power method on a random block, of few exactly."""

import torch
from torch import Generator, Tensor

TURNS = 6  # of the power method
SPARE = 10  # axes more than are wanted while it runs
MAX_ROWS, MAX_NUMBERS = 5000, 1 << 27  # that axes are found on


def sample_size(columns: int, max_rows: int = MAX_ROWS) -> int:
    """How many rows axes are found on: `max_rows`, or fewer where they have very many columns."""
    return max(2, min(max_rows, MAX_NUMBERS // columns))


def principal_axes(rows: Tensor, count: int, *, seed: int, max_rows: int = MAX_ROWS) -> tuple[Tensor, Tensor]:
    """The directions (k, r) of largest variance of centred rows (n, k), and the variances (r,), largest first.

    No matrix of columns by columns is made. Of more than `max_rows` rows, or of fewer with very many columns, a random
    sample decides. r is `count`, or as many as there are (Halko et al. 2011).
    """
    generator = Generator().manual_seed(seed)
    max_rows = sample_size(rows.shape[1], max_rows)
    if len(rows) > max_rows:
        rows = rows[torch.randperm(len(rows), generator=generator)[:max_rows].to(rows.device)]
    small = min(rows.shape)
    block = torch.randn(rows.shape[1], min(count + SPARE, small), generator=generator).to(rows)
    for _ in range(TURNS):
        block = torch.linalg.qr(rows.T @ (rows @ block)).Q
    _, lengths, within = torch.linalg.svd(rows @ block, full_matrices=False)
    r = min(count, small)
    return block @ within[:r].T, lengths[:r] ** 2 / len(rows)


def exact_axes(scatter: Tensor) -> tuple[Tensor, Tensor]:
    """All directions (k, k), as columns, and the variances (k,), smallest first, in float64.

        S = V diag(λ) Vᵀ

    where S is the scatter Σ_i x_i x_iᵀ of centred rows, or its mean over rows.
    """
    variances, axes = torch.linalg.eigh(scatter.to(torch.float64))
    return axes, variances
