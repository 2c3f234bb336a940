"""Two Gaussian classes, a quick classifier, and the checks of scikit-learn that do not apply to PU labels."""

import warnings
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import sklearn
from sklearn.utils import estimator_checks

from pucl import PUClassifier

Array = np.ndarray[Any, np.dtype[Any]]
S_IS_NO_CLASS = (
    "s says which rows are labelled: it is 0 and 1 (or −1 and 1), both there, and errors say so in our words"
)
S_IS_CALLED_S = "the second argument is called s, since it is not the truth y"
EXPECTED = {
    "check_fit_score_takes_y": S_IS_CALLED_S,
    "check_n_features_in_after_fitting": S_IS_CALLED_S,  # calls score(X, y=y); the other methods are tested below
    "check_estimators_dtypes": S_IS_NO_CLASS,
    "check_classifier_data_not_an_array": S_IS_NO_CLASS,
    "check_classifiers_one_label": S_IS_NO_CLASS,
    "check_classifiers_classes": S_IS_NO_CLASS,
    "check_classifiers_regression_target": S_IS_NO_CLASS,
    "check_classifier_not_supporting_multiclass": S_IS_NO_CLASS,
    "check_fit2d_1feature": S_IS_NO_CLASS,
}


def contract(estimator: Any) -> list[dict[str, Any]]:
    """What came of every check that scikit-learn has for an estimator, those of `EXPECTED` as "xfail"."""
    older = sklearn.__version__.startswith("1.6.")  # its checks may give binary classifiers 1 and 2 for labels
    labels = mock.patch.object(estimator_checks, "_enforce_estimator_tags_y", _zero_and_one)
    with warnings.catch_warnings(), labels if older else nullcontext():
        warnings.simplefilter("ignore")  # checks feed constant columns and few rows on purpose
        found: list[dict[str, Any]] = estimator_checks.check_estimator(
            estimator, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None
        )
    return found


def _zero_and_one(_: Any, y: Array) -> Array:
    """As scikit-learn 1.7 does for a binary classifier."""
    return np.where(y == y.min(), y, y.min() + 1) if y.size else y


def gaussians(n: int = 300, dim: int = 5, seed: int = 0) -> tuple[Array, Array, Array]:
    """Two classes 4 apart, a third of the positives labelled: x, s, truth."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    x = rng.standard_normal((n, dim)) + 4 / dim**0.5 * y[:, None]
    return x, (y & (rng.random(n) < 1 / 3)).astype(int), y


def quick(**how: Any) -> PUClassifier:
    return PUClassifier(**{"encoder": "raw", "labeller": "cvir", "head": "linear", "random_state": 0, **how})
