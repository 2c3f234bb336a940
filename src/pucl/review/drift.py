"""Drift: do new rows look like the old ones? The AUC of a classifier that tells them apart, on rows it did not see."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.auc import auc
from pucl.ranking.averaging import rank_among
from pucl.ranking.bags import Bools, Rows
from pucl.ranking.logistic import fit_linear
from pucl.ranking.scaling import standardised
from pucl.ranking.trees import bag_of_trees

FEWEST, MOST = 20, 2000  # new rows, and old rows, that are needed and that are looked at
TREES, MIN_LEAF = 60, 10
EFFECT, ERRORS = 0.05, 3.0  # by how much the AUC must exceed 1/2, and by how many standard errors
STRONG = 0.75  # AUC from which the difference is called strong


@dataclass(frozen=True)
class Drift:
    """How well new rows can be told from old ones.

    Attributes:
        auc: 0.5 where they are alike, 1 where they can be told apart for certain.
        error: its standard error.
        n_new: how many new rows there are.
        n_old: how many old ones.
    """

    auc: float
    error: float
    n_new: int
    n_old: int

    @property
    def found(self) -> bool:
        """Whether the rows differ by more than noise."""
        return self.auc - 0.5 > max(EFFECT, ERRORS * self.error)

    def __str__(self) -> str:
        figure = f"AUC {self.auc:.2f} ± {self.error:.2f}; 0.5 means alike"
        kinds = f"The {self.n_new:,} new rows"
        if not self.found:
            return f"{kinds} look like the {self.n_old:,} old ones ({figure})."
        word = "differ strongly" if self.auc >= STRONG else "differ"
        told = "what was estimated on the old rows may not hold for them; label some of them, too"
        return f"{kinds} {word} from the {self.n_old:,} old ones ({figure}): {told}."


def drift(rows: Rows, new: Bools, *, seed: int = 0) -> Drift | None:
    """Whether new models tell new rows from old ones; None where fewer than `FEWEST` are new or old.

        AUC of r_i, new against old, with r = (rank by a logistic regression + rank by bagged trees) / 2

    both by models that did not see the row. At most `MOST` rows of either kind are looked at.

    Args:
        rows: finite features (n, d).
        new: which rows are new, (n,).
        seed: of what is drawn.
    """
    draw = np.random.default_rng(seed)
    kinds = [np.flatnonzero(kind) for kind in (new, ~new)]
    if min(map(len, kinds)) < FEWEST:
        return None
    some = [np.sort(draw.permutation(kind)[:MOST]) for kind in kinds]
    x = np.ascontiguousarray(rows[np.concatenate(some)], dtype=np.float32)
    label = np.repeat([True, False], [len(kind) for kind in some])
    scores = [
        fit_linear(standardised(x)[0], label, seed=seed).score,
        bag_of_trees(x, label, min_leaf=MIN_LEAF, n_trees=TREES, seed=seed).score,
    ]
    rank: NDArray[np.float64] = np.sum([rank_among(np.sort(score), score) for score in scores], axis=0)
    area, error = auc(rank[label], rank[~label])
    return Drift(float(area), float(error), len(kinds[0]), len(kinds[1]))
