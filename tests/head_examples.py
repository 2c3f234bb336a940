"""Rows in two classes, as embeddings with pseudo-labels that are right, for the tests of heads and fine-tuning."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.pseudo_labels import PseudoLabels


def two_gaussians(
    n: int, *, gap: float, prior: float = 0.4, n_labelled: int = 0, seed: int = 0, k: int = 10
) -> tuple[Tensor, Tensor, Tensor]:
    """Labelled positives, then `n` unlabelled rows, `gap` standard deviations apart, normalised: z, labelled, truth.

    A third direction shared by both classes keeps the sphere from bending the boundary much.
    """
    g = Generator().manual_seed(seed)
    labelled = torch.arange(n + n_labelled) < n_labelled
    y = labelled | (torch.rand(n + n_labelled, generator=g) < prior)
    z = torch.randn(len(y), k, generator=g)
    z[:, 0] += torch.where(y, gap / 2, -gap / 2)
    z[:, 1] += 6.0
    return F.normalize(z, dim=1), labelled, y


def known(labelled: Tensor, y: Tensor, prior: float) -> PseudoLabels:
    """Pseudo-labels that are right."""
    return PseudoLabels.from_probability(y.float(), labelled, prior=prior)


def accuracy(head: nn.Module, z: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float(((head(z) > 0) == y).float().mean())


def corners(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Four clusters at the corners of a square, classes crosswise: x, labelled, truth."""
    g = Generator().manual_seed(0)
    corner = torch.randint(4, (n,), generator=g)
    centres = torch.tensor([[4.0, 4, 6], [-4, -4, 6], [4, -4, 6], [-4, 4, 6]])
    y = corner < 2
    return F.normalize(centres[corner] + torch.randn(n, 3, generator=g), dim=1), y & (torch.arange(n) < n // 10), y
