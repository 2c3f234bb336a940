"""Encoders that need no training, fitted to rows: the rows themselves, or their principal components."""

import torch
from torch import Generator, Tensor

from pucl.encoders.inputs import Encoder, Standardise, to_float
from pucl.encoders.pca_projection import MAX_AXES, PCAProjection
from pucl.encoders.raw import raw
from pucl.encoders.shapes import flat_size
from pucl.numerics.pca import principal_axes, sample_size

RAW, PCA = "raw", "pca"
WIDE = 1024  # features beyond which principal axes stand for them


def raw_encoder(rows: Tensor) -> Encoder:
    """The encoder `raw` with the scaling of these rows, ready to be used."""
    return Encoder(Standardise.of(rows), raw(tuple(rows.shape[1:]))).eval()


@torch.no_grad()
def pca_encoder(rows: Tensor, *, seed: int = 0) -> Encoder:
    """The encoder `pca` with the scaling and the principal axes of a few thousand of these rows, ready to be used."""
    dim = flat_size(tuple(rows.shape[1:]))
    standardise, network = (
        Standardise.of(rows),
        PCAProjection(rows.new_zeros(dim, min(dim, MAX_AXES), dtype=torch.float)),
    )
    max_rows = sample_size(len(network.directions))  # of these alone a float copy is made
    picked = torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:max_rows]
    flat = standardise(to_float(rows[picked])).flatten(1)
    axes, _ = principal_axes(flat, network.directions.shape[1], seed=seed)
    network.directions[:, : axes.shape[1]] = axes  # fewer rows than axes leave some out
    network.constant.copy_((flat @ axes).square().sum(dim=1).mean().sqrt())
    return Encoder(standardise, network).eval()


def plain_encoder(rows: Tensor, *, use_pca: bool = False, seed: int = 0) -> tuple[str, Encoder]:
    """The encoder without training and its name: `raw`, or `pca` if `use_pca` is set or rows are wide."""
    if use_pca or flat_size(tuple(rows.shape[1:])) > WIDE:
        return PCA, pca_encoder(rows, seed=seed)
    return RAW, raw_encoder(rows)
