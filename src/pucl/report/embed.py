"""Data as JSON inside a page: no NaN, and nothing that could end the script element it stands in."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.report.markup import Markup

# Inside JSON these five only occur in texts, where the escapes mean the same.
_DANGEROUS = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def as_json(value: Any) -> Markup:
    """`value` as compact JSON that may stand inside ``<script type="application/json">``."""
    return Markup(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_DANGEROUS))


def size(value: Any) -> int:
    """Bytes that `value` takes on the page."""
    return len(as_json(value).encode())


def numbers(values: NDArray[Any], digits: int) -> list[float | None]:
    """Numbers rounded to `digits` decimals; those that are not finite become null."""
    rounded = np.round(np.asarray(values, np.float64), digits).tolist()
    return [value if np.isfinite(value) else None for value in rounded]
