"""Which rows are labelled positives, batch by batch: by the values of a column, or by a list of rows."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER
from pucl.data.own.columns import usable_values
from pucl.data.own.labelled_rows import RowList, from_labels, is_missing, is_value
from pucl.labels import check_labels

Bools = NDArray[np.bool_]
MOST_VALUES = 5  # of a label column that are remembered for an error


class ReadRows(NamedTuple):
    """Some rows of a table: an Arrow batch, their ids, and the number of the first one in the source."""

    columns: Any
    ids: NDArray[Any]
    start: int


class StreamedLabels(Protocol):
    """Rows by what is said of them; what that means is known when all rows were seen."""

    @property
    def column(self) -> str | None:
        """The column that is read for it."""

    def of(self, rows: ReadRows) -> Iterator[tuple[Any, Bools]]:
        """What is said of some rows, each with a mask (n,) of the rows it is said of."""

    def positive(self, counts: Mapping[Any, int]) -> set[Any]:
        """What of all this means a labelled positive, given of how many rows it was said; one error if nothing can."""


class ListedLabels:
    """A list of the labelled positives."""

    column = None

    def __init__(self, positives: Any, id_column: str | None) -> None:
        self._rows = RowList("positives", positives, id_column=id_column)

    def of(self, rows: ReadRows) -> Iterator[tuple[Any, Bools]]:
        """True of the rows in the list, False of the others."""
        listed = self._rows.mask(rows.ids, rows.start)
        yield True, listed
        yield False, ~listed

    def positive(self, counts: Mapping[Any, int]) -> set[Any]:
        """True, if every entry of the list was found."""
        self._rows.check(sum(counts.values()))
        check_labels(list(counts), owner=f"{OWNER}, positives")
        return {True}


class ColumnLabels:
    """A column of labels: the values themselves, or whether they are the one that means a labelled positive."""

    def __init__(self, column: str, positive_value: Any) -> None:
        self.column, self._positive_value = column, positive_value
        self._some: set[Any] = set()  # values seen, a few of them

    def of(self, rows: ReadRows) -> Iterator[tuple[Any, Bools]]:
        """The values of the rows, None for a missing one; with a value that means a positive, True and False."""
        column = rows.columns.column(self.column)
        usable_values(column.slice(0, 0), self._name)
        encoded = column.dictionary_encode()
        number = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        values = [*usable_values(encoded.dictionary, self._name).tolist(), None]  # −1 is the last one
        present, at = np.unique(number, return_inverse=True)
        said = [self._said(values[i]) for i in present.tolist()]
        kinds = list(dict.fromkeys(said))
        kind = np.array([kinds.index(each) for each in said])[at]
        for k, each in enumerate(kinds):
            yield each, kind == k

    def _said(self, value: Any) -> Any:
        value = None if is_missing(value) else value
        if len(self._some) < MOST_VALUES:
            self._some.add(value)
        if self._positive_value is not None:
            return value is not None and is_value(value, self._positive_value)
        if len(self._some - {None}) > 2:
            self._refuse()
        return value

    def _refuse(self) -> None:
        """The error for values that cannot be labels."""
        values = np.array(list(self._some), dtype=object)
        from_labels(values, len(values), positive_value=self._positive_value, name=self._name)

    @property
    def _name(self) -> str:
        return f"column {self.column!r}"

    def positive(self, counts: Mapping[Any, int]) -> set[Any]:
        """The value that means a labelled positive, as `from_labels` understands the column."""
        if self._positive_value is not None:
            if True not in counts:
                self._refuse()
            check_labels(list(counts), owner=f"{OWNER}, {self._name}")
            return {True}
        values = np.array(list(counts), dtype=object)
        found = from_labels(values, len(values), name=self._name, counts=list(counts.values()))
        return {value for value, positive in zip(counts, found.tolist(), strict=True) if positive}


def streamed_labels(label: str | None, positive_value: Any, positives: Any, id_column: str | None) -> StreamedLabels:
    """The labels of a column, or of a list where there is no column."""
    return ListedLabels(positives, id_column) if label is None else ColumnLabels(label, positive_value)
