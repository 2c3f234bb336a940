"""User data as the rest of the library sees it: batches of rows with their ids."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.errors import Described, InputError, bad_argument, how_to_install
from pucl.numerics.floats import LARGEST, SMALL_ENOUGH, place_of

OWNER = "pucl.data.own"
PASS = 16_384  # rows held at a time where no batch size is given


@dataclass(frozen=True)
class Table:
    """Some rows of a table: the type of every column, and a vector of values for those that can be used.

    Types are ``number``, ``bool``, ``date`` (in days since 1970; all float64, NaN where missing), ``category`` (text,
    None where missing), ``text`` (the same, never taken for categories) and ``missing`` (no value at all). Any other
    type (``vector``, …) is named in `types` and has no values.
    """

    types: Mapping[str, str]
    values: Mapping[str, NDArray[Any]]
    n_rows: int
    start: int = 0

    def __len__(self) -> int:
        return self.n_rows

    @classmethod
    def concat(cls, parts: Sequence["Table"]) -> "Table":
        """One table out of consecutive parts."""
        first = parts[0]
        values = {name: np.concatenate([part.values[name] for part in parts]) for name in first.values}
        return cls(first.types, values, sum(map(len, parts)), first.start)


@dataclass(frozen=True)
class Batch:
    """Consecutive rows: a `Table`, float32 vectors (n, d) or images (n, c, h, w), with their ids, and s if known."""

    rows: Any
    ids: NDArray[Any]
    s: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.ids)


class Rows(Protocol):
    """Rows that are read batch by batch, as often as needed."""

    @property
    def kind(self) -> Kind:
        """What the rows are."""

    @property
    def schema(self) -> Mapping[str, str]:
        """The feature columns and their types; empty where rows have no named columns."""

    def __len__(self) -> int: ...

    def batches(self, size: int) -> Iterator[Batch]:
        """All rows in order, at most `size` at a time."""

    def take(self, index: NDArray[np.intp]) -> "Rows":
        """The rows of the given ascending numbers."""


def load(rows: Rows) -> Any:
    """All rows in memory: a `Table`, or an array that is filled batch by batch."""
    if rows.kind == "table":
        return Table.concat([batch.rows for batch in rows.batches(PASS)])
    whole: NDArray[Any] | None = None
    n_rows = len(rows)
    start = 0
    for batch in rows.batches(PASS if rows.kind == "vector" else 256):
        if whole is None:
            whole = np.empty((n_rows, *batch.rows.shape[1:]), dtype=batch.rows.dtype)
        whole[start : start + len(batch)] = batch.rows
        start += len(batch)
    return whole


def finite(block: NDArray[Any], start: int, name: str) -> NDArray[np.float32]:
    """The block as float32, or one error that names the first row, and column, of what float32 cannot hold."""
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(block, dtype=np.float32)
    bad = ~(np.abs(rows.reshape(len(rows), -1)) <= LARGEST).all(axis=1)
    if bad.any():
        finite_rows = np.isfinite(np.asarray(block).reshape(len(block), -1)).all(axis=1)
        row = int(finite_rows.argmin() if not finite_rows.all() else bad.argmax())
        place = place_of(start + row, np.abs(rows[row]) <= LARGEST)
        if not finite_rows.all():
            raise bad_argument(OWNER, name, "finite", Described(f"NaN or infinity at row {place}"))
        raise bad_argument(OWNER, name, SMALL_ENOUGH, Described(f"larger ones, first at row {place}"))
    return rows


def file_of(source: Any) -> str:
    """What errors call a source: the name of a file or folder, nothing for data in memory."""
    return Path(source).name if isinstance(source, str | Path) else ""


def need(module: str, purpose: str) -> Any:
    """An optional package of the extra ``data``, or one line that says how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        package = "pillow" if module.startswith("PIL") else module.partition(".")[0]
        raise InputError(f"{purpose} needs {package}: {how_to_install('data')}") from None
