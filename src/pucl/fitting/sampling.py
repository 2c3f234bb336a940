"""How many rows a fit learns from, by memory and time, and which: all of them, or a sample."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.data.own import OwnData, ReadOptions, Rows, Table, sample
from pucl.data.own.batch import file_of
from pucl.data.own.drawing import can_draw, draw
from pucl.data.own.files import is_table
from pucl.data.own.table_rows import TableRows
from pucl.errors import about_file, check_count
from pucl.models.record import RowCounts, Sampling

OWNER = "pucl"
MAX_ROWS = 200_000  # unless the user wants more: many more hardly make a better model (docs/data.md)
MIN_ROWS = 10_000  # below which neither memory nor time takes the number by itself
LOOKED_AT = 256  # rows whose size is measured
MEMORY_SHARE = 0.5  # of the memory of the machine, which a fit may use
COPIES = 16  # times the bytes of its rows that a fit of a table holds: 14 for 400,000 rows of 20 columns
SECONDS_PER_NUMBER = 5e-6  # of a fit on one processor, for each number in its rows: about 2.5 measured
CGROUP = Path("/sys/fs/cgroup/memory.max")  # the memory that a container may use


@dataclass(frozen=True)
class Size:
    """How many rows a fit may learn from, and why so many, a sentence."""

    rows: int
    reason: str


def read_rows(
    source: str | Path,
    reading: ReadOptions,
    max_rows: int | None,
    *,
    seed: int,
    time_limit: float | None = None,
    also: Collection[str] = (),
    on_rows: Callable[[int], None] | None = None,
) -> tuple[OwnData, Sampling | None]:
    """The rows to learn from, and how they were drawn where they are not all.

    Tables in files are read once, in memory that does not grow with them, see `draw`; of other sources all labelled
    positives and confirmed negatives are kept, and a random sample of the other rows. Rows that are wanted `also` come
    on top of that.

    Args:
        source: what `pucl.read` takes.
        reading: how to read it.
        max_rows: the largest number of rows; chosen by memory and `time_limit` when not given.
        seed: of the sample.
        time_limit: seconds that the fit may take.
        also: ids of unlabelled rows that are added to a sample where they are not drawn; `OwnData.extra` marks them.
        on_rows: called with how many rows of a large table were read.
    """
    if max_rows is not None:
        check_count(OWNER, "rows", max_rows)
    if is_table(source):
        with about_file(file_of(source)):
            rows = reading.open(source)
        if isinstance(rows, TableRows) and can_draw(reading):
            size = size_of_sample(rows, max_rows, time_limit)
            if rows.scan.has_more_than(size.rows):
                data, seen = draw(rows, reading, size.rows, seed=seed, also=also, on_rows=on_rows)
                all_rows = RowCounts(seen.n, seen.labelled, seen.unlabelled, seen.negative)
                return data, Sampling(all_rows, seen.key, seed, size.rows, size.reason)
    data = reading.read(source)
    size = size_of_sample(data.rows, max_rows, time_limit)
    if len(data) <= size.rows:
        return data, None
    n_p, n_n = int(data.s.sum()), 0 if data.negative is None else int(data.negative.sum())
    counts = RowCounts(len(data), n_p, len(data) - n_p - n_n, n_n)
    drawn = sample(data, size.rows, seed=seed, keep_positives=True, also=also)
    return drawn, Sampling(counts, "row number", seed, size.rows, size.reason)


def size_of_sample(rows: Rows, max_rows: int | None, time_limit: float | None) -> Size:
    """The number of rows that was asked for, or else the smallest of what is enough, fits in memory and is in time.

    Images count as they always did: what they take depends on the encoder.
    """
    if max_rows is not None:
        return Size(max_rows, f"{max_rows:,} rows were asked for.")
    most = Size(MAX_ROWS, f"{MAX_ROWS:,} rows are the default: more hardly make a better model, and take longer.")
    if rows.kind == "image":
        return most
    numbers, size = _width(rows)
    memory = memory_of_machine()
    sizes = [most]
    if memory is not None:
        fits = max(int(MEMORY_SHARE * memory / (COPIES * size)), MIN_ROWS)
        sizes.append(Size(fits, f"{fits:,} rows are about what fits in half of {memory / 2**30:.0f} GB of memory."))
    if time_limit is not None:
        in_time = max(int(time_limit / (SECONDS_PER_NUMBER * numbers)), MIN_ROWS)
        sizes.append(Size(in_time, f"{in_time:,} rows are about what there is time for in {time_limit:g} seconds."))
    return min(sizes, key=lambda size: size.rows)


def _width(rows: Rows) -> tuple[int, float]:
    """How many numbers, texts counted as one, and how many bytes a row has, by the first few."""
    first: Any = next(rows.batches(LOOKED_AT)).rows
    if not isinstance(first, Table):
        return first[0].size, first.nbytes / len(first)
    columns = list(first.values.values())
    texts = sum(len(value or "") for column in columns if column.dtype == object for value in column.tolist())
    return max(1, len(columns)), max(1.0, 8 * len(columns) + texts / len(first))  # none may be of use


def memory_of_machine() -> int | None:
    """The bytes of memory that this process may use, those of its container where there is one; None if unknown."""
    known = []
    with suppress(ValueError, OSError, AttributeError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ValueError, OSError):
        known.append(int(CGROUP.read_text(encoding="ascii")))  # "max" where there is no limit
    return min(known, default=None)
