"""PseudoLabeller: pseudo-labels of embeddings, as an estimator."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from pucl.errors import signed_by
from pucl.estimators.observed import aligned, as_matrix, refuse_weights, seed_of
from pucl.pseudo_labels import pseudo_label

OWNER = "PseudoLabeller"


class PseudoLabeller(BaseEstimator):  # type: ignore[misc]
    """A label, a probability and a reliability for every row of an embedding; see `pucl.pseudo_label`.

    It labels the rows it is fitted to and no others: for new rows fit a head on its labels, or use `PUClassifier`.

    Attributes: `labels_` (n,) bool, `probability_`, `reliability_` (n,), `prior_`.
    """

    def __init__(self, method: str = "auto", *, prior: float | None = None, random_state: Any = None) -> None:
        self.method = method
        self.prior = prior
        self.random_state = random_state

    @signed_by(OWNER)
    def fit(self, X: Any, s: Any, negatives: Any = None, **keywords: Any) -> Self:  # noqa: N803
        """Label the rows of embeddings X (n, k) with PU labels s and, if known, confirmed negatives."""
        refuse_weights(OWNER, keywords)
        aligned(OWNER, X, s)
        aligned(OWNER, X, negatives, argument="negatives")
        z = as_matrix(OWNER, X)
        z = z.astype(np.float32) if z.dtype.kind in "buif" and z.dtype != np.float64 else z
        seed = seed_of(OWNER, self.random_state)
        pseudo = pseudo_label(z, s, method=self.method, prior=self.prior, negatives=negatives, seed=seed)
        self.labels_, self.probability_ = pseudo.labels.numpy(), pseudo.probability.numpy()
        self.reliability_, self.prior_ = pseudo.reliability.numpy(), pseudo.prior
        return self

    @signed_by(OWNER)
    def fit_predict(self, X: Any, s: Any, negatives: Any = None) -> NDArray[np.bool_]:  # noqa: N803
        """The labels of the rows."""
        return self.fit(X, s, negatives).labels_
