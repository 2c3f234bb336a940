"""Tables as streams of Arrow record batches: Parquet, CSV, Arrow files and frames, never a whole file at once."""

import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from pucl.data.own.batch import OWNER, PASS, need
from pucl.data.own.columns import as_dates
from pucl.data.own.room import check_room
from pucl.data.own.separators import separator_of
from pucl.errors import Described, InputError, about_file, bad_argument, one_line, unknown_name

BLOCK = 8 << 20  # bytes of a CSV file parsed at a time; the types of its columns are inferred from the first block
BUFFER = 1 << 20  # bytes of a Parquet column held at a time: a row group may be larger than memory
MOST_UNPACKED = 256 << 20  # bytes of a workbook, which is read whole
MOST_CELLS, MOST_ROWS = 20_000_000, 1 << 20  # of a sheet, empty ones between others included
SHEETS = (".xlsx", ".xls", ".ods")
SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".arrow", ".feather", ".ipc", *SHEETS)


@dataclass(frozen=True)
class Scan:
    """A table that is read as often as needed, some columns at a time: ``read(columns, size)`` gives record batches."""

    name: str
    schema: Any
    read: Callable[[list[str], int], Iterator[Any]]
    n_rows: int | None  # None where only reading tells
    parts: tuple["Scan", ...] = ()  # the files, where there are several
    file: str = ""  # what errors call the file or folder; empty for a frame

    def check_columns(self, *names: str) -> None:
        """Every name is a column, or one error with all that are not, or with the nearest one."""
        absent = [name for name in dict.fromkeys(names) if name not in self.schema.names]
        if absent:
            raise unknown_name(f"column of {self.name}", absent[0], self.schema.names, others=absent[1:])

    @contextmanager
    def named(self) -> Iterator[None]:
        """Whatever is found wrong with the values of the table inside is one line that names the file."""
        try:
            with about_file(self.file):
                yield
        except (need("pyarrow", self.name).ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"{self.name} cannot be read: {one_line(error)}", owner=OWNER) from None

    def count(self) -> int:
        """How many rows there are."""
        if self.n_rows is not None:
            return self.n_rows
        return sum(len(part) for part in self.read(self.schema.names[:1], PASS))

    def has_more_than(self, n: int) -> bool:
        """Whether there are more rows than n, which reads no more of them than it takes to know."""
        if self.n_rows is not None:
            return self.n_rows > n
        counts = accumulate(len(part) for part in self.read(self.schema.names[:1], PASS))
        return any(count > n for count in counts)


def scan_file(path: Path, *, text: tuple[str, ...] = (), id_column: str | None = None) -> Scan:
    """The table in a file, which may have no rows; the columns named in `text` are text in any case (CSV only)."""
    suffix = path.suffix.lower()
    with _readable(path):
        if suffix in (".csv", ".tsv"):
            separator, point = ("\t", ".") if suffix == ".tsv" else separator_of(path)
            scan = _csv(path, separator, point, text, id_column)
        elif suffix in SHEETS:
            scan = replace(scan_frame(_sheet(path, text)), name=path.name)
        else:
            scan = _parquet(path) if suffix in (".parquet", ".pq") else _arrow(path)
        return replace(_named_once(scan), file=path.name)


def _as_arrow_takes(frame: Any) -> Any:
    """A pandas frame whose numbers have the byte order of this machine and 64 bits at most."""
    kinds = {name: kind for name, kind in frame.dtypes.items() if isinstance(kind, np.dtype) and kind.kind in "iuf"}
    native = {name: kind.newbyteorder("=") if kind.itemsize <= 8 else np.dtype("f8") for name, kind in kinds.items()}
    changed = {name: kind for name, kind in native.items() if kind != kinds[name]}
    return frame.astype(changed) if changed else frame


def scan_frame(frame: Any, *, dates: bool = False, text: Sequence[str] = ()) -> Scan:
    """A pandas or polars frame, or an Arrow table; with `dates`, text that holds nothing but dates is taken as such.

    The columns of `text` stay text.
    """
    pa = need("pyarrow", "a frame")
    try:
        if hasattr(frame, "iloc"):
            table = pa.Table.from_pandas(_as_arrow_takes(frame.rename(columns=str)), preserve_index=False)
        else:
            table = frame.to_arrow() if hasattr(frame, "to_arrow") else frame
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"the frame cannot be read: {one_line(error)}", owner=OWNER) from None

    table = as_dates(table, text) if dates else table

    def read(columns: list[str], size: int) -> Iterator[Any]:
        yield from table.select(columns).to_batches(max_chunksize=size)

    return with_rows(_named_once(Scan("the frame", table.schema, read, table.num_rows)))


def _parquet(path: Path) -> Scan:
    pq = need("pyarrow.parquet", "a Parquet file")

    def read(columns: list[str], size: int) -> Iterator[Any]:
        # pre_buffer would keep every row group in memory until the end
        with _readable(path), pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
            left = file.metadata.num_rows
            for batch in file.iter_batches(batch_size=size, columns=columns):
                left -= len(batch)
                yield batch
            if left:  # a damaged column can end early, and Arrow says nothing
                rows = f"{file.metadata.num_rows - left:,} of the {file.metadata.num_rows:,} rows that it announces"
                raise InputError(f"{path.name} cannot be read: it holds {rows}", owner=OWNER)

    with pq.ParquetFile(path) as file:
        return Scan(path.name, file.schema_arrow, read, file.metadata.num_rows)


def _arrow(path: Path) -> Scan:
    pa = need("pyarrow", "an Arrow file")

    def read(columns: list[str], size: int) -> Iterator[Any]:
        with _readable(path), pa.memory_map(str(path)) as bytes_, pa.ipc.open_file(bytes_) as file:
            for i in range(file.num_record_batches):
                batch = file.get_batch(i).select(columns)
                batch.validate(full=True)  # Arrow itself would follow wrong offsets out of the file
                yield from _slices(batch, size)

    with pa.memory_map(str(path)) as bytes_, pa.ipc.open_file(bytes_) as file:
        return Scan(path.name, file.schema, read, None)


def _csv(path: Path, delimiter: str, point: str, text: tuple[str, ...], id_column: str | None) -> Scan:
    pa, csv = need("pyarrow", "a CSV file"), need("pyarrow.csv", "a CSV file")
    one_block = path.stat().st_size <= BLOCK

    def open_(types: Any, columns: list[str] | None) -> Any:
        convert = csv.ConvertOptions(
            column_types=types, include_columns=columns, strings_can_be_null=True, decimal_point=point
        )
        parse = csv.ParseOptions(delimiter=delimiter)
        check_room(BLOCK)
        return csv.open_csv(path, csv.ReadOptions(block_size=BLOCK), parse, convert)

    def widened(field: Any) -> Any:
        """Later blocks may hold fractions where the first holds whole numbers, or values where it has none."""
        if pa.types.is_null(field.type) and one_block:
            return field
        whole = pa.types.is_integer(field.type) and field.name != id_column
        return field.with_type(pa.float64()) if whole or pa.types.is_null(field.type) else field

    with open_({name: pa.string() for name in text}, None) as file:
        schema = pa.schema([widened(field) for field in file.schema])
    pa.default_memory_pool().release_unused()  # Arrow would keep what a pass over very many columns took

    def read(columns: list[str], size: int) -> Iterator[Any]:
        with _readable(path, schema.names), open_(schema, columns) as file:
            for part in file:
                yield from _slices(part, size)
        pa.default_memory_pool().release_unused()

    return Scan(path.name, schema, read, None)


def _sheet(path: Path, text: tuple[str, ...]) -> Any:
    """The first sheet of a workbook, whole: such files are small."""
    pandas = need("pandas", path.name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and dates that are not what they should be
            if zipfile.is_zipfile(path):
                _check_sheet(path)
            return pandas.read_excel(path, dtype=dict.fromkeys(text, str))
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"{path.name} cannot be read: {one_line(error)}", owner=OWNER) from None
    except Exception as error:  # archives, XML and cells can be damaged in any way
        raise InputError(f"{path.name} cannot be read as a workbook: {one_line(error)}", owner=OWNER) from None


def _check_sheet(path: Path) -> None:
    """Refuse a workbook that stands for more than would fit, such as one cell at the far end of a sheet."""
    with zipfile.ZipFile(path) as book:
        size = sum(member.file_size for member in book.infolist())
    if size > MOST_UNPACKED:
        got = Described(f"one of {size >> 20:,} MB; save the sheet as CSV")
        raise bad_argument(OWNER, path.name, f"a workbook of at most {MOST_UNPACKED >> 20} MB once unpacked", got)
    if path.suffix.lower() != ".xlsx":
        return
    book = need("openpyxl", path.name).load_workbook(path, read_only=True)
    try:
        sheet, rows, width = book.worksheets[0], 0, 1
        sheet.reset_dimensions()
        for row in sheet.iter_rows(values_only=True):
            rows, width = rows + 1, max(width, len(row))
            if rows > MOST_ROWS or rows * width > MOST_CELLS:
                got = Described(f"a cell in row {rows:,} of {width:,} columns; save the sheet as CSV")
                raise bad_argument(OWNER, path.name, f"a sheet of at most {MOST_CELLS:,} cells", got)
    finally:
        book.close()


def _slices(part: Any, size: int) -> Iterator[Any]:
    for start in range(0, len(part), size):
        yield part.slice(start, size)


def with_rows(scan: Scan) -> Scan:
    """The scan, if it has rows."""
    if not scan.schema.names or next(scan.read(scan.schema.names[:1], 1), None) is None:
        raise bad_argument(OWNER, scan.name, "a table with rows", Described("an empty one"))
    return scan


def _named_once(scan: Scan) -> Scan:
    twice = next((name for name, count in Counter(scan.schema.names).items() if count > 1), None)
    if twice is not None:
        raise bad_argument(OWNER, f"columns of {scan.name}", "named differently", Described(f"{twice!r} twice"))
    return scan


@contextmanager
def _readable(path: Path, columns: Sequence[str] = ()) -> Iterator[None]:
    """Whatever Arrow finds wrong with the file becomes one line that names it, and the column where it is known."""
    if not path.is_file():
        raise bad_argument(OWNER, "source", "a file that exists", Described(str(path)))
    arrow = need("pyarrow", path.name).ArrowException
    try:
        yield
    except (arrow, OSError, UnicodeDecodeError) as error:  # the last for names of columns
        reason = one_line(error)
        if columns:
            reason = re.sub(r"CSV column #(\d+)", lambda match: f"column {columns[int(match[1])]!r}", reason)
        raise InputError(f"{path.name} cannot be read: {reason}", owner=OWNER) from None
