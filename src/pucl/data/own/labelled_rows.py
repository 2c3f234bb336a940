"""Which rows are labelled positives: one label per row, a list of them, or folders; and which confirmed negatives."""

import csv
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.arrays import as_array, mapped
from pucl.data.own.batch import OWNER
from pucl.data.own.columns import as_text
from pucl.data.own.label_words import in_words, positive_of
from pucl.errors import Described, InputError, about_file, bad_argument, one_line, users_line
from pucl.labels import check_labels, check_negatives

POSITIVE, NEGATIVE, UNLABELLED = "positive", "negative", ("unlabelled", "unlabeled")
LONGEST = 80  # characters of an entry that a message shows
HEADERS = ("id", "ids", "name", "names", "file", "filename", "image", "path", "row")


def from_labels(
    values: Any, n_rows: int, *, positive_value: Any = None, name: str = "label", counts: Sequence[int] | None = None
) -> NDArray[np.bool_]:
    """Read s from one label per row: what `check_labels` takes, or values of which one means a labelled positive.

    Without `positive_value`, words such as yes and no, "unknown" and empty cells are understood, with a warning that
    says what was taken for what; see `positive_of`.

    Args:
        values: one label per row.
        n_rows: how many rows there are.
        positive_value: which value means a labelled positive, where they are not bool, {0, 1} or {-1, 1}; rows with
            any other value, or none, are unlabelled.
        name: how errors call the labels, such as ``column 'label'``.
        counts: for how many rows each of the values stands; one when not given.
    """
    owner = f"{OWNER}, {name}"
    labels = as_array(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if labels.ndim != 1:
        return check_labels(labels, n_rows=n_rows, owner=owner)
    missing = np.array([is_missing(value) for value in labels.tolist()], dtype=bool)
    distinct = sorted({*labels[~missing].tolist()}, key=str)
    if positive_value is None and not missing.any() and set(map(type, distinct)) <= {bool, int, float}:
        return check_labels(labels.tolist(), n_rows=n_rows, owner=owner)
    positive = _positive(owner, distinct, positive_value, missing=bool(missing.any()))
    found = (labels == positive) & ~missing
    if positive_value is None:
        others = [value for value in distinct if value != positive]
        n = np.ones(len(labels), dtype=np.int64) if counts is None else np.asarray(counts)
        n_positive, n_others, n_missing = (int(n[kind].sum()) for kind in (found, ~found & ~missing, missing))
        warnings.warn(in_words(name, positive, n_positive, others, n_others, n_missing), stacklevel=users_line())
    return check_labels(found, n_rows=n_rows, owner=owner)


def _positive(owner: str, distinct: list[Any], positive_value: Any, *, missing: bool) -> Any:
    """The value that means a labelled positive: the one named, or the only one that can."""
    some = [*distinct[:4], *(["…"] if len(distinct) > 4 else [])]
    if positive_value is None:
        positive = positive_of(distinct, missing=missing)
        if positive is None:
            got = Described(f"the values {some}{' and empty ones' if missing else ''}")
            raise bad_argument(owner, "s", "bool, {0, 1}, {-1, 1}, or other values with positive_value=", got)
        return positive
    positive = [value for value in distinct if is_value(value, positive_value)]
    if not positive:
        raise bad_argument(owner, "positive_value", f"one of {some}", positive_value)
    return positive[0]


def is_value(value: Any, wanted: Any) -> bool:
    """Whether a label is the one that is wanted, which may be written as text: "1" may stand for 1.0."""
    return bool(value == wanted) or str(wanted) in (str(value), as_text(np.array([value], dtype=object))[0])


@dataclass(frozen=True)
class RowNames:
    """What lists call the rows.

    Attributes:
        ids: the id of every row, (n,).
        id_column: where the ids come from, and the column of a CSV file that lists them; None without ids.
        folder: where images are, so that their paths are understood as well as their names; None for other rows.
    """

    ids: NDArray[Any]
    id_column: str | None = None
    folder: Path | None = None

    @property
    def named(self) -> bool:
        """Whether rows have ids of the user's, not just their numbers."""
        return self.id_column is not None or self.folder is not None


def from_list(positives: Any, names: RowNames) -> NDArray[np.bool_]:
    """Read s from a list of the positive rows: ids, or row numbers from 0, or a text, CSV or .npy file of them."""
    return check_labels(_listed("positives", positives, names), owner=f"{OWNER}, positives")


def negatives_from_list(negatives: Any, names: RowNames, s: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Read the confirmed negatives from a list of them, as for `from_list`; none of them may be labelled positive."""
    listed = _listed("negatives", negatives, names)
    both = listed & s
    if both.any():
        first = names.ids[both.argmax()]
        got = Described(f"{first if names.named else f'row {first}'}, which is a labelled positive")
        raise bad_argument(OWNER, "negatives", "rows that are not labelled positives", got)
    return check_negatives(listed, s, len(s), OWNER)


def from_folders(names: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Read s from the folders ``positive/`` and ``unlabelled/``, and confirmed negatives from ``negative/``."""
    tops = [PurePath(name).parts[0] for name in names]
    known = (POSITIVE, NEGATIVE, *UNLABELLED)
    odd = next((name for name, top in zip(names, tops, strict=True) if top not in known), None)
    if odd is not None:
        raise bad_argument(OWNER, "files", "inside positive/, unlabelled/ or negative/ (or give positives=)", odd)
    s = check_labels([top == POSITIVE for top in tops], owner=f"{OWNER}, the folders positive/ and unlabelled/")
    return s, check_negatives([top == NEGATIVE for top in tops], s, len(s), f"{OWNER}, the folder negative/")


def check_distinct(ids: NDArray[Any], name: str) -> None:
    """Refuse ids that occur more than once, by name."""
    try:
        ordered = np.sort(ids)
    except (TypeError, ValueError):
        got = Described(f"values such as {ids[0]!r:.60}")
        raise bad_argument(OWNER, f"id column {name!r}", "numbers or text", got) from None
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        got = Described(f"{ordered[twice[0]].item() if ids.dtype != object else ordered[twice[0]]!r} more than once")
        raise bad_argument(OWNER, f"id column {name!r}", "distinct ids", got)


def is_missing(value: Any) -> bool:
    """Whether a label is empty: None, NaN or the missing value of pandas."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and math.isnan(value))


class RowList:
    """The rows that a list names, looked for batch by batch.

    Attributes:
        argument: what errors call the list.
    """

    def __init__(self, argument: str, values: Any, *, id_column: str | None, folder: Path | None = None) -> None:
        self.argument, self._folder = argument, folder
        self._file = Path(values).name if isinstance(values, str | Path) else ""
        self._named = id_column is not None or folder is not None
        with about_file(self._file):
            self._entries = _entries(argument, values, id_column)
        self._wanted = {_name(entry, folder) for entry in self._entries} if self._named else set()
        self._rows = np.array([] if self._named else sorted(map(_row_number, self._entries)), dtype=np.int64)
        self._found: set[str] = set()

    def mask(self, ids: NDArray[Any], start: int) -> NDArray[np.bool_]:
        """Which of the rows with these ids, the first of which is row `start`, the list names, (n,)."""
        if not self._named:
            low, high = np.searchsorted(self._rows, (start, start + len(ids)))
            mask = np.zeros(len(ids), dtype=bool)
            mask[self._rows[low:high] - start] = True
            return mask
        names = [str(key) for key in ids.tolist()]
        self._found.update(self._wanted.intersection(names))
        return np.fromiter((name in self._wanted for name in names), dtype=bool, count=len(names))

    def check(self, n_rows: int) -> None:
        """Refuse entries that were not found among all n rows."""
        unknown = sorted(self._wanted - self._found)
        if unknown:
            allowed = "ids of the data" if self._folder is None else f"files in {self._folder.name}"
            first = unknown[0] if len(unknown[0]) <= LONGEST else f"{unknown[0][:LONGEST]}…"
            with about_file(self._file):
                raise bad_argument(OWNER, self.argument, allowed, Described(f"{len(unknown)} unknown, first {first!r}"))
        for entry in () if self._named else self._entries:
            if not 0 <= _row_number(entry) < n_rows:
                allowed = f"row numbers from 0 to {n_rows - 1} (or give id_column=)"
                with about_file(self._file):
                    raise bad_argument(OWNER, self.argument, allowed, entry)


def _listed(argument: str, values: Any, names: RowNames) -> NDArray[np.bool_]:
    """Which rows a list names, (n,) bool; `argument` is what errors call it."""
    rows = RowList(argument, values, id_column=names.id_column, folder=names.folder)
    listed = rows.mask(names.ids, 0)
    rows.check(len(names.ids))
    return listed


def _entries(argument: str, values: Any, id_column: str | None) -> list[Any]:
    if isinstance(values, str | Path):
        path = Path(values)
        if not path.is_file():
            raise bad_argument(OWNER, argument, "a list, or a file that exists", str(values))
        if path.suffix.lower() == ".npy":
            return _entries(argument, np.array(mapped(path)()), id_column)
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
            if path.suffix.lower() in (".csv", ".tsv"):
                entries = _csv_column(lines, "," if path.suffix.lower() == ".csv" else "\t", id_column)
            else:
                entries = [line.strip() for line in lines]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path.name} cannot be read: {one_line(error)}", owner=OWNER) from None
        listed: list[Any] = [entry for entry in entries if entry]
    else:
        array = as_array(list(values) if isinstance(values, set | frozenset) else values)
        if array.size and (array.ndim != 1 or array.dtype.kind in "bf"):
            got = Described(f"an array of shape {array.shape} and type {array.dtype}")
            one_each = " (one label per row is label=)" if argument == "positives" else ""
            raise bad_argument(OWNER, argument, f"a list of ids or row numbers{one_each}", got)
        listed = array.tolist()
    if not listed:
        raise bad_argument(OWNER, argument, "a list with at least one entry", Described("an empty one"))
    return listed


def _csv_column(lines: list[str], delimiter: str, id_column: str | None) -> list[str]:
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    if rows and id_column in rows[0]:
        at = rows[0].index(str(id_column))
        return [row[at].strip() for row in rows[1:] if len(row) > at]
    first = [row[0].strip() for row in rows]
    return first[1:] if first and first[0].lower() in HEADERS else first


def _name(entry: Any, folder: Path | None) -> str:
    if folder is None:
        return str(entry)
    path = Path(entry)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _row_number(entry: Any) -> int:
    """A row number, −1 for what is none."""
    try:
        number = int(entry)
    except (TypeError, ValueError):
        return -1
    return number if 0 <= number < 2**63 else -1
