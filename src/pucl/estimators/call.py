"""The call in Python that fits an estimator again."""

import inspect
from typing import Any

from sklearn.base import BaseEstimator

SIMPLE = (str, int, float, bool, type(None))


def call_of(
    estimator: BaseEstimator, *, s: Any, negatives: Any, seed: int, answers: Any = None, encoder: str | None = None
) -> str:
    """``PUClassifier(head='linear', random_state=0).fit(X, s)``: every parameter that is not the default, and the seed.

    What has no short form in Python, such as a network, is named by its type in angle brackets. `encoder` is the name
    of a frozen encoder, which has no folders of this machine in it.
    """
    name, defaults = type(estimator).__name__, inspect.signature(type(estimator)).parameters
    given = {**estimator.get_params(deep=False), "random_state": seed}
    if encoder is not None and isinstance(given["encoder"], str):
        given["encoder"] = encoder
    changed = {
        key: value for key, value in given.items() if key == "random_state" or not _same(value, defaults[key].default)
    }
    options = ", ".join(f"{key}={_written(value)}" for key, value in changed.items())
    labels = ["s"] if s is not None else []
    given_too = {"negatives": negatives, "answers": answers}
    known = [f"{name}={name}" for name, value in given_too.items() if value is not None]
    return f"pucl.{name}({options}).fit({', '.join(['X', *labels, *known])})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (*SIMPLE, list, tuple)) and _as_list(value) == _as_list(default))


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _written(value: Any) -> str:
    if isinstance(value, SIMPLE) or (
        isinstance(value, list | tuple) and all(isinstance(each, SIMPLE) for each in value)
    ):
        return repr(value)
    return f"<{type(value).__name__}>"
