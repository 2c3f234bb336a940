"""The PU contract: s is 1 for a labelled positive and 0 for an unlabelled row; nothing else is ever observed.

The truth y exists only for metrics and benchmarks. The class prior π always means the share of positives *inside the
unlabelled set*, whatever the sampling setting.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument

ALLOWED = "1 (labelled positive) and 0 (unlabelled), as bool, {0, 1} or {-1, 1}"


def check_labels(s: Any, *, n_rows: int | None = None, owner: str = "pucl") -> NDArray[np.bool_]:
    """PU labels as a boolean vector, or one clear error.

    Accepts lists, numpy arrays, torch tensors and pandas or polars series holding bool, {0, 1} or {-1, 1}. Refuses any
    other value, missing values, a wrong length, and labels without a positive or without an unlabelled row.
    """
    observed = as_labels(s, n_rows=n_rows, owner=owner)
    if not observed.any():
        raise bad_argument(owner, "s", "0 or 1, with at least one labelled positive", Described("no positive"))
    if observed.all():
        raise bad_argument(owner, "s", "0 or 1, with at least one unlabelled row", Described("only positives"))
    return observed


def as_labels(s: Any, *, n_rows: int | None = None, owner: str = "pucl") -> NDArray[np.bool_]:
    """Like `check_labels`, but positives or unlabelled rows may be absent, as in a small batch."""
    raw = _as_array(s)
    if raw.ndim != 1:
        raise bad_argument(owner, "s", "a vector", Described(f"an array of shape {raw.shape}"))
    if n_rows is not None and len(raw) != n_rows:
        raise bad_argument(owner, "s", f"of length {n_rows}, one label per row", Described(f"length {len(raw)}"))
    if raw.dtype.kind not in "biuf":
        odd = next((v for v in raw.tolist() if isinstance(v, str) or v is None), raw.dtype)
        raise bad_argument(owner, "s", ALLOWED, odd)
    if raw.dtype.kind == "f" and np.isnan(raw).any():
        raise bad_argument(owner, "s", ALLOWED, Described(f"NaN at row {int(np.isnan(raw).argmax())}"))
    values = set(np.unique(raw).tolist())
    if not (values <= {0, 1} or values <= {-1, 1}):
        raise bad_argument(owner, "s", ALLOWED, Described(f"the values {sorted(values)}"))
    return np.asarray(raw == 1)


def _as_array(s: Any) -> NDArray[Any]:
    """The labels of any library as an array; numpy infers the type of an array of objects from its values."""
    if hasattr(s, "detach"):  # a torch tensor; numpy does not know all of its floating types
        s = s.detach().cpu()
        s = (s.double() if s.is_floating_point() else s).numpy()
    elif hasattr(s, "to_numpy"):
        s = s.to_numpy()
    if isinstance(s, np.ndarray) and s.dtype != object:
        return s
    return np.asarray(s.tolist() if hasattr(s, "tolist") else list(s) if hasattr(s, "__iter__") else s)
