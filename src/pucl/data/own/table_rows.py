"""Rows of a table, or vectors kept in a table, read batch by batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.data.own.batch import OWNER, PASS, Batch, Table, need
from pucl.data.own.columns import matrix_of, type_of, usable_values, values_of
from pucl.data.own.dates import date_of, parts_of
from pucl.data.own.scan import Scan, scan_frame
from pucl.errors import Described, bad_argument, some


@dataclass(frozen=True)
class TableRows:
    """The feature columns of a scan, as tables or (kind ``vector``) as float32 vectors."""

    scan: Scan
    kind: Kind
    columns: tuple[str, ...]
    id_column: str | None = None

    @property
    def schema(self) -> Mapping[str, str]:
        """The feature columns and their types."""
        return {name: type_of(self.scan.schema.field(name).type) for name in self.columns}

    def __len__(self) -> int:
        return self.scan.count()

    def batches(self, size: int) -> Iterator[Batch]:
        """All rows in order, at most `size` at a time; without an id column the ids are row numbers."""
        start = 0
        with self.scan.named():
            for part in self.scan.read(self.wanted, size):
                if self.kind == "vector":
                    rows: Any = matrix_of(part, self.columns, start)
                else:
                    rows = _table(part, self.columns, start)
                yield Batch(rows, self.ids_of(part, start))
                start += len(part)

    def ids(self) -> NDArray[Any]:
        """The id of every row, from one pass over the id column."""
        column = self.id_column
        if column is None:
            return np.arange(len(self))
        with self.scan.named():
            parts = list(self.scan.read([column], PASS))
            starts = np.cumsum([0, *map(len, parts)])
            return np.concatenate([self.ids_of(part, int(start)) for part, start in zip(parts, starts, strict=False)])

    def ids_of(self, part: Any, start: int) -> NDArray[Any]:
        """The ids of the rows of an Arrow batch, of which the first is row `start`; every row has one."""
        name = self.id_column
        if name is None:
            return np.arange(start, start + len(part))
        array = part.column(name)
        if array.null_count:
            row = start + int(array.is_null().to_numpy(zero_copy_only=False).argmax())
            raise bad_argument(OWNER, f"id column {name!r}", "an id in every row", Described(f"none at row {row}"))
        ids: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return ids

    def column(self, name: str) -> NDArray[Any]:
        """All values of one column: float64 for numbers and booleans, text otherwise."""
        self.scan.check_columns(name)
        with self.scan.named():
            parts = self.scan.read([name], PASS)
            return np.concatenate([usable_values(part.column(0), f"column {name!r}") for part in parts])

    def take(self, index: NDArray[np.intp]) -> "TableRows":
        """The rows of the given ascending numbers, in memory, from one streaming pass."""
        kept, start = [], 0
        for part in self.scan.read(self.wanted, PASS):
            low, high = np.searchsorted(index, (start, start + len(part)))
            if high > low:
                kept.append(part.take(need("pyarrow", "a table").array(index[low:high] - start)))
            start += len(part)
        return replace(self, scan=scan_frame(need("pyarrow", "a table").Table.from_batches(kept)))

    @property
    def wanted(self) -> list[str]:
        """The columns that are read: features and ids."""
        return [*self.columns] if self.id_column in (None, *self.columns) else [*self.columns, str(self.id_column)]


def table_rows(
    scan: Scan,
    *,
    kind: Kind | None,
    columns: tuple[str, ...] | None,
    id_column: str | None,
    leave_out: tuple[str, ...],
    drop: tuple[str, ...] = (),
) -> TableRows:
    """The feature columns of `scan`: those named, or all but the id, the label and those to drop."""
    if kind == "image":
        raise bad_argument(OWNER, "kind", f"'table' or 'vector' for {scan.name}", kind)
    aside = (*leave_out, *([id_column] if id_column is not None else []))
    leak = next((name for name in leave_out if name in (columns or ())), None)
    if leak is not None:
        raise bad_argument(OWNER, "columns", "features only", Described(f"{leak!r}, which is the label"))
    scan.check_columns(*(columns or ()), *aside, *drop)
    unwanted = {*drop} if columns is not None else {*aside, *drop}
    listed = scan.schema.names if columns is None else columns
    chosen = parts_of(scan, (name for name in listed if not {name, date_of(name)} & unwanted))
    if not chosen:
        raise bad_argument(OWNER, scan.name, "a table with feature columns", Described(f"only {', '.join(aside)}"))
    types = {name: type_of(scan.schema.field(name).type) for name in chosen}
    vectors = [name for name in chosen if types[name] == "vector"]
    if kind == "table" or (kind is None and not vectors):
        return TableRows(scan, "table", chosen, id_column)
    if vectors and len(chosen) > 1:
        got = Described(f"the columns {some(chosen)}")
        raise bad_argument(OWNER, "columns", f"one column of vectors alone, such as [{vectors[0]!r}]", got)
    odd = next((name for name in chosen if types[name] not in ("number", "bool", "vector")), None)
    if odd is not None:
        raise bad_argument(OWNER, f"column {odd!r}", "numbers when kind is 'vector'", Described(f"type {types[odd]}"))
    return TableRows(scan, "vector", chosen, id_column)


def _table(part: Any, columns: tuple[str, ...], start: int) -> Table:
    types = {name: type_of(part.schema.field(name).type) for name in columns}
    values = {name: values_of(part.column(name)) for name in columns}
    return Table(types, {name: v for name, v in values.items() if v is not None}, len(part), start)
