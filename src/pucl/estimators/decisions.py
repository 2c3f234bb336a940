"""What the classifiers do alike with the scores they give."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.errors import InputError


class Decisions:
    """Classes and probabilities from `decision_function` and `classes_`."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Scores (n,): positive above 0."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The sigmoid of the scores, (n, 2): of being no positive and of being one."""
        positive = torch.sigmoid(torch.from_numpy(self.decision_function(X))).numpy()
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """One of `classes_` for every row."""
        found = self.decision_function(X) > 0
        return np.asarray(self.classes_[found.astype(int)])


def check_width(owner: str, x: Any, width: int | None) -> None:
    """A matrix has as many columns as the one it was fitted with, in the words scikit-learn has for it."""
    if width is not None and getattr(x, "ndim", 0) == 2 and not hasattr(x, "columns") and x.shape[1] != width:
        raise InputError(f"X has {x.shape[1]} features, but {owner} is expecting {width} features as input")
