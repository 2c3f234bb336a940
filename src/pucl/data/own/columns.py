"""From Arrow columns to numpy: the type of a column and its values."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, finite, need
from pucl.errors import Described, bad_argument

LOOKED_AT = 20  # texts of a column that must all be dates before the others are read
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")
_ZONED = re.compile(
    r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)"
)  # with its offset from UTC
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2})?")


def type_of(arrow_type: Any) -> str:
    """``number``, ``bool``, ``category``, ``vector``, ``date``, ``missing``, or Arrow's own name for anything else."""
    is_ = need("pyarrow", "a table").types
    if is_.is_boolean(arrow_type):
        return "bool"
    if is_.is_integer(arrow_type) or is_.is_floating(arrow_type) or is_.is_decimal(arrow_type):
        return "number"
    if str(arrow_type) in ("string", "large_string", "string_view") or is_.is_dictionary(arrow_type):
        return "category"
    if is_.is_temporal(arrow_type):
        return "date"
    if is_.is_null(arrow_type):
        return "missing"
    if is_vector(arrow_type):
        return "vector"
    return str(arrow_type)


def is_vector(arrow_type: Any) -> bool:
    """Whether each value of the column is a list of numbers."""
    is_ = need("pyarrow", "a table").types
    lists = (is_.is_list, is_.is_large_list, is_.is_fixed_size_list)
    return any(test(arrow_type) for test in lists) and type_of(arrow_type.value_type) == "number"


def values_of(array: Any) -> NDArray[Any] | None:
    """The values of one Arrow array as described in `Table`; None where the type cannot be used."""
    pa = need("pyarrow", "a table")
    kind = type_of(array.type)
    if kind in ("number", "bool"):
        numbers: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers
    if kind == "category":
        plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return as_text(plain.to_numpy(zero_copy_only=False))
    if kind == "date":
        return _days(array, pa)
    if kind == "missing":
        return np.full(len(array), np.nan)
    return None


def usable_values(array: Any, name: str) -> NDArray[Any]:
    """The values of one Arrow array, or one error that calls it `name`."""
    values = values_of(array)
    if values is None:
        raise bad_argument(OWNER, name, "numbers, booleans or text", Described(f"type {array.type}"))
    return values


def _days(array: Any, pa: Any) -> NDArray[np.float64] | None:
    """Dates, times and durations in days, NaN where missing; None for intervals of calendar months."""
    is_ = pa.types
    if is_.is_interval(array.type):
        return None
    if is_.is_date(array.type):  # any number of days, and not all of them are a timestamp
        days = array.cast(pa.int32()) if is_.is_date32(array.type) else array.cast(pa.int64())
        whole_days: NDArray[np.float64] = days.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return whole_days if is_.is_date32(array.type) else whole_days / 86_400_000
    unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[array.type.unit]
    whole = array.cast(pa.int32() if is_.is_time32(array.type) else pa.int64())
    units: NDArray[np.float64] = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return units / (86_400 * unit)


def as_text(values: NDArray[Any]) -> NDArray[np.object_]:
    """Values as text, None where missing; 1, 1.0 and True all become "1"."""
    return np.array([_text(value) for value in values.tolist()], dtype=object)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return str(value)


def matrix_of(part: Any, columns: tuple[str, ...], start: int) -> NDArray[np.float32]:
    """Vectors out of a record batch: from one column of lists, or from one number per column."""
    if is_vector(part.schema.field(columns[0]).type):
        return _lists(part.column(columns[0]), columns[0], start)
    block = np.empty((len(part), len(columns)), dtype=np.float64)
    for j, name in enumerate(columns):
        block[:, j] = values_of(part.column(name))
        bad = ~np.isfinite(block[:, j])
        if bad.any():
            got = Described(f"NaN or infinity at row {start + int(bad.argmax())}")
            raise bad_argument(OWNER, f"column {name!r}", "finite", got)
    return finite(block, start, "the columns")


def _lists(array: Any, name: str, start: int) -> NDArray[np.float32]:
    column = f"column {name!r}"
    if array.null_count:
        row = start + int(array.is_null().to_numpy(zero_copy_only=False).argmax())
        raise bad_argument(OWNER, column, "a vector in every row", Described(f"no value at row {row}"))
    lengths = need("pyarrow.compute", "a table").list_value_length(array).to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        row = int((lengths != lengths[0]).argmax())
        got = Described(f"{lengths[0]} and, at row {start + row}, {lengths[row]} numbers")
        raise bad_argument(OWNER, column, "vectors of one length", got)
    flat = array.flatten().to_numpy(zero_copy_only=False)
    return finite(flat.reshape(len(array), -1), start, column)


def as_dates(table: Any, text: Sequence[str] = ()) -> Any:
    """An Arrow table whose columns of text are dates or times if all values are: 2024-12-31, 2024-12-31 08:30, 08:30.

    Moments with an offset from UTC (2024-12-31T08:30:00Z) become those of UTC, as in a CSV file. The columns of `text`
    stay as they are.
    """
    pa, compute = need("pyarrow", "a frame"), need("pyarrow.compute", "a frame")
    for j, field in enumerate(table.schema):
        if field.name in text or str(field.type) not in ("string", "large_string"):
            continue
        some = compute.drop_null(table.column(j).slice(0, 10 * LOOKED_AT)).slice(0, LOOKED_AT).to_pylist()
        forms = (_ISO, _ZONED, _TIME)
        form = next((form for form in forms if all(form.fullmatch(text.strip()) for text in some)), None)
        if not some or form is None:
            continue
        texts = table.column(j)
        try:
            if form is _TIME:  # Arrow reads no times alone
                day = pa.scalar("1970-01-01 ", texts.type)
                moments = compute.binary_join_element_wise(day, texts, pa.scalar("", texts.type))
                dates = moments.cast(pa.timestamp("us")).cast(pa.time64("us"))
            else:
                dates = texts.cast(pa.timestamp("us", "UTC" if form is _ZONED else None))
        except pa.ArrowInvalid:  # a later value is no date
            continue
        table = table.set_column(j, field.name, dates)
    return table
