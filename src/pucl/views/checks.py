"""Checks of the input and the options of views, in one wording; none of them reads values from the device."""

from typing import Any

import torch
from torch import Tensor

from pucl.errors import Described, bad_argument, is_number


def check_amount(owner: str, argument: str, value: Any) -> float:
    """A finite number of at least 0, such as the standard deviation of a noise."""
    if not (is_number(value) and value >= 0):
        raise bad_argument(owner, argument, "a finite number ≥ 0", value)
    return float(value)


def check_range(owner: str, argument: str, value: Any, *, high: float | None = None) -> tuple[float, float]:
    """Two numbers (low, high), in order, above 0 and not above `high`."""
    allowed = "two numbers 0 < low ≤ high" + ("" if high is None else f" ≤ {high:g}")
    try:
        first, last = value
    except (TypeError, ValueError):
        raise bad_argument(owner, argument, allowed, value) from None
    if not (is_number(first) and is_number(last) and 0 < first <= last) or (high is not None and last > high):
        raise bad_argument(owner, argument, allowed, value)
    return float(first), float(last)


def check_images(owner: str, x: Tensor) -> Tensor:
    """Grey or colour images as float32: uint8 is scaled to [0, 1], floats are assumed to be scaled already."""
    if x.ndim != 4 or x.shape[1] not in (1, 3) or not (x.is_floating_point() or x.dtype == torch.uint8):
        got = Described(f"shape {tuple(x.shape)} of {x.dtype}")
        raise bad_argument(owner, "x", "images (n, c, h, w) with c = 1 or 3, as uint8 or float in [0, 1]", got)
    images = x.to(torch.float32)
    return images / 255 if x.dtype == torch.uint8 else images


def check_rows(owner: str, x: Tensor) -> Tensor:
    """Rows (n, d) of floating-point features, as they are."""
    if x.ndim != 2 or not x.is_floating_point():
        got = Described(f"shape {tuple(x.shape)} of {x.dtype}")
        raise bad_argument(owner, "x", "rows (n, d) of floating-point features", got)
    return x
