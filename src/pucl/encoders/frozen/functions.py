"""The user's own functions and fitted scikit-learn transformers as networks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.errors import Described, InputError, bad_argument

MOST_COLUMNS = 4096  # of a transformer that is looked at for being affine: it is tried on as many rows
TRIED, CLOSE = 256, 1e-4  # rows that must agree, relative to the spread of the results


class Function(nn.Module):
    """A function from a batch of rows to vectors: it gets and gives arrays, and nothing of it can be stored."""

    takes_bytes = True

    def __init__(self, function: Callable[[NDArray[Any]], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Rows as they are (n, …) → (n, k)."""
        rows = x.detach().cpu().numpy()
        try:
            out = self.function(rows)
            out = out.detach().cpu() if isinstance(out, Tensor) else torch.as_tensor(np.asarray(out, dtype=np.float32))
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            problem = f"failed on a batch of rows of shape {rows.shape} and type {rows.dtype}: {text}"
            raise InputError(problem, owner="encoder") from error
        return out.to(x.device)


class Transformer(Function):
    """A fitted transformer: its rows are flat, and are given in float64 as scikit-learn has them."""

    def __init__(self, transformer: Any) -> None:
        super().__init__(lambda rows: _dense(transformer.transform(_flat(rows))))


class Affine(nn.Module):
    """Flat rows times a matrix, plus a vector: what PCA, scalers and random projections do.

        z = x W + b

    where x is the row as it is, in float64: bytes of images are not divided by 255.
    """

    takes_bytes = True
    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, …) → (n, k)."""
        return (x.flatten(1).to(torch.float64) @ self.weight + self.bias).to(torch.float32)


def as_affine(transformer: Any, rows: Tensor) -> Affine | None:
    """The transformer as a matrix and a vector; None if it is not affine on these rows, or they have many columns.

    The vector is what it gives for zeros, and the matrix what it gives for unit vectors besides. Both together must
    give what the transformer gives for real rows.
    """
    flat = _flat(rows[:TRIED].cpu().numpy())
    columns = flat.shape[1]
    if columns > MOST_COLUMNS:
        return None
    spread = np.abs(flat).max() or 1.0  # unit vectors as long as the rows, so that no digits are lost
    try:
        bias = _dense(transformer.transform(np.zeros((1, columns))))[0]
        weight = (_dense(transformer.transform(spread * np.eye(columns))) - bias) / spread
        wanted = _dense(transformer.transform(flat))
    except Exception:
        return None
    error = np.abs(flat @ weight + bias - wanted).max() if wanted.shape == (len(flat), len(bias)) else np.inf
    if not error <= CLOSE * (wanted.std() or 1.0):
        return None
    return Affine(torch.from_numpy(weight), torch.from_numpy(bias))


def check_fitted(owner: str, transformer: Any) -> None:
    """Refuse a transformer that was not fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(transformer)
    except (NotFittedError, TypeError):
        allowed = "a fitted transformer (where estimators are cloned, wrap it in sklearn.frozen.FrozenEstimator)"
        got = Described(f"{type(transformer).__name__} that was not fitted")
        raise bad_argument(owner, "encoder", allowed, got) from None


def _flat(rows: NDArray[Any]) -> NDArray[np.float64]:
    return rows.reshape(len(rows), -1).astype(np.float64)


def _dense(result: Any) -> NDArray[np.float64]:
    result = result.toarray() if hasattr(result, "toarray") else result
    return np.asarray(result, dtype=np.float64)
