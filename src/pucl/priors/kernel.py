"""A Gaussian kernel on the sphere as plain features, through landmarks."""

import torch
from torch import Generator, Tensor

from pucl.priors.rounds import Features

SPREAD, WIDTH, LANDMARKS = 20.0, 0.5, 400  # where scores through the kernel stand by default
SMALLEST = 1e-6  # eigenvalues below this part of the largest are rounding


def nystroem(rows: Tensor, *, width: float, landmarks: int, seed: int) -> Features:
    """φ for rows of length 1: inner products of features are the kernel's values, as well as the landmarks allow."""
    chosen = torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:landmarks].to(rows.device)
    centres = rows[chosen]

    def kernel(x: Tensor) -> Tensor:
        return torch.exp((x @ centres.T - 1) / width)

    values, vectors = torch.linalg.eigh(kernel(centres).to(torch.float64))
    kept = values > SMALLEST * values[-1]
    root = (vectors[:, kept] / values[kept].sqrt()).to(rows.dtype)
    return lambda x: kernel(x) @ root
