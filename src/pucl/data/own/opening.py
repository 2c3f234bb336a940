"""From arrays, frames, files and folders to rows that are read batch by batch."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.data.own import arrays, files, images, scan, texts
from pucl.data.own.batch import OWNER, Batch, Rows
from pucl.data.own.dates import with_parts
from pucl.data.own.table_rows import table_rows
from pucl.errors import Described, bad_argument, check_count
from pucl.registry import INPUTS

ARRAYS = (".npy", ".npz")


def open_rows(
    source: Any,
    *,
    kind: Kind | None = None,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    leave_out: Sequence[str] = (),
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    key: str | None = None,
    size: Any = None,
    skip_unreadable: bool = False,
) -> Rows:
    """Rows of an array, tensor, frame, list of texts, file or folder, of which files are never read whole.

    Args:
        source: a numpy array or torch tensor; a list or Series of texts; a pandas, polars or Arrow table; the path of a
            .csv, .tsv, .parquet, .arrow, .feather, .npy or .npz file; a folder of such tables or a pattern that matches
            them (``data/*.parquet``), which are one table in the order of their names; or a folder of images or of
            .txt files. Texts are a table with the column ``text``.
        kind: ``"image"``, ``"table"`` or ``"vector"``; by the source when not given. Tables are ``"table"``, unless
            their only feature column holds vectors; ``"vector"`` joins one column of numbers per dimension.
        columns: the feature columns of a table; all but the id and those left out when not given.
        id_column: the column with the ids of the rows.
        leave_out: columns that are not features, such as the label.
        drop: more of them, which the user names.
        categorical: columns of a CSV file that are text even where they look like numbers, and of a frame where they
            look like dates.
        key: which array of a .npz file holds the rows; the only one when not given.
        size: images are resized to this many pixels, or to (height, width).
        skip_unreadable: leave out images that cannot be read, with a warning, instead of refusing the folder.
    """
    if kind is not None and kind not in INPUTS:
        raise bad_argument(OWNER, "kind", f"one of {', '.join(INPUTS)}", kind)
    named = None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
    aside = tuple(name for name in leave_out if name != id_column)
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and path.is_dir() and not (kind != "image" and files.is_of_tables(path)):
        return _folder(path, kind, size, skip_unreadable, columns=named, id_column=id_column, key=key)
    _left_out("data other than a folder of images", size=size, skip_unreadable=skip_unreadable or None)
    if path is None or path.suffix.lower() != ".npz":
        _left_out("data other than an .npz file", key=key)
    if path is not None and path.suffix.lower() in ARRAYS and not files.is_pattern(path):
        return _file_of_arrays(path, kind, key, aside, id_column)
    if path is not None:
        table = files.scan_table(path, text=tuple(categorical), id_column=id_column)
        table.check_columns(*categorical)
    elif texts.is_texts(source):
        _left_out("a list of texts", columns=named, id_column=id_column)
        return texts.text_rows(source)
    elif is_frame(source):
        table = with_parts(scan.scan_frame(source, dates=True, text=categorical))
    else:
        _left_out("an array", columns=named, id_column=id_column, drop=tuple(drop) or None)
        return arrays.array_rows(arrays.in_memory(source), kind=kind)
    return table_rows(table, kind=kind, columns=named, id_column=id_column, leave_out=aside, drop=tuple(drop))


def batches(source: Any, *, batch_size: int, columns: Sequence[str] | None = None, **options: Any) -> Iterator[Batch]:
    """The rows of any source in order, at most `batch_size` at a time, in memory that does not grow with the source.

    Args:
        source: what `open_rows` takes, or rows already opened.
        batch_size: the largest number of rows held at a time.
        columns: the feature columns of a table.
        **options: the other arguments of `open_rows`, such as ``id_column``.
    """
    check_count(OWNER, "batch_size", batch_size)
    opened = hasattr(source, "batches") and hasattr(source, "kind")
    if opened and (columns is not None or options):
        raise bad_argument(OWNER, "columns and options", "left out for rows already opened", columns or options)
    rows = source if opened else open_rows(source, columns=columns, **options)
    opened_batches: Iterator[Batch] = rows.batches(batch_size)
    return opened_batches


def _left_out(source: str, **options: Any) -> None:
    """Refuse an option that has no meaning for this kind of source."""
    for name, value in options.items():
        if value is not None:
            raise bad_argument(OWNER, name, f"left out for {source}", value)


def is_frame(source: Any) -> bool:
    """Whether `source` is a pandas, polars or Arrow table."""
    library = type(source).__module__.partition(".")[0]
    if library in ("pandas", "polars", "pyarrow") and type(source).__name__ not in ("DataFrame", "Table"):
        got = Described(f"a {library} {type(source).__name__}")
        raise bad_argument(OWNER, "source", "a DataFrame or an Arrow Table (collect a lazy frame first)", got)
    return library in ("pandas", "polars", "pyarrow")


def _folder(path: Path, kind: Kind | None, size: Any, skip_unreadable: bool, **others: Any) -> Rows:
    """The images of a folder, or its .txt files where there are no images or `kind` is ``"table"``."""
    if kind not in (None, "image", "table"):
        raise bad_argument(OWNER, "kind", "'image' for a folder, or 'table' for one of .txt files", kind)
    if kind == "table" or (kind is None and texts.has_texts(path) and not images.has_images(path)):
        _left_out("a folder of texts", size=size, skip_unreadable=skip_unreadable or None, **others)
        return texts.text_files(path)
    _left_out("a folder of images", **others)
    return images.image_rows(path, size=size, skip_unreadable=skip_unreadable)


def _file_of_arrays(
    path: Path, kind: Kind | None, key: str | None, aside: tuple[str, ...], id_column: str | None
) -> Rows:
    if not path.is_file():
        raise bad_argument(OWNER, "source", "a file that exists", str(path))
    if path.suffix.lower() == ".npy" and id_column is not None:
        raise bad_argument(OWNER, "id_column", "left out for a .npy file", id_column)
    if path.suffix.lower() == ".npz" and key is None:
        left = [name for name in arrays.keys_of(path) if name not in (*aside, id_column)]
        if len(left) != 1:
            raise bad_argument(OWNER, "key", f"the array of {path.name} that holds the rows", Described(str(left)))
        key = left[0]
    rows = arrays.array_rows(arrays.mapped(path, key), kind=kind, file=path.name)
    return rows if id_column is None else replace(rows, ids=_ids(path, id_column, len(rows)))


def _ids(path: Path, key: str, n_rows: int) -> NDArray[Any]:
    """The ids kept under `key` of a .npz file."""
    ids = np.array(arrays.mapped(path, key)())
    if ids.shape != (n_rows,):
        raise bad_argument(OWNER, f"ids {key!r}", f"{n_rows} of them", Described(f"shape {ids.shape}"))
    return ids
