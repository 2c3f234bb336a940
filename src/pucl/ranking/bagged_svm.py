"""bagged_svm: support vector machines with a Gaussian kernel on balanced bags of P and U, judged out of bag."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.ranking import Ranking
from pucl.ranking.bags import Bools, Floats, Rows
from pucl.ranking.columns import as_arrays, ranking_of_scores
from pucl.ranking.scaling import standardised
from pucl.registry import register

OWNER = "bagged_svm"
BAGS, HIDDEN_FOLDS = 15, 5
MAX_IN_BAG = 400  # rows of P, and of U
PIECE = 1 << 24  # values of the kernel held at a time


@register("rankers", reference="Mordelet and Vert 2014")
def bagged_svm(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    c: float = 1.0,
    n_bags: int = BAGS,
) -> Ranking:
    """The mean decision of machines whose bag did not hold the row.

        f_b(x) = Σ_i a_i exp(−‖x − x_i‖² / d) + b

    where rows are standardised and have d columns, and x_i are the support vectors of bag b. Every bag leaves out a
    fifth of P in turn, and takes as many rows of U as it has of P, at most 400 of either.

    Args:
        z: rows (n, d), finite.
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool.
        seed: of the bags.
        c: C, the cost of a row on the wrong side.
        n_bags: how many machines, at least five.
    """
    check_positive(OWNER, "c", c)
    check_count(OWNER, "n_bags", n_bags, low=HIDDEN_FOLDS)
    rows, s, known = as_arrays(OWNER, z, labelled, (), negative)
    _, score = fit_bagged_svm(standardised(rows)[0], s, c=c, n_bags=n_bags, seed=seed, negative=known)
    return ranking_of_scores(OWNER, score, z, labelled, negative, prior)


def fit_bagged_svm(
    x: Rows, labelled: Bools, *, c: float, seed: int, n_bags: int = BAGS, negative: Bools | None = None
) -> tuple[list[SVC], Floats]:
    """The machines of standardised rows, and the mean decision for every row of those that never saw it, (n,)."""
    draw = np.random.default_rng(seed)
    p, u = draw.permutation(np.flatnonzero(labelled)), np.flatnonzero(~labelled)
    folds = min(HIDDEN_FOLDS, len(p))
    total, count = np.zeros(len(x)), np.zeros(len(x))
    machines = []
    for b in range(n_bags):
        shown = p[np.arange(len(p)) % folds != b % folds]
        m = min(len(shown), len(u) - 1, MAX_IN_BAG)
        against = draw.choice(u, m, replace=False, p=_chances(u, negative))
        rows = np.concatenate([draw.choice(shown, m, replace=False), against])
        machine = SVC(C=c, gamma=1 / x.shape[1]).fit(x[rows], labelled[rows])
        outside = np.ones(len(x), dtype=bool)
        outside[rows] = False
        total[outside] += decisions(machine, x[outside])
        count += outside
        machines.append(machine)
    return machines, total / np.maximum(count, 1)


def decisions(machine: Any, x: Rows) -> Floats:
    """The decision function of a machine on rows (n, d), through one product of matrices."""
    vectors = machine.support_vectors_.astype(np.float32)
    weight, length = machine.dual_coef_[0].astype(np.float32), (vectors**2).sum(axis=1)
    gamma = 1 / x.shape[1]
    out = np.empty(len(x))
    step = max(1, PIECE // len(vectors))
    for start in range(0, len(x), step):
        part = x[start : start + step]
        distance = (part**2).sum(axis=1)[:, None] + length - 2 * part @ vectors.T
        out[start : start + step] = np.exp(-gamma * distance) @ weight
    return out + float(machine.intercept_[0])


def _chances(u: NDArray[np.intp], negative: Bools | None) -> NDArray[np.float64] | None:
    """Confirmed negatives are drawn as often in all as the other rows, but none more than ten times as often."""
    if negative is None:
        return None
    known = negative[u]
    weight = np.where(known, min(10.0, max(1.0, (~known).sum() / max(1, known.sum()))), 1.0)
    return np.asarray(weight / weight.sum())
