"""A Gaussian kernel on the sphere as plain features, through landmarks (Nyström)."""

import torch
from torch import Generator, Tensor

WIDTH, LANDMARKS = 0.5, 400  # by default
SMALLEST = 1e-6  # eigenvalues below this part of the largest are rounding


class KernelFeatures:
    """φ for rows of length 1: inner products of features are the kernel's values, as well as the landmarks allow.

        k(z, z') = exp((cos(z, z') − 1) / h),    φ(z) = Λ^(−1/2) Vᵀ k(z, L),    k(L, L) = V Λ Vᵀ

    where L are rows drawn at random and h is the width.
    """

    def __init__(self, rows: Tensor, *, width: float, landmarks: int, seed: int) -> None:
        self.centres = draw_landmarks(rows, landmarks, seed)
        self.root, self.width = inverse_root(self.centres, width), width

    def __call__(self, rows: Tensor) -> Tensor:
        """Features (n, r) of rows (n, k)."""
        return torch.exp((rows @ self.centres.T - 1) / self.width) @ self.root


def draw_landmarks(rows: Tensor, landmarks: int, seed: int) -> Tensor:
    """Some of the rows, drawn at random; all rows if there are fewer."""
    return rows[torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:landmarks].to(rows.device)]


def inverse_root(centres: Tensor, width: float) -> Tensor:
    """V Λ^(−1/2), which makes kernel values at the landmarks (n, m) features (n, r)."""
    values, vectors = torch.linalg.eigh(torch.exp((centres @ centres.T - 1) / width).to(torch.float64))
    kept = values > SMALLEST * values[-1]
    root: Tensor = vectors[:, kept] / values[kept].sqrt()
    return root.to(centres.dtype)
