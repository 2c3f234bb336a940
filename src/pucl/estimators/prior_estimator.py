"""PriorEstimator: the share of positives among the unlabelled rows, as an estimator."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from pucl.data.own.arrays import as_array
from pucl.data.own.texts import is_texts
from pucl.errors import signed_by
from pucl.estimators.observed import aligned, observe, refuse_weights, seed_of
from pucl.fitting.average import prior_of_rows
from pucl.fitting.plan import AUTO
from pucl.ranking.prior import CONFIDENCE, estimate_prior

OWNER = "PriorEstimator"


class PriorEstimator(BaseEstimator):  # type: ignore[misc]
    """π from a table, embeddings (n, k) or scores (n,); see `pucl.estimate_prior`.

    Of rows ``method="auto"`` says exactly what `PUClassifier` says, of categories, dates, texts and gaps as well. Other
    methods take numbers.

    Attributes: `prior_`, `interval_` (low, high), `prior_is_bound_` (whether the data only say that π is at most
    `prior_`), `method_`, and `estimate_` with all of them.
    """

    def __init__(
        self, method: str = "auto", *, confidence: float = 0.9, setting: str = "case-control", random_state: Any = None
    ) -> None:
        self.method = method
        self.confidence = confidence
        self.setting = setting
        self.random_state = random_state

    @signed_by(OWNER)
    def fit(self, X: Any, s: Any, negatives: Any = None, **keywords: Any) -> Self:  # noqa: N803
        """Estimate π from rows or scores X with PU labels s and, if known, confirmed negatives."""
        refuse_weights(OWNER, keywords)
        aligned(OWNER, X, s)
        aligned(OWNER, X, negatives, argument="negatives")
        seed = seed_of(OWNER, self.random_state)
        if self.method == AUTO and self.confidence == CONFIDENCE and _are_rows(X):
            seen = observe(OWNER, X, s, kind=None, negatives=negatives)
            estimate = prior_of_rows(seen.schema, seen.rows, seen.s, seen.negative, seed=seed)
        else:
            z = X.to_numpy() if hasattr(X, "to_numpy") else as_array(X)
            estimate = estimate_prior(
                z.astype(np.float64) if z.dtype.kind in "bui" else z, s, method=self.method, negatives=negatives,
                confidence=self.confidence, setting=self.setting, seed=seed,
            )  # fmt: skip
        self.estimate_, self.prior_, self.method_ = estimate, estimate.value, estimate.method
        self.interval_, self.prior_is_bound_ = (estimate.low, estimate.high), estimate.is_bound
        return self


def _are_rows(x: Any) -> bool:
    """Whether X holds rows rather than one score each."""
    return is_texts(x) or hasattr(x, "columns") or len(np.shape(x)) == 2
