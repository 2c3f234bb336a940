"""What the classifiers share: probabilities, classes and one meaning of `score`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.errors import InputError, bad_argument, check_count
from pucl.labels import check_labels
from pucl.numerics.auc import auc


class Decisions:
    """Classes, probabilities and the PU-AUC from `decision_function` and `classes_`."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Scores (n,): positive above 0."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities (n, 2) of being negative and of being positive: the sigmoid of the scores.

        Where π is only bounded (``prior_is_bound_``), they order the rows and are no probabilities.
        """
        positive = torch.sigmoid(torch.from_numpy(self.decision_function(X))).numpy()
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """One of `classes_` for every row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def top(self, X: Any, k: int) -> NDArray[np.intp]:  # noqa: N803
        """The numbers of the k best rows, best first, equals in their order; needs no threshold and no π."""
        owner = type(self).__name__
        check_count(owner, "k", k)
        scores = self.decision_function(X)
        if k > len(scores):
            raise bad_argument(owner, "k", f"at most the number of rows, {len(scores):,}", k)
        return np.argsort(-scores, kind="stable")[:k]

    def score(self, X: Any, s: Any) -> float:  # noqa: N803
        """PU-AUC: the chance that a labelled positive scores above an unlabelled row.

            AUC_PU = (1 − π) AUC + π/2

        where AUC is that of positives against negatives and π the share of positives among the unlabelled rows. It
        needs neither negatives nor π, and ranks classifiers as AUC does; a perfect classifier has 1 − π/2. Use rows
        that did not train the classifier. `score_report` estimates accuracy, AUC, precision and recall, given π.
        """
        scores = self.decision_function(X)
        labelled = check_labels(s, n_rows=len(scores), owner=type(self).__name__)
        return auc(scores[labelled], scores[~labelled])[0]


def check_width(owner: str, x: Any, width: int | None) -> None:
    """Refuse a matrix with another number of columns than in training, in scikit-learn's words."""
    if width is not None and getattr(x, "ndim", 0) == 2 and not hasattr(x, "columns") and x.shape[1] != width:
        raise InputError(f"X has {x.shape[1]} features, but {owner} is expecting {width} features as input")
