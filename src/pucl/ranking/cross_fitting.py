"""Cross-fitting: a model of P against U on the rows outside each fold scores the fold; one on all rows is kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.ranking.bags import Bools, Floats, Rows, Unseen, score_unseen_folds
from pucl.ranking.rows import folds_of

FOLDS = 5
MAX_ROWS = 50_000  # of U that a model is fitted to
HEAVIEST = 10.0  # rows of U that a confirmed negative weighs at most


@dataclass(frozen=True)
class CrossFitted:
    """A model of all rows, the score of every row by a model of the other folds, (n,), and such a scorer of others."""

    model: Any
    score: Floats
    unseen: Unseen


def cross_fitted(
    x: Rows,
    labelled: Bools,
    fit: Callable[[Rows, Bools, Floats | None], Any],
    score: Callable[[Any, Rows], Floats],
    *,
    seed: int,
    negative: Bools | None = None,
) -> CrossFitted:
    """Scores out of fold, and the model of all rows; of U at most `MAX_ROWS` rows are fitted to, all are scored.

    `fit` gets rows, s and, where there are confirmed negatives, the weights of `weights_within`.
    """
    known = None if negative is None else torch.from_numpy(negative)
    fold = folds_of("pucl.ranking.cross_fitted", torch.from_numpy(labelled), FOLDS, seed, known).numpy()
    used = _some(labelled, negative, seed)
    out, models = np.empty(len(x)), []
    for k in range(int(fold.max()) + 1):
        rows, here = used[fold[used] != k], fold == k
        models.append(fit(x[rows], labelled[rows], weights_within(negative, labelled, rows)))
        out[here] = score(models[k], x[here])

    def unseen(numbers: NDArray[np.intp], rows: Rows) -> Floats:
        return score_unseen_folds(numbers, rows, fold, lambda k, part: score(models[k], part))

    return CrossFitted(fit(x[used], labelled[used], weights_within(negative, labelled, used)), out, unseen)


def weights_within(negative: Bools | None, labelled: Bools, rows: NDArray[np.intp]) -> Floats | None:
    """Weights of some rows, by their numbers; None without confirmed negatives.

    Rows of P have weight 1. All confirmed negatives together weigh as much as all rows of U, but none more than
    `HEAVIEST` rows of U, and the mean over both kinds is 1.
    """
    if negative is None:
        return None
    known, free = negative[rows], ~(labelled | negative)[rows]
    ratio = min(HEAVIEST, max(1.0, free.sum() / max(1, known.sum())))
    weight = np.where(known, ratio, 1.0)
    others = known | free
    weight[others] /= weight[others].mean() if others.any() else 1.0
    return np.asarray(weight)


def _some(labelled: Bools, negative: Bools | None, seed: int) -> Any:
    """The numbers of the rows that are fitted to, in order: all of P and of the confirmed negatives, some of U."""
    known = labelled if negative is None else labelled | negative
    u = np.flatnonzero(~known)
    if len(u) > MAX_ROWS:
        u = np.random.default_rng(seed).choice(u, MAX_ROWS, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(known), u]))
