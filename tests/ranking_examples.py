"""Embeddings and scores that several tests of rankings take."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.pseudo_labels import PseudoLabels


def clusters(n: int = 2000, *, of: int = 100, k: int = 30, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Clusters of near rows, every other one positive and a third of it labelled: z, labelled, truth."""
    g = Generator().manual_seed(seed)
    cluster = torch.arange(n) % of
    z = torch.randn(of, k, generator=g)[cluster] + 0.7 * torch.randn(n, k, generator=g)
    y = cluster % 2 == 0
    return z, y & (torch.rand(n, generator=g) < 1 / 3), y


def broad(n: int = 600, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Two wide clouds that overlap: z, labelled, truth."""
    g = Generator().manual_seed(seed)
    y = torch.arange(n) % 2 == 0
    z = torch.randn(n, 10, generator=g)
    z[:, 0] += 3.0 * y
    return z, y & (torch.rand(n, generator=g) < 0.3), y


def cloud(n: int = 120, k: int = 6, *, n_p: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of length 1 without any structure, of which the first are labelled."""
    return F.normalize(torch.randn(n, k, generator=Generator().manual_seed(seed)), dim=1), torch.arange(n) < n_p


def right(found: PseudoLabels, labelled: Tensor, y: Tensor) -> float:
    return float((found.labels == y)[~labelled].float().mean())


def scored(n: int = 1000, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A score that ranks positives high, one that knows nothing, and who is labelled; positives come first."""
    g = Generator().manual_seed(seed)
    y, labelled = torch.arange(n) < n // 2, torch.arange(n) < n // 5
    noise, blind = torch.randn(2, n, generator=g, dtype=torch.float64)
    return 2.0 * y + noise, blind, labelled


def weights(score: Tensor, *columns: Tensor) -> list[float]:
    """Of what the stack is made, for columns of unit variance."""
    unit = [(column - column.mean()) / column.std() for column in columns]
    found = torch.linalg.lstsq(torch.stack([*unit, torch.ones_like(score)], dim=1), score)
    return [float(value) for value in found.solution[:-1]]
