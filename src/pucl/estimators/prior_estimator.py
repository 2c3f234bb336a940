"""PriorEstimator: the share of positives among the unlabelled rows, as an estimator."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from pucl.data.own.arrays import as_array
from pucl.errors import signed_by
from pucl.estimators.observed import aligned, refuse_weights, seed_of
from pucl.ranking.prior import estimate_prior

OWNER = "PriorEstimator"


class PriorEstimator(BaseEstimator):  # type: ignore[misc]
    """π from embeddings (n, k) or scores (n,); see `pucl.estimate_prior`.

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
        """Estimate π from embeddings or scores X with PU labels s and, if known, confirmed negatives."""
        refuse_weights(OWNER, keywords)
        aligned(OWNER, X, s)
        aligned(OWNER, X, negatives, argument="negatives")
        z = X.to_numpy() if hasattr(X, "to_numpy") else as_array(X)
        estimate = estimate_prior(
            z.astype(np.float64) if z.dtype.kind in "bui" else z, s, method=self.method, negatives=negatives,
            confidence=self.confidence, setting=self.setting, seed=seed_of(OWNER, self.random_state),
        )  # fmt: skip
        self.estimate_, self.prior_, self.method_ = estimate, estimate.value, estimate.method
        self.interval_, self.prior_is_bound_ = (estimate.low, estimate.high), estimate.is_bound
        return self
