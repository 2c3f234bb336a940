"""Dates: their parts (month, weekday, hour) as columns beside them.

A date itself is a number, in days; its parts say what comes back every year, week and day.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import need
from pucl.data.own.scan import Scan

PARTS = ("month", "weekday", "hour")  # 1 to 12, 0 (Monday) to 6, 0 to 23


def date_of(part: str) -> str | None:
    """The column whose part a column is: "when" of "when: month"; None for any other name."""
    name, mark, which = part.rpartition(": ")
    return name if mark and which in PARTS else None


def source_of(name: str, columns: Mapping[str, str]) -> str:
    """The column that a column is made from, given the types of all: the date of its part, or the column itself."""
    date = date_of(name)
    return date if date is not None and columns.get(date) == "date" else name


def part_of_days(days: NDArray[np.float64], which: str) -> NDArray[np.float64]:
    """Month, weekday or hour of moments in days since 1970, to a millisecond; NaN where the moment is missing."""
    missing = np.isnan(days)
    moment = np.where(missing, 0, days * 86_400_000).round().astype("datetime64[ms]")
    day = moment.astype("datetime64[D]")
    if which == "month":
        part = day.astype("datetime64[M]").astype(np.int64) % 12 + 1
    elif which == "weekday":
        part = (day.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    else:
        part = (moment - day).astype(np.int64) // 3_600_000
    return np.where(missing, np.nan, part.astype(np.float64))


def parts_of(scan: Scan, names: Iterable[str]) -> tuple[str, ...]:
    """The columns, each date followed by its parts."""
    listed = tuple(names)
    more = {name: [f"{name}: {part}" for part in _parts(scan.schema.field(name).type)] for name in listed}
    return tuple(dict.fromkeys(each for name in listed for each in (name, *more[name])))


def with_parts(scan: Scan) -> Scan:
    """The table with the parts of its dates as further columns, which are made when they are read."""
    pa = need("pyarrow", "a table")
    there = set(scan.schema.names)
    made = [name for name in parts_of(scan, scan.schema.names) if name not in there]
    if not made:
        return scan
    schema = pa.schema([*scan.schema, *(pa.field(name, pa.float64()) for name in made)])

    def read(columns: list[str], size: int) -> Iterator[Any]:
        source = {name: str(date_of(name)) if name in made else name for name in columns}
        for batch in scan.read(list(dict.fromkeys(source.values())), size):
            values = [
                _part(batch.column(source[name]), name.rpartition(": ")[2]) if name in made else batch.column(name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(values, names=columns)

    return replace(scan, schema=schema, read=read)


def _parts(arrow_type: Any) -> tuple[str, ...]:
    is_ = need("pyarrow", "a table").types
    return PARTS if is_.is_timestamp(arrow_type) else PARTS[:2] if is_.is_date(arrow_type) else ()


def _part(dates: Any, which: str) -> Any:
    pa, compute = need("pyarrow", "a table"), need("pyarrow.compute", "a table")
    of = {"month": compute.month, "weekday": compute.day_of_week, "hour": compute.hour}[which]
    return of(dates).cast(pa.float64())
