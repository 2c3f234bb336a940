"""Numbers from users: as tensors, finite, and of a size whose squares float32 can hold."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.errors import Described, bad_argument

PIECE = 1 << 22  # numbers looked at together, so that a large set needs no second copy of itself
LARGEST = float(np.finfo(np.float32).max) / 2  # no difference of two such numbers is beyond float32
SMALL_ENOUGH = f"of numbers up to ±{LARGEST:.1e}, which float32 can subtract"
FAR = 2.0**40  # from 1, either way: largest values beyond are brought back by a power of 2
CONSTANT = 1e-12  # spread of a column, as a part of its mean, up to which it is constant but for rounding
TINY = float(np.finfo(np.float32).tiny)  # spread of a column below which float32 has no digits left


def as_tensor(values: Any) -> Tensor:
    """A tensor of what any library holds, or an error of numpy or torch; float32 and the like are not copied.

    It may be read-only: never write into the result.
    """
    if isinstance(values, Tensor):
        return values.detach()
    array = values if isinstance(values, np.ndarray) else values.to_numpy() if hasattr(values, "to_numpy") else None
    if array is None:
        return torch.as_tensor(values)
    if array.dtype == np.longdouble and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    with warnings.catch_warnings():  # torch has no read-only tensors and says so; rows are only ever read
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.as_tensor(array)


def check_finite(owner: str, argument: str, rows: Tensor) -> None:
    """No row holds NaN or infinity, or one error that counts such rows and names the first, with its column."""
    matrix = rows[:, None] if rows.ndim == 1 else rows
    finite = torch.cat([torch.isfinite(piece).flatten(1).all(dim=1) for piece in pieces(matrix)])
    bad = (~finite).nonzero().flatten()
    if len(bad):
        row = int(bad[0])
        place = place_of(row, np.isfinite(rows[row].detach().cpu().double().numpy()))
        got = Described(f"NaN or infinity in {len(bad)} rows, first {place}")
        raise bad_argument(owner, argument, "finite", got)


def place_of(row: int, finite: Any) -> str:
    """The number of a row and of its first column that is not finite; of a number or a picture the row alone."""
    return f"{row}, column {int(np.argmin(finite))}" if finite.ndim == 1 and len(finite) > 1 else f"{row}"


def as_float32(owner: str, argument: str, rows: Tensor) -> Tensor:
    """Rows in float32, finite and of a size that can be subtracted, or one error that names the first that is not."""
    narrow = rows.to(torch.float32)
    if not all(bool((piece.abs() <= LARGEST).all()) for piece in pieces(narrow)):
        check_finite(owner, argument, rows)
        place = (~(narrow.abs() <= LARGEST)).nonzero()[0]
        where = place_of(int(place[0]), (narrow[place[0]].abs() <= LARGEST).numpy(force=True))
        got = Described(f"{float(rows[tuple(place)]):.4g} at row {where}")
        raise bad_argument(owner, argument, SMALL_ENOUGH, got)
    return narrow


def in_range(rows: Tensor) -> Tensor:
    """Rows whose largest value is far from 1 times the power of 2 that brings it there; others as they are.

        x ↦ 2^−e x,    e = ⌈log₂ max |x|⌉    where max |x| is above `FAR` or below 1 / `FAR`

    Squares of numbers near 1e30 or 1e-30 are beyond float32. A power of 2 rounds nothing that counts beside the
    largest value, so what depends on directions or ratios of distances alone is the same for rows of any scale.
    """
    low, high = torch.aminmax(rows)
    return rows * factor[0] * factor[1] if (factor := power_near(max(float(high), -float(low)))) else rows


def power_near(largest: float) -> tuple[float, float] | None:
    """Two factors whose product brings a largest value near 1, each within float64; None where it is not far."""
    if largest == 0 or 1 / FAR <= largest <= FAR:
        return None
    exponent = -math.frexp(largest)[1]
    return 2.0 ** (exponent // 2), 2.0 ** (exponent - exponent // 2)


def columns_in_range(rows: NDArray[Any]) -> NDArray[Any]:
    """Every column (n, d) by itself as in `in_range`, for what standardises columns or compares numbers within them."""
    largest = np.abs(rows).max(axis=0)
    exponent = np.where((largest < 1 / FAR) | (largest > FAR), np.frexp(largest)[1], 0)
    return np.ldexp(rows, -exponent) if exponent.any() else rows


def pieces(rows: Tensor) -> Iterator[Tensor]:
    """The rows in order, as views of about `PIECE` numbers and at least one row each."""
    yield from torch.split(rows, max(1, PIECE // max(1, math.prod(rows.shape[1:]))))
