"""The PU contract: s is 1 for a labelled positive and 0 for an unlabelled row.

Rows that somebody has confirmed to be negative are no value of s. They come through an argument of their own,
`negatives`, and U is then what is neither labelled positive nor confirmed negative.

Answers of reviewers to rows that a model picked come through `answers`. They are no random sample, so such rows stay
part of U wherever rows are counted (π, scores, thresholds); they train rankers and heads.

The truth y exists only for metrics and benchmarks. The class prior π always means the share of positives *inside the
unlabelled set*, whatever the sampling setting.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument

if TYPE_CHECKING:
    from torch import Tensor

FEWEST_UNLABELLED = 2  # that confirmed negatives have to leave, so that one can be held out
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


def batch_labels(s: Any, *, n_rows: int, owner: str = "pucl") -> "Tensor":
    """PU labels of a batch as a bool tensor (n,).

    A bool tensor is taken as it is, so that nobody waits for a GPU. Under `torch.compile` the values of others are not
    looked at.
    """
    import torch

    if (
        isinstance(s, torch.Tensor)
        and s.shape == (n_rows,)
        and (s.dtype == torch.bool or torch.compiler.is_compiling())
    ):
        return s if s.dtype == torch.bool else s == 1
    return torch.from_numpy(as_labels(s, n_rows=n_rows, owner=owner))


def check_negatives(
    negatives: Any, labelled: NDArray[np.bool_], n_rows: int, owner: str = "pucl"
) -> NDArray[np.bool_] | None:
    """Confirmed negatives as a boolean vector, None where there are none, or one clear error.

    Args:
        negatives: a mask (n,) of bool or {0, 1}, or a list of row numbers from 0; None for none.
        labelled: s, (n,) bool.
        n_rows: n.
        owner: who signs the errors.
    """
    if negatives is None:
        return None
    mask = _as_mask(_as_array(negatives), n_rows, owner)
    both = mask & labelled
    if both.any():
        got = Described(f"row {int(both.argmax())}, which is labelled positive")
        raise bad_argument(owner, "negatives", "rows that are not labelled positive", got)
    left = n_rows - int(labelled.sum()) - int(mask.sum())
    if left < FEWEST_UNLABELLED:
        allowed = f"few enough to leave {FEWEST_UNLABELLED} unlabelled rows or more"
        raise bad_argument(owner, "negatives", allowed, Described(f"{int(mask.sum())}, which leave {left}"))
    return mask if mask.any() else None


def check_answers(
    answers: Any,
    labelled: NDArray[np.bool_],
    negative: NDArray[np.bool_] | None,
    n_rows: int,
    owner: str = "pucl",
) -> NDArray[np.int8] | None:
    """What reviewers said of rows that a model had picked: 1, −1 or 0 for no answer, (n,); None without any answer.

    Rows whose label is known keep it: their answers are left out.

    Args:
        answers: 1 (positive), 0 (negative) or NaN (no answer), (n,); None for none.
        labelled: s, (n,) bool.
        negative: confirmed negatives, (n,) bool.
        n_rows: n.
        owner: who signs the errors.
    """
    if answers is None:
        return None
    raw, allowed = _as_array(answers), f"a vector of length {n_rows} of 1 (positive), 0 (negative) and NaN (no answer)"
    if raw.dtype == object and all(value is None or isinstance(value, bool | int | float) for value in raw.tolist()):
        raw = np.array([np.nan if value is None else float(value) for value in raw.tolist()])
    if raw.shape != (n_rows,) or raw.dtype.kind not in "biuf":
        got = Described(f"an array of shape {raw.shape} and type {raw.dtype}")
        raise bad_argument(owner, "answers", allowed, got)
    known = np.isnan(raw) if raw.dtype.kind == "f" else np.zeros(n_rows, dtype=bool)
    odd = ~known & (raw != 0) & (raw != 1)
    if odd.any():
        raise bad_argument(owner, "answers", allowed, Described(f"{raw[odd.argmax()]} at row {int(odd.argmax())}"))
    said = np.where(known, 0, np.where(raw == 1, 1, -1)).astype(np.int8)
    said[labelled if negative is None else labelled | negative] = 0
    left = n_rows - int(((said != 0) | labelled | (False if negative is None else negative)).sum())
    if left < FEWEST_UNLABELLED:
        few = f"few enough to leave {FEWEST_UNLABELLED} rows or more without label and answer"
        raise bad_argument(owner, "answers", few, Described(f"{int((said != 0).sum())}, which leave {left}"))
    return said if said.any() else None


def _as_mask(raw: NDArray[Any], n_rows: int, owner: str) -> NDArray[np.bool_]:
    """A mask of bool or {0, 1}, or row numbers, as a mask. Numbers 0 and 1 of full length are a mask."""
    allowed = f"a mask of length {n_rows} or a list of row numbers"
    if raw.ndim != 1 or (len(raw) > 0 and raw.dtype.kind not in "biu"):
        got = Described(f"an array of shape {raw.shape} and type {raw.dtype}")
        raise bad_argument(owner, "negatives", allowed, got)
    if raw.dtype.kind == "b" or (len(raw) == n_rows > 2 and set(np.unique(raw).tolist()) <= {0, 1}):
        if len(raw) != n_rows:
            raise bad_argument(owner, "negatives", allowed, Described(f"a mask of length {len(raw)}"))
        return raw.astype(bool)
    outside = (raw < 0) | (raw >= n_rows)
    if outside.any():
        got = Described(f"row {raw[outside.argmax()]}")
        raise bad_argument(owner, "negatives", f"row numbers from 0 to {n_rows - 1}", got)
    mask = np.zeros(n_rows, dtype=bool)
    mask[raw.astype(np.intp)] = True
    return mask


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
