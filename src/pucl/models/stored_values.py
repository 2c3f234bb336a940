"""Values of a stored record, checked: what is of another type raises TypeError or ValueError."""

from collections.abc import Iterable
from typing import Any

from pucl.errors import is_number


def optional(read: Any, value: Any) -> Any:
    """None, or the value as `read` takes it."""
    return None if value is None else read(value)


def text(value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def number(value: Any) -> float:
    """A finite number."""
    if not is_number(value):
        raise TypeError(f"{value!r} is not a finite number")
    return float(value)


def share(value: Any) -> float:
    """A number within [0, 1]."""
    if not 0 <= number(value) <= 1:
        raise ValueError(f"{value!r} is not a share within [0, 1]")
    return float(value)


def whole(value: Any) -> int:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def listed(value: Any) -> Iterable[Any]:
    """A list or a tuple."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} is not a list")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Several texts."""
    return tuple(map(text, listed(value)))
