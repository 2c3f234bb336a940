"""Which rows are labelled positives: one label per row, a list of the positive ones, or two folders."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.arrays import as_array, mapped
from pucl.data.own.batch import OWNER
from pucl.data.own.columns import as_text
from pucl.errors import Described, bad_argument
from pucl.labels import check_labels

POSITIVE, UNLABELLED = "positive", ("unlabelled", "unlabeled")
HEADERS = ("id", "ids", "name", "names", "file", "filename", "image", "path", "row")


def from_labels(values: Any, n_rows: int, *, positive_value: Any = None, name: str = "label") -> NDArray[np.bool_]:
    """Read s from one label per row: what `check_labels` takes, or two values of which one is the `positive_value`.

    Args:
        values: one label per row.
        n_rows: how many rows there are.
        positive_value: which of two values means a labelled positive, where they are not bool, {0, 1} or {-1, 1}.
        name: how errors call the labels, such as ``column 'label'``.
    """
    owner = f"{OWNER}, {name}"
    labels = as_array(values.to_numpy() if hasattr(values, "to_numpy") else values)
    text = labels.dtype.kind in "OUT"
    if positive_value is None and not text:
        return check_labels(labels, n_rows=n_rows, owner=owner)
    missing = np.array([_is_missing(value) for value in labels.tolist()])
    if missing.any():
        raise bad_argument(owner, "s", "a label in every row", Described(f"none at row {int(missing.argmax())}"))
    distinct = sorted({*labels.tolist()}, key=str)
    if positive_value is None and set(map(type, distinct)) <= {bool, int, float}:
        return check_labels(labels.tolist(), n_rows=n_rows, owner=owner)
    shown = Described(f"the values {distinct[:4] if len(distinct) < 5 else [*distinct[:4], '…']}")
    if len(distinct) > 2 or (len(distinct) == 2 and positive_value is None):
        raise bad_argument(owner, "s", "bool, {0, 1}, {-1, 1}, or two values with positive_value=", shown)
    wanted, texts = str(positive_value), as_text(np.array(distinct, dtype=object))  # "1" may stand for 1.0
    positive = [v for v, text in zip(distinct, texts, strict=True) if v == positive_value or wanted in (str(v), text)]
    if not positive:
        raise bad_argument(owner, "positive_value", f"one of {distinct}", positive_value)
    return check_labels(labels == positive[0], n_rows=n_rows, owner=owner)


def from_list(
    positives: Any, ids: NDArray[Any], *, named: bool, folder: Path | None = None, id_column: str | None = None
) -> NDArray[np.bool_]:
    """Read s from a list of the positive rows.

    Args:
        positives: ids (or row numbers from 0 where rows have no ids), or a text, CSV or .npy file of them.
        ids: the id of every row.
        named: whether `ids` are ids of the user's, rather than row numbers.
        folder: where the images are, so that their paths are understood as well as their names.
        id_column: the column of a CSV file that holds the ids; the first one when not there.
    """
    entries = _entries(positives, id_column)
    if named:
        wanted = {_name(entry, folder) for entry in entries}
        s = np.fromiter((str(key) in wanted for key in ids.tolist()), dtype=bool, count=len(ids))
        unknown = sorted(wanted - {str(key) for key in ids[s].tolist()})
        if unknown:
            allowed = "ids of the data" if folder is None else f"images in {folder.name}"
            raise bad_argument(OWNER, "positives", allowed, Described(f"{len(unknown)} unknown, first {unknown[0]!r}"))
    else:
        s = np.zeros(len(ids), dtype=bool)
        s[[_row(entry, len(ids)) for entry in entries]] = True
    return check_labels(s, owner=f"{OWNER}, positives")


def from_folders(names: Sequence[str]) -> NDArray[np.bool_]:
    """Read s from two folders, ``positive/`` and ``unlabelled/``."""
    tops = [PurePath(name).parts[0] for name in names]
    odd = next((name for name, top in zip(names, tops, strict=True) if top not in (POSITIVE, *UNLABELLED)), None)
    if odd is not None:
        raise bad_argument(OWNER, "images", "inside positive/ or unlabelled/ (or give positives=)", odd)
    return check_labels([top == POSITIVE for top in tops], owner=f"{OWNER}, the folders positive/ and unlabelled/")


def check_distinct(ids: NDArray[Any], name: str) -> None:
    """Refuse ids that occur more than once, by name."""
    ordered = np.sort(ids)
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        got = Described(f"{ordered[twice[0]].item() if ids.dtype != object else ordered[twice[0]]!r} more than once")
        raise bad_argument(OWNER, f"id column {name!r}", "distinct ids", got)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and math.isnan(value))


def _entries(positives: Any, id_column: str | None) -> list[Any]:
    if isinstance(positives, str | Path):
        path = Path(positives)
        if not path.is_file():
            raise bad_argument(OWNER, "positives", "a list, or a file that exists", str(positives))
        if path.suffix.lower() == ".npy":
            return _entries(np.array(mapped(path)()), id_column)
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        if path.suffix.lower() in (".csv", ".tsv"):
            entries = _csv_column(lines, "," if path.suffix.lower() == ".csv" else "\t", id_column)
        else:
            entries = [line.strip() for line in lines]
        listed: list[Any] = [entry for entry in entries if entry]
    else:
        array = as_array(list(positives) if isinstance(positives, set | frozenset) else positives)
        if array.ndim != 1 or array.dtype.kind in "bf":
            got = Described(f"an array of shape {array.shape} and type {array.dtype}")
            raise bad_argument(OWNER, "positives", "a list of ids or row numbers (one label per row is label=)", got)
        listed = array.tolist()
    if not listed:
        raise bad_argument(OWNER, "positives", "a list with at least one entry", Described("an empty one"))
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


def _row(entry: Any, n_rows: int) -> int:
    try:
        row = int(entry)
    except ValueError:
        row = -1
    if not 0 <= row < n_rows:
        raise bad_argument(OWNER, "positives", f"row numbers from 0 to {n_rows - 1} (or give id_column=)", entry)
    return row
