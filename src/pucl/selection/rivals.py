"""Rivals: what one column, or the nearest labelled row, would do in the place of a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument, check_count
from pucl.labels import check_labels, check_negatives
from pucl.numerics.auc import Floats, ranks
from pucl.selection.scores import unlabelled_rows

OWNER = "pucl.selection.simple_rivals"
MOST_ROWS = 5000  # that are scored; more would not change a comparison
FOLDS = 5
NEAREST = "the nearest labelled row"


def simple_rivals(
    columns: Any,
    s: Any,
    *,
    names: Sequence[str] | None = None,
    judged: NDArray[np.bool_] | None = None,
    one_column: bool = True,
    seed: int = 0,
    negatives: Any = None,
) -> dict[str, Floats]:
    """Scores of rows by the simplest means there are, none of which has seen the label of the row it scores.

    - *One column*: its value, or minus its value. Column and sign are those with the largest difference in mean rank
      between P and U on the other folds; a missing value counts as the median.
    - *The nearest labelled row*: minus the distance to it, other than the row itself, in standardised columns; a
      missing value counts as the mean.

    At most MOST_ROWS rows are scored, half of them labelled, the judged ones first; the others have NaN.

    Args:
        columns: (n, c) numbers, NaN where missing.
        s: PU labels (n,).
        names: of the columns, for the names of the rivals; their numbers when not given.
        judged: rows to score first, those that the model is judged on, (n,) bool.
        one_column: whether one column is a sensible rival; a pixel is not.
        seed: of the choice of rows and of the folds.
        negatives: confirmed negatives, a mask (n,) or row numbers; they are no part of U and are not scored.

    Returns:
        Scores (n,) by name: "column 'x' alone" and "the nearest labelled row"; none where fewer than two labelled or
        two unlabelled rows are known.
    """
    values = np.asarray(columns)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise bad_argument(OWNER, "columns", "a matrix of numbers", Described(f"{values.dtype} of {values.shape}"))
    labelled = check_labels(s, n_rows=len(values), owner=OWNER)
    check_count(OWNER, "seed", seed, low=0)
    rng = np.random.default_rng(seed)
    negative = check_negatives(negatives, labelled, len(values), OWNER)
    rows = _sample(labelled, unlabelled_rows(labelled, negative), judged, rng)
    x, known = values[rows].astype(np.float64), labelled[rows]
    if min(known.sum(), (~known).sum()) < 2 or not x.shape[1]:
        return {}
    scores = {NEAREST: _nearest(x, known)}
    if one_column:
        column, by_column = _best_column(x, known, rng)
        scores = {f"column {column if names is None else names[column]!r} alone": by_column, **scores}
    return {name: _at_rows(score, rows, len(values)) for name, score in scores.items()}


def _sample(
    labelled: NDArray[np.bool_],
    unlabelled: NDArray[np.bool_],
    judged: NDArray[np.bool_] | None,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """The numbers of the rows that are scored, in order."""
    first = np.zeros(len(labelled), bool) if judged is None else judged
    p, u = (_drawn(kind & first, kind & ~first, rng) for kind in (labelled, unlabelled))
    n_p = min(len(p), max(MOST_ROWS // 2, MOST_ROWS - len(u)))
    return np.sort(np.concatenate([p[:n_p], u[: MOST_ROWS - n_p]]))


def _drawn(first: NDArray[np.bool_], then: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.intp]:
    return np.concatenate([rng.permutation(np.flatnonzero(part)) for part in (first, then)])


def _best_column(x: Floats, labelled: NDArray[np.bool_], rng: np.random.Generator) -> tuple[int, Floats]:
    """The column that most folds take, and the score of every row by the column that the other folds take."""
    filled = np.where(np.isfinite(x), x, _by_column(x, np.nanmedian))
    ranked = np.stack([ranks(column) for column in filled.T], axis=1) / len(x)
    fold, score, taken = _folds(labelled, rng), np.empty(len(x)), []
    for k in range(FOLDS):
        others = fold != k
        gap = ranked[others & labelled].mean(axis=0) - ranked[others & ~labelled].mean(axis=0)
        column = int(np.abs(gap).argmax())
        sign = 1.0 if gap[column] >= 0 else -1.0
        score[~others] = sign * (ranked[~others, column] - 0.5)
        taken.append(column)
    return int(np.bincount(taken).argmax()), score


def _folds(labelled: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """A fold for every row, P and U dealt out evenly."""
    fold = np.empty(len(labelled), np.int64)
    for kind in (labelled, ~labelled):
        fold[kind] = rng.permutation(int(kind.sum())) % FOLDS
    return fold


def _nearest(x: Floats, labelled: NDArray[np.bool_]) -> Floats:
    """Minus the distance to the nearest labelled row other than the row itself."""
    spread = _by_column(x, np.nanstd)
    z = np.nan_to_num((x - _by_column(x, np.nanmean)) / np.where(spread > 0, spread, 1.0), posinf=0.0, neginf=0.0)
    z = z.astype(np.float32)
    known = z[labelled]
    squared = (z**2).sum(axis=1)[:, None] + (known**2).sum(axis=1) - 2 * z @ known.T
    squared[np.flatnonzero(labelled), np.arange(len(known))] = np.inf
    return np.asarray(-squared.min(axis=1), np.float64)


def _by_column(x: Floats, of: Any) -> Floats:
    """A statistic (mean, median, spread) of the finite values of every column; 0 where there are none."""
    finite = np.where(np.isfinite(x), x, np.nan)
    empty = np.isnan(finite).all(axis=0)
    finite[:, empty] = 0.0
    return np.asarray(of(finite, axis=0))


def _at_rows(score: Floats, rows: NDArray[np.intp], n: int) -> Floats:
    """The scores at their rows among all n, NaN elsewhere."""
    every = np.full(n, np.nan)
    every[rows] = score
    return every
