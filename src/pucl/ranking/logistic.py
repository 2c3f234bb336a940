"""logistic: a logistic regression of P against U, both of the same weight, out of fold."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from pucl.errors import check_positive
from pucl.ranking import Ranking
from pucl.ranking.bags import Bools, Floats, Rows
from pucl.ranking.columns import as_arrays, ranking_of_scores
from pucl.ranking.cross_fitting import CrossFitted, cross_fitted
from pucl.ranking.scaling import standardised
from pucl.registry import register

OWNER = "logistic"
C = 0.05  # by default: a strong ridge, because U is no clean negative class
MAX_ITER = 300
SMALL = 1 << 23  # numbers up to which threads of the products cost more than they save


@register("rankers", reference="Lee and Liu 2003")
def logistic(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    c: float = C,
) -> Ranking:
    """A linear score of standardised rows, from models that did not see the row.

        w, b = argmin  Σ_i a_i CE(σ(w · x_i + b), s_i) + ‖w‖² / 2C

    where a gives P and all other rows the same weight in all, and confirmed negatives more than rows of U, see
    `weights_within`.

    Args:
        z: rows (n, c), finite.
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool.
        seed: of the folds.
        c: C, a smaller one is a stronger ridge.
    """
    check_positive(OWNER, "c", c)
    rows, s, known = as_arrays(OWNER, z, labelled, (), negative)
    score = fit_linear(standardised(rows)[0], s, c=c, seed=seed, negative=known).score
    return ranking_of_scores(OWNER, score, z, labelled, negative, prior)


def fit_linear(x: Rows, labelled: Bools, *, c: float = C, seed: int = 0, negative: Bools | None = None) -> CrossFitted:
    """The regression of standardised rows; its model has `coef_` (1, d) and `intercept_` (1,)."""

    def fit(rows: Rows, s: Bools, weight: Floats | None) -> LogisticRegression:
        model = LogisticRegression(C=c, class_weight="balanced", max_iter=MAX_ITER, tol=1e-3)
        return model.fit(rows, s, sample_weight=weight)

    def score(model: LogisticRegression, rows: Rows) -> Floats:
        return np.asarray(model.decision_function(rows), dtype=np.float64)

    with threadpool_limits(1 if x.size <= SMALL else None, user_api="blas"):  # once: it reads what libraries are loaded
        return cross_fitted(x, labelled, fit, score, seed=seed, negative=negative)
