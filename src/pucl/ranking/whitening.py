"""Partial whitening: rows of an embedding as directions from their mean, along axes made more alike."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.errors import check_share
from pucl.numerics.pca import exact_axes, principal_axes

DEFAULT, FEWEST_LABELLED = 0.5, 250  # how far axes are made alike, but not with fewer labelled rows than these
WIDE, AXES = 2048, 512  # columns from which the first of the principal axes stand for all
FLAT = 1e-3  # added to the variance along every axis, as a part of the largest: what is flatter is noise


class Whitening(NamedTuple):
    """A fitted partial whitening: the mean row (k,) and a matrix (k, r), or nothing."""

    mean: Tensor | None = None
    axes: Tensor | None = None

    def __call__(self, z: Tensor) -> Tensor:
        """The directions (n, r) of rows of an embedding (n, k); r is k where there is no matrix."""
        rows = F.normalize(z, dim=1)
        if self.mean is None:
            return rows
        rows = rows - self.mean
        return F.normalize(rows if self.axes is None else rows @ self.axes, dim=1)


def fit_whitening(z: Tensor, *, centred: bool, whitening: float) -> Whitening:
    """What `directions` does to the rows of an embedding; it can be done to other rows too."""
    if not centred:
        return Whitening()
    rows = F.normalize(z, dim=1)
    mean = rows.mean(dim=0)
    wide = rows.shape[1] > WIDE
    if whitening == 0 and not wide:
        return Whitening(mean)
    rows = rows - mean
    if wide:
        axes, variances = principal_axes(rows, AXES, seed=0)
    else:
        axes, variances = exact_axes(rows.T @ rows / len(rows))
    parts = variances.clamp(min=0) / variances.max().clamp(min=torch.finfo(variances.dtype).tiny)
    return Whitening(mean, (axes * (parts + FLAT) ** (-whitening / 2)).to(rows.dtype))


def directions(z: Tensor, *, centred: bool = True, whitening: float = 0.0) -> Tensor:
    """Rows of length 1 that point from the mean row, or from the origin, to every row of an embedding (n, k).

        λ_j ← λ_j^(1 − e)

    where λ_j is the variance along principal axis j of the centred rows and e is `whitening`, from 0, which leaves
    rows as they are, to 1, which makes all axes alike. Seen from the origin all rows of an encoder may lie in a narrow
    cone, where a kernel can hardly separate them. Seen from the mean row a few axes may hold most of the variance,
    whatever they have to do with the classes. Of an embedding with very many columns only the first principal axes are
    looked at.
    """
    return fit_whitening(z, centred=centred, whitening=whitening)(z)


def ranked_directions(owner: str, z: Tensor, labelled: Tensor, *, centred: bool, whitening: float | None) -> Tensor:
    """The directions that rankers take: with `whitening` as given or, if None, `default_whitening`."""
    if whitening is not None:
        check_share(owner, "whitening", whitening, closed=True)
    return directions(z, centred=centred, whitening=default_whitening(labelled) if whitening is None else whitening)


def default_whitening(labelled: Tensor) -> float:
    """How far axes are made alike by default: not at all if labelled rows (n,) are too few for many axes."""
    return DEFAULT if int(labelled.sum()) >= FEWEST_LABELLED else 0.0
