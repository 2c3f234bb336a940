"""Standardised rows for models that need them: zero mean and unit spread of every column."""

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.floats import CONSTANT, TINY
from pucl.ranking.bags import Rows


def standardised(
    rows: Rows, as_scaled: NDArray[np.bool_] | None = None
) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
    """(x − mean) / scale with mean and scale (d,); a constant column, and one that is `as_scaled`, keeps scale 1.

    A column is constant if its spread is rounding beside its mean, whatever its unit.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    scale = rows.std(axis=0, dtype=np.float64)
    scale = np.where((scale > CONSTANT * np.abs(mean)) & (scale > TINY), scale, 1.0)
    if as_scaled is not None:
        scale = np.where(as_scaled, 1.0, scale)
    return ((rows - mean) / scale).astype(np.float32), mean, scale
