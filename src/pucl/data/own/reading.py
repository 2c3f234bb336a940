"""User data: rows, their PU labels and their ids."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.data.own import labelled_rows
from pucl.data.own.arrays import ArrayRows, as_array, mapped
from pucl.data.own.batch import OWNER, Batch, Rows, file_of, load
from pucl.data.own.images import ImageRows
from pucl.data.own.opening import open_rows
from pucl.data.own.table_rows import TableRows
from pucl.data.own.texts import TextFiles
from pucl.errors import Described, about_file, bad_argument, check_count, signed_by
from pucl.labels import FEWEST_UNLABELLED, check_negatives


@dataclass(frozen=True)
class OwnData:
    """Rows that are read batch by batch, with s: True for a labelled positive, False for any other row.

    Attributes:
        rows: the rows themselves.
        s: PU labels (n,).
        ids: what the rows are called, (n,).
        negative: True for a confirmed negative, (n,); None where there are none.
        extra: True for a row that a random sample of the unlabelled rows was given besides, (n,); None without any.
    """

    rows: Rows
    s: NDArray[np.bool_]
    ids: NDArray[Any]
    negative: NDArray[np.bool_] | None = None
    extra: NDArray[np.bool_] | None = None

    def __repr__(self) -> str:
        also = "" if self.negative is None else f", {int(self.negative.sum())} confirmed negatives"
        return f"OwnData({self.kind}, {len(self)} rows, {int(self.s.sum())} labelled positives{also})"

    @property
    def kind(self) -> Kind:
        """What the rows are."""
        return self.rows.kind

    @property
    def schema(self) -> Mapping[str, str]:
        """The feature columns and their types; empty for images and vectors out of an array."""
        return self.rows.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the feature columns."""
        return tuple(self.schema)

    def __len__(self) -> int:
        return len(self.s)

    def batches(self, size: int) -> Iterator[Batch]:
        """All rows in order with ids and s, at most `size` at a time."""
        start = 0
        for batch in self.rows.batches(size):
            part = slice(start, start + len(batch))
            yield replace(batch, ids=self.ids[part], s=self.s[part])
            start += len(batch)

    def load(self) -> Any:
        """All rows in memory: a `Table`, vectors (n, d) or images (n, c, h, w)."""
        return load(self.rows)


@signed_by("pucl.read")
def read(
    source: Any,
    *,
    positives: Any = None,
    label: Any = None,
    positive_value: Any = None,
    negatives: Any = None,
    id_column: str | None = None,
    kind: Kind | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    text_columns: Sequence[str] = (),
    key: str | None = None,
    size: Any = None,
    skip_unreadable: bool = False,
) -> OwnData:
    """Read rows with their PU labels, which come from exactly one of `positives`, `label` or two folders.

    Args:
        source: an array, tensor, frame, list of texts, file, folder of images, .txt files or tables, or a pattern
            such as ``data/*.parquet``, as for `open_rows`.
        positives: the positive rows: ids where rows have them (`id_column`, names of files), row numbers from 0
            otherwise; or a text, CSV or .npy file that lists them.
        label: one label per row: the name of a column, of an array in the .npz file, of a .npy file, or the labels
            themselves, as bool, {0, 1} or {-1, 1}.
        positive_value: which value of `label` means a labelled positive, if they are others; all other rows are
            unlabelled. Without it, yes and no, "unknown" and empty cells are understood, with a warning that says so.
        negatives: rows that are known to be negative, listed as for `positives`; all other rows are unlabelled.
        id_column: the column (or the array of a .npz file) with the ids of the rows, which must be distinct.
        kind: ``"image"``, ``"table"`` or ``"vector"``; by the source when not given.
        columns: the feature columns of a table; all but the id and the label when not given.
        drop: columns of a table that are not features.
        categorical: columns of a CSV file that are text even where they look like numbers.
        text_columns: columns of a CSV file that hold free text, see `TableTransform`.
        key: which array of a .npz file holds the rows.
        size: images are resized to this many pixels, or to (height, width).
        skip_unreadable: leave out images that cannot be read, with a warning.

    A folder with the sub-folders ``positive/`` and ``unlabelled/`` needs neither `positives` nor `label`;
    a third one, ``negative/``, holds confirmed negatives.
    """
    if positives is not None and label is not None:
        raise bad_argument(OWNER, "positives and label", "given one at a time", Described("both"))
    options = ReadOptions(
        label=label, kind=kind, columns=columns, id_column=id_column, drop=drop, categorical=categorical,
        text_columns=text_columns, key=key, size=size, skip_unreadable=skip_unreadable,
    )  # fmt: skip
    with about_file(file_of(source)):
        rows = options.open(source)
        names = _names(rows, id_column)
    s, negative = _observed(rows, source, names, positives, label, positive_value)
    if negatives is not None:
        if negative is not None:
            raise bad_argument(OWNER, "negatives", "left out where there is a folder negative/", Described("both"))
        negative = labelled_rows.negatives_from_list(negatives, names, s)
    return OwnData(rows, s, names.ids, negative)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source: the other arguments of `read`, as one value."""

    positives: Any = None
    label: Any = None
    positive_value: Any = None
    negatives: Any = None
    id_column: str | None = None
    kind: Kind | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text_columns: Sequence[str] = ()
    key: str | None = None
    size: Any = None
    skip_unreadable: bool = False

    def read(self, source: Any) -> OwnData:
        """Read the source with these options."""
        return read(source, **vars(self))

    def open(self, source: Any) -> Rows:
        """The rows without their labels, which are no features."""
        leave_out = (self.label,) if isinstance(self.label, str) and not self.label.endswith(".npy") else ()
        return open_rows(
            source, kind=self.kind, columns=self.columns, id_column=self.id_column, leave_out=leave_out, drop=self.drop,
            categorical=(*self.categorical, *self.text_columns), key=self.key, size=self.size,
            skip_unreadable=self.skip_unreadable,
        )  # fmt: skip


def sample(
    data: OwnData, n: int, seed: int = 0, *, keep_positives: bool = False, also: Collection[str] = ()
) -> OwnData:
    """A uniform random subset of `n` rows in their order, from one streaming pass that holds only these in memory.

    Args:
        data: what `read` returned.
        n: how many rows; all rows if there are fewer.
        seed: the same seed draws the same rows.
        keep_positives: keep every labelled positive and every confirmed negative and draw only the unlabelled rows,
            which leaves the share of positives inside the unlabelled set as it is.
        also: ids of unlabelled rows that are added where they are not drawn, and marked as `extra`.
    """
    check_count(OWNER, "n", n)
    check_count(OWNER, "seed", seed, low=0)
    if n >= len(data):
        return data
    rng = np.random.default_rng(seed)
    known = data.s if data.negative is None else data.s | data.negative
    kept = np.flatnonzero(known) if keep_positives else np.empty(0, dtype=np.intp)
    if keep_positives and n < len(kept) + (1 if data.negative is None else FEWEST_UNLABELLED):
        kinds = "labelled positives" if data.negative is None else "labelled positives and confirmed negatives"
        raise bad_argument(OWNER, "n", f"more than the {len(kept)} {kinds} that are kept", n)
    pool = np.flatnonzero(~known) if keep_positives else len(data)
    index = np.concatenate([kept, rng.choice(pool, n - len(kept), replace=False)])
    added = ~known
    added[index] = False
    added[added] = [str(one) in also for one in data.ids[added].tolist()]
    index = np.sort(np.concatenate([index, np.flatnonzero(added)]))
    s, extra = data.s[index], added[index]
    if s.all() or not s.any():
        got = Described(f"{n} rows with {int(s.sum())} of the {int(data.s.sum())} labelled positives")
        raise bad_argument(OWNER, "n", "enough for both P and U (keep_positives=True keeps all of P)", got)
    negative = None if data.negative is None else check_negatives(data.negative[index], s, len(s), OWNER)
    return OwnData(data.rows.take(index), s, data.ids[index], negative, extra if extra.any() else None)


def _names(rows: Rows, id_column: str | None) -> labelled_rows.RowNames:
    folder = rows.folder if isinstance(rows, ImageRows | TextFiles) else None
    return labelled_rows.RowNames(_ids(rows, id_column), id_column, folder)


def _ids(rows: Rows, id_column: str | None) -> NDArray[Any]:
    if isinstance(rows, ImageRows | TextFiles):
        return rows.ids()
    ids = rows.ids() if isinstance(rows, TableRows) else rows.ids if isinstance(rows, ArrayRows) else None
    if id_column is None or ids is None:
        return np.arange(len(rows))
    labelled_rows.check_distinct(ids, id_column)
    return ids


def _observed(
    rows: Rows, source: Any, names: labelled_rows.RowNames, positives: Any, label: Any, positive_value: Any
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """s, and the confirmed negatives of a third folder, if there is one."""
    if positives is not None:
        return labelled_rows.from_list(positives, names), None
    with about_file(file_of(source)):
        if label is not None:
            values, name = _labels(rows, source, label)
            return labelled_rows.from_labels(values, len(names.ids), positive_value=positive_value, name=name), None
        if isinstance(rows, ImageRows | TextFiles) and (rows.folder / labelled_rows.POSITIVE).is_dir():
            return labelled_rows.from_folders(rows.names)
    allowed = "given: positives=, label=, or files in the folders positive/ and unlabelled/"
    raise bad_argument(OWNER, "the labelled positives", allowed, None)


def _labels(rows: Rows, source: Any, label: Any) -> tuple[Any, str]:
    """The labels and what to call them."""
    if isinstance(label, str | Path):
        if str(label).endswith(".npy"):
            return np.array(mapped(Path(label))()), f"labels in {Path(label).name}"
        if isinstance(rows, TableRows):
            return rows.column(str(label)), f"column {label!r}"
        if isinstance(source, str | Path) and Path(source).suffix.lower() == ".npz":
            return np.array(mapped(Path(source), str(label))()), f"array {label!r}"
        raise bad_argument(OWNER, "label", "one label per row, or a .npy file of them", label)
    pandas = hasattr(source, "iloc") and hasattr(label, "iloc")
    if pandas and len(source) == len(label) and not source.index.equals(label.index):
        raise bad_argument(OWNER, "label", "a Series with the index of the frame", Described("another index"))
    return label if hasattr(label, "to_numpy") else as_array(label), "label"
