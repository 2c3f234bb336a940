"""Cross-fitting: a model of P against U on the rows outside each fold scores the fold; one on all rows is kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pucl.numerics.logistic import stratified_folds
from pucl.ranking.bags import Bools, Floats, Rows

FOLDS = 5
MAX_ROWS = 50_000  # of U that a model is fitted to


@dataclass(frozen=True)
class CrossFitted:
    """A model of all rows, and the score of every row by a model of the other folds, (n,)."""

    model: Any
    score: Floats


def cross_fitted(
    x: Rows,
    labelled: Bools,
    fit: Callable[[Rows, Bools], Any],
    score: Callable[[Any, Rows], Floats],
    *,
    seed: int,
) -> CrossFitted:
    """Scores out of fold, and the model of all rows; of U at most `MAX_ROWS` rows are fitted to, all are scored."""
    folds = min(FOLDS, int(labelled.sum()), int((~labelled).sum()))
    fold = stratified_folds(torch.from_numpy(labelled), folds, seed).numpy()
    used = _some(labelled, seed)
    out = np.empty(len(x))
    for k in range(folds):
        rows, here = used[fold[used] != k], fold == k
        out[here] = score(fit(x[rows], labelled[rows]), x[here])
    return CrossFitted(fit(x[used], labelled[used]), out)


def _some(labelled: Bools, seed: int) -> Any:
    u = np.flatnonzero(~labelled)
    if len(u) > MAX_ROWS:
        u = np.random.default_rng(seed).choice(u, MAX_ROWS, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(labelled), u]))
