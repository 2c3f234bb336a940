"""Are P and U alike where the scores are highest? If not, negatives stand among the rows that look most positive."""

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.auc import auc
from pucl.ranking.averaging import rank_among
from pucl.ranking.bags import Bools, Floats, Rows
from pucl.ranking.logistic import fit_linear
from pucl.ranking.scaling import standardised
from pucl.ranking.trees import bag_of_trees

RECALL = 0.9  # of P, which the region of high scores holds
MAX_ROWS = 2000  # of P, and of U, in that region that are looked at
FEWEST = 10  # rows of P, and of U, below which nothing can be told
EFFECT, ERRORS = 0.1, 2.0  # by how much the AUC must exceed 1/2, and by how many standard errors
MIN_LEAF = 5
WIDE = 100  # columns above which extra trees, which look at all of them in every split, are left out


def told_apart(rows: Rows, score: Floats, labelled: Bools, *, seed: int = 0) -> bool:
    """Whether the score, or new models, tell P from U among the rows that score as high as nine tenths of P.

        R = {i : f_i ≥ c},   c so that P(f ≥ c | P) = 0.9
        told apart if  AUC of P ∩ R against U ∩ R  >  1/2 + max(0.1, 2σ)   by the score f or by new models

    If R held positives alone, P and U would be the same there (SCAR) and both AUCs 1/2. By the score: where positives
    shade into negatives, as in a class cut out of a count, the share of positives falls all the way down from the
    highest scores, and U lies lower in R than P (LOG.md). By new models: rankers of all rows learn mostly what sets R
    apart from the rest; models of R alone can see what sets negatives apart inside it. Their AUC is that of the mean
    rank by a logistic regression, bagged trees and, of few columns, extra trees, each on rows it did not see.

    Args:
        rows: finite features (n, d).
        score: of every row (n,), from models that did not see it.
        labelled: s, (n,).
        seed: of the folds and trees.
    """
    high = score >= np.quantile(score[labelled], 1 - RECALL, method="lower")
    draw = np.random.default_rng(seed)
    p, u = (_some(np.flatnonzero(high & kind), draw) for kind in (labelled, ~labelled))
    if min(len(p), len(u)) < FEWEST:
        return False
    if _differ(score[p], score[u]):
        return True
    x, s = rows[np.concatenate([p, u])], np.repeat([True, False], [len(p), len(u)])
    scores = [fit_linear(standardised(x)[0], s, seed=seed).score]
    kinds = (False, True) if x.shape[1] <= WIDE else (False,)
    scores += [bag_of_trees(x, s, min_leaf=MIN_LEAF, random_splits=extra, seed=seed).score for extra in kinds]
    rank = np.sum([rank_among(np.sort(each), each) for each in scores], axis=0)
    return _differ(rank[s], rank[~s])


def may_be_pure(p: Floats, u: Floats) -> bool:
    """Whether the scores of P and of U may be alike where nine tenths of P lie, as where there are positives alone.

    If U lies lower there than P by two standard errors of their AUC, negatives are among its rows.
    """
    cut = np.quantile(p, 1 - RECALL, method="lower")
    p, u = p[p >= cut], u[u >= cut]
    return min(len(p), len(u)) < FEWEST or not _differ(p, u, effect=0.0)


def _differ(p: Floats, u: Floats, effect: float = EFFECT) -> bool:
    """Whether P ranks clearly above U."""
    area, error = auc(p, u)
    return bool(area - 0.5 > max(effect, ERRORS * error))


def _some(rows: NDArray[np.intp], draw: np.random.Generator) -> NDArray[np.intp]:
    return rows if len(rows) <= MAX_ROWS else draw.choice(rows, MAX_ROWS, replace=False)
