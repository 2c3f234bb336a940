"""Files of scores or embeddings, .parquet or .csv, written batch by batch and whole or not at all."""

import csv
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pucl.data.own.batch import need
from pucl.errors import RunError, RunWarning, users_line
from pucl.files import replacing
from pucl.formulas import is_formula, marked

Columns = Mapping[str, NDArray[Any]]  # some rows: the values of every column; vectors are (n, k)
Write = Callable[[Columns], None]


@dataclass
class _Formulas:
    """How many texts a spreadsheet would have run, and the first of them."""

    count: int = 0
    first: str = ""

    def marked(self, value: str) -> str:
        """The text as it can be written."""
        if is_formula(value):
            self.count, self.first = self.count + 1, self.first or value
        return marked(value)


@contextmanager
def writing(out: Path, *, owner: str) -> Iterator[Write]:
    """A function that adds rows to a file, which takes the place of `out` if all goes well and is removed if not.

    In a CSV file, texts that a spreadsheet would run have an apostrophe in front, and a warning says so.
    """
    formulas = _Formulas()
    is_parquet = out.suffix.lower() == ".parquet"
    with _whole(out, owner) as part, _parquet(part) if is_parquet else _csv(part, formulas) as write:
        yield write
    if formulas.count:
        many = "A text" if formulas.count == 1 else f"{formulas.count:,} texts"
        message = (
            f"{many} that a spreadsheet would run as a formula, such as {formulas.first[:40]!a}, got an apostrophe in "
            f"front in {out.name}; a Parquet file has texts as they are."
        )
        warnings.warn(message, RunWarning, stacklevel=users_line())


@contextmanager
def _whole(out: Path, owner: str) -> Iterator[Path]:
    made = not out.parent.exists()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            yield part
    except OSError as error:
        raise RunError(f"{owner}: cannot write {out}: {error.strerror or error}") from None
    finally:
        if made:
            with suppress(OSError):  # there are other files in it
                out.parent.rmdir()


@contextmanager
def _csv(path: Path, formulas: _Formulas) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)

        def write(columns: Columns) -> None:
            if not file.tell():
                writer.writerow(columns)
            cells = ([_text(value, formulas) for value in column.tolist()] for column in columns.values())
            writer.writerows(zip(*cells, strict=True))

        yield write


def _text(value: Any, formulas: _Formulas) -> Any:
    """A number in nine digits, a label as 0 or 1, a text that a spreadsheet would run marked, any other as it is."""
    if isinstance(value, str):
        return formulas.marked(value)
    if isinstance(value, bool):
        return int(value)
    return f"{value:.9g}" if isinstance(value, float) else value


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    arrow, parquet = need("pyarrow", "a Parquet file"), need("pyarrow.parquet", "a Parquet file")
    opened: list[Any] = []

    def array(column: NDArray[Any]) -> Any:
        if column.ndim == 1:
            return arrow.array(column)
        return arrow.FixedSizeListArray.from_arrays(arrow.array(column.reshape(-1)), column.shape[1])

    def write(columns: Columns) -> None:
        table = arrow.table({name: array(column) for name, column in columns.items()})
        if not opened:
            opened.append(parquet.ParquetWriter(path, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()
