"""A Gaussian kernel on the sphere as plain features, through landmarks."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import check_share
from pucl.numerics.pca import principal_axes
from pucl.ranking.cvir import Features

SPREAD, WIDTH, LANDMARKS = 20.0, 0.5, 400  # where scores through the kernel stand by default
SMALLEST = 1e-6  # eigenvalues below this part of the largest are rounding
EVEN, FEW = 0.5, 250  # how far axes are made alike by default, but not with fewer labelled rows than these
WIDE, AXES = 2048, 512  # columns from which the first of the principal axes stand for all
FLAT = 1e-3  # added to the variance along every axis, as a part of the largest: what is flatter is noise


class Viewpoint(NamedTuple):
    """Where rows are seen from, and through what: the mean row (k,) and a matrix (k, r), or nothing."""

    mean: Tensor | None = None
    axes: Tensor | None = None

    def __call__(self, z: Tensor) -> Tensor:
        """The directions (n, r) of rows of an embedding (n, k); r is k where there is no matrix."""
        rows = F.normalize(z, dim=1)
        if self.mean is None:
            return rows
        rows = rows - self.mean
        return F.normalize(rows if self.axes is None else rows @ self.axes, dim=1)


def viewpoint(z: Tensor, *, centred: bool, even: float) -> Viewpoint:
    """From where `directions` sees the rows of an embedding; others can be seen from there too."""
    if not centred:
        return Viewpoint()
    rows = F.normalize(z, dim=1)
    mean = rows.mean(dim=0)
    wide = rows.shape[1] > WIDE
    if even == 0 and not wide:
        return Viewpoint(mean)
    rows = rows - mean
    if wide:
        axes, variances = principal_axes(rows, AXES, seed=0)
    else:
        variances, axes = torch.linalg.eigh((rows.T @ rows / len(rows)).to(torch.float64))
    parts = variances.clamp(min=0) / variances.max().clamp(min=torch.finfo(variances.dtype).tiny)
    return Viewpoint(mean, (axes * (parts + FLAT) ** (-even / 2)).to(rows.dtype))


def directions(z: Tensor, *, centred: bool = True, even: float = 0.0) -> Tensor:
    """Rows of length 1 that point from the mean row, or from the origin, to every row of an embedding (n, k).

    Seen from the origin all rows of an encoder may lie in a narrow cone, where the kernel can hardly tell them apart.
    Seen from the mean row a few axes may hold most of the variance, whatever they have to do with the classes: the
    variance λ along every principal axis becomes λ^(1 − e), with e from 0, which leaves rows as they are, to 1, which
    makes all axes alike. Of an embedding with very many columns only the first principal axes are looked at.
    """
    return viewpoint(z, centred=centred, even=even)(z)


def viewed(owner: str, z: Tensor, labelled: Tensor, *, centred: bool, even: float | None) -> Tensor:
    """The directions of an embedding as labellers take them: `even` as asked for or, where nobody says, `evenness`."""
    if even is not None:
        check_share(owner, "even", even, closed=True)
    return directions(z, centred=centred, even=evenness(labelled) if even is None else even)


def evenness(labelled: Tensor) -> float:
    """How far axes are made alike where nobody says: not at all where labelled rows (n,) are too few for many axes."""
    return EVEN if int(labelled.sum()) >= FEW else 0.0


def nystroem(rows: Tensor, *, width: float, landmarks: int, seed: int) -> Features:
    """φ for rows of length 1: inner products of features are the kernel's values, as well as the landmarks allow."""
    centres = landmarks_of(rows, landmarks, seed)
    root = root_of(centres, width)
    return lambda x: torch.exp((x @ centres.T - 1) / width) @ root


def landmarks_of(rows: Tensor, landmarks: int, seed: int) -> Tensor:
    """Some of the rows, drawn at random; all of them when there are no more."""
    return rows[torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:landmarks].to(rows.device)]


def root_of(centres: Tensor, width: float) -> Tensor:
    """V Λ^(−1/2), which makes kernel values at the landmarks (n, m) features (n, r)."""
    values, vectors = torch.linalg.eigh(torch.exp((centres @ centres.T - 1) / width).to(torch.float64))
    kept = values > SMALLEST * values[-1]
    root: Tensor = vectors[:, kept] / values[kept].sqrt()
    return root.to(centres.dtype)
