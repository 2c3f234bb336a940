"""What all estimators do with X, s and random_state."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state
from torch import Tensor

from pucl.data import Kind
from pucl.data.own import OwnData
from pucl.data.own.arrays import as_array, dense
from pucl.data.own.batch import load
from pucl.data.own.texts import is_texts
from pucl.encoders.frozen.resolve import is_frozen
from pucl.errors import Described, InputError, bad_argument, users_line
from pucl.labels import check_labels, check_negatives
from pucl.models.schema import Schema, learn_schema
from pucl.texts import HASHED

FEWEST = 4  # rows: two labelled and two unlabelled, so that one of each can be held out


@dataclass(frozen=True)
class TrainingRows:
    """Training rows and their labels, checked.

    Attributes:
        schema: what the rows are, learnt from them.
        rows: as a model takes them.
        s: PU labels, True for labelled positives.
        negative: True for confirmed negatives; None without any.
        classes: what `predict` will return: 0 and 1, or −1 and 1 if s had those.
        content: the rows as they came, where a report shows them.
        ids: what the rows are called; None for their numbers.
    """

    schema: Schema
    rows: Tensor
    s: NDArray[np.bool_]
    negative: NDArray[np.bool_] | None
    classes: NDArray[np.int64]
    content: Any
    ids: Any

    @cached_property
    def features(self) -> Tensor:
        """The rows as an encoder takes them."""
        return self.schema.features(self.rows)


def observe(
    owner: str,
    x: Any,
    s: Any,
    *,
    kind: Kind | None,
    categorical: Any = (),
    text_columns: Any = (),
    text_encoder: str = HASHED,
    download: bool = False,
    negatives: Any = None,
) -> TrainingRows:
    """Check X, s and confirmed negatives together and learn the schema.

    `x` may be what `pucl.read` returned, which has its own s and its own negatives.
    """
    columns = {"categorical": categorical, "text_columns": text_columns, "text_encoder": text_encoder}
    columns["download"] = download
    if isinstance(x, OwnData):
        if s is not None and s is not x.s:
            raise bad_argument(
                owner, "s", "left out for data from pucl.read, which has its own", Described("two of them")
            )
        if negatives is not None and x.negative is not None:
            raise bad_argument(
                owner, "negatives", "left out for data from pucl.read, which has its own", Described("two of them")
            )
        negative = x.negative if negatives is None else check_negatives(negatives, x.s, len(x), owner)
        content = x.load()
        schema, rows = learn_schema(x, content=content, owner=owner, **columns)
        return TrainingRows(schema, rows, x.s, negative, np.array([0, 1]), content, x.ids)
    if s is None:
        raise bad_argument(owner, "s", "given (it requires y to be passed, but the target y is None)", None)
    x, s = as_input(owner, x), _vector(s)
    aligned(owner, x, s)
    if len(x) < FEWEST:
        raise bad_argument(owner, "X", f"at least {FEWEST} rows", Described(f"n_samples = {len(x)}"))
    labelled = check_labels(s, n_rows=len(x), owner=owner)
    aligned(owner, x, negatives, argument="negatives")
    negative = check_negatives(negatives, labelled, len(x), owner)
    schema, rows = learn_schema(x, kind=kind, owner=owner, **columns)
    table = load(schema.open(x)) if schema.kind == "table" else None
    index = x.index.tolist() if hasattr(x, "index") and not callable(x.index) else None
    return TrainingRows(schema, rows, labelled, negative, _classes(s), table, index)


def vectors_for(encoder: Any, tune: str | None, x: Any) -> Kind | None:
    """``"vector"`` for a matrix of numbers that a frozen encoder is to take; None where the rows themselves decide."""
    matrix = not isinstance(x, OwnData) and not hasattr(x, "columns") and getattr(x, "ndim", 0) == 2
    return "vector" if matrix and is_frozen(encoder, tune) else None


def refuse_weights(owner: str, keywords: Mapping[str, Any]) -> None:
    """Refuse ``sample_weight`` in plain words, and any other keyword as Python does.

    It is no named parameter of `fit`, because scikit-learn takes the name for a promise.
    """
    for name, value in keywords.items():
        if name != "sample_weight":
            raise TypeError(f"{owner}.fit() got an unexpected keyword argument {name!r}")
        if value is not None:
            allowed = (
                "left out: the share of positives, precision and recall are estimated by counting rows (draw rows in "
                "proportion to their weight instead)"
            )
            raise bad_argument(owner, name, allowed, Described("weights"))


def as_input(owner: str, x: Any) -> Any:
    """X as the readers take it: frames, tensors and texts as they are, anything else as an array of real numbers."""
    x = dense(owner, "X", x)
    if hasattr(x, "columns") or hasattr(x, "detach") or isinstance(x, OwnData) or is_texts(x):
        return x
    array = np.asarray(x)
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported; X must be real", owner=owner)
    if array.dtype == object:
        array = array.astype(np.float64)  # numpy's own error names what is not a number
    if array.ndim < 2:
        raise bad_argument(
            owner, "X", "of two dimensions or more", Described(f"shape {array.shape}. Reshape your data")
        )
    if array.ndim == 2 and array.shape[1] == 0:
        raise InputError(f"X has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.", owner=owner)
    return array


def as_matrix(owner: str, x: Any) -> NDArray[Any]:
    """Embeddings of any library as a numpy array (n, k)."""
    array: NDArray[Any] = x.to_numpy() if hasattr(x, "to_numpy") else as_array(as_input(owner, x))
    return array


def _vector(s: Any) -> Any:
    """A matrix of one column as a vector, with scikit-learn's warning for it."""
    if getattr(s, "ndim", 1) == 2 and s.shape[1] == 1:
        text = "A column-vector y was passed when a 1d array was expected: s is taken as a vector"
        warnings.warn(text, DataConversionWarning, stacklevel=users_line())
        return s.iloc[:, 0] if hasattr(s, "iloc") else s[:, 0]
    return s


def aligned(owner: str, x: Any, s: Any, *, argument: str = "s") -> None:
    """Refuse a frame and a Series whose index differs: their rows may not belong together."""
    both = hasattr(x, "iloc") and hasattr(s, "iloc")
    if both and len(x) == len(s) and not x.index.equals(s.index):
        raise bad_argument(owner, argument, "a Series with the index of X", Described("another index"))


def seed_of(owner: str, random_state: Any) -> int:
    """A seed from an int, a RandomState or None, as everywhere in scikit-learn."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise bad_argument(owner, "random_state", "a whole number ≥ 0, a RandomState or None", random_state) from None


def _classes(s: Any) -> NDArray[np.int64]:
    """What `predict` returns: −1 and 1 if s has these values, else 0 and 1."""
    values = as_array(s)
    return np.array([-1, 1]) if (values == -1).any() else np.array([0, 1])
