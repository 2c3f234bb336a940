"""Values of a table as people write them."""

import math
from typing import Any

import numpy as np

from pucl.data.own.batch import Table
from pucl.data.own.dates import PARTS

CHARACTERS = 400  # of a value that are kept


def value_as_text(table: Table, column: str, row: int) -> str:
    """One value as text: a moment as its date, an empty text where it is missing."""
    return _text(table.values[column][row], is_moment(table, column))


def values_as_text(table: Table, column: str, rows: Any) -> tuple[str, ...]:
    """Some values of a column as text."""
    moment = is_moment(table, column)
    return tuple(_text(value, moment) for value in table.values[column][rows].tolist())


def is_moment(table: Table, column: str) -> bool:
    """Whether a column holds moments, in days since 1970, and not durations or times of day."""
    return table.types.get(column) == "date" and f"{column}: {PARTS[0]}" in table.types


def _text(value: Any, moment: bool) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if moment:
        at = str(np.datetime64(round(float(value) * 86_400), "s"))
        return at.removesuffix("T00:00:00").replace("T", " ")
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"
