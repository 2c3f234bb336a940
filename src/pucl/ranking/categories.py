"""Categories as numbers for trees: how much more often each occurs in P than in U, made without the row itself."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
SMOOTHING = 10.0  # rows of the overall share that are added to every category


@dataclass(frozen=True)
class CategoryValues:
    """The number that stands for every code.

    Attributes:
        columns: which columns hold codes, (k,).
        table: the value of every code, (k, m).
        default: the value of a code that was never seen, (k,).
    """

    columns: tuple[int, ...]
    table: NDArray[np.float32]
    default: NDArray[np.float32]

    def apply(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows with codes replaced by their values; missing ones stay missing."""
        out = rows.copy()
        for i, j in enumerate(self.columns):
            out[:, j] = _looked_up(rows[:, j], self.table[i], self.default[i])
        return out


def category_values(
    rows: NDArray[np.float32], labelled: NDArray[np.bool_], columns: tuple[int, ...], seed: int
) -> tuple[NDArray[np.float32], CategoryValues | None]:
    """Rows with codes replaced by values that were made without them, and the values for new rows.

        v(c) = (n_P(c) + a π_0) / (n(c) + a)

    where n_P(c) and n(c) count the labelled and all rows of category c outside the fold of the row, π_0 is the share of
    labelled rows and a the smoothing. So a row's own label never speaks through its category. New rows take the values
    of all training rows.

    Args:
        rows: compact rows (n, c).
        labelled: s, (n,).
        columns: which columns hold codes.
        seed: of the folds.
    """
    if not columns:
        return rows, None
    size = int(max(np.nanmax(rows[:, j], initial=0.0) for j in columns)) + 1
    fold = np.random.default_rng(seed).permutation(len(rows)) % FOLDS
    overall, out = float(labelled.mean()), rows.copy()
    table = np.empty((len(columns), size), dtype=np.float32)
    for i, j in enumerate(columns):
        known = rows[:, j] >= 0  # False for NaN
        codes = np.where(known, rows[:, j], 0).astype(np.intp)
        counts = np.zeros((FOLDS, 2, size))
        np.add.at(counts, (fold[known], labelled[known].astype(int), codes[known]), 1)
        whole = counts.sum(axis=0)
        table[i] = _share(whole, overall)
        for k in range(FOLDS):
            here = fold == k
            out[here, j] = _looked_up(rows[here, j], _share(whole - counts[k], overall), overall)
    return out, CategoryValues(columns, table, np.full(len(columns), overall, dtype=np.float32))


def _share(counts: NDArray[np.float64], overall: float) -> NDArray[np.float32]:
    """The smoothed share of labelled rows of every category, from counts (2, m) of unlabelled and labelled ones."""
    share: NDArray[np.float64] = (counts[1] + SMOOTHING * overall) / (counts.sum(axis=0) + SMOOTHING)
    return share.astype(np.float32)


def _looked_up(codes: NDArray[np.float32], table: NDArray[np.float32], default: float) -> NDArray[np.float32]:
    inside = (codes >= 0) & (codes < len(table))
    values = np.where(inside, table[np.where(inside, codes, 0).astype(np.intp)], np.float32(default))
    return np.where(np.isnan(codes), np.float32(np.nan), values).astype(np.float32)
