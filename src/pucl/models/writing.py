"""Files of scores or embeddings, .parquet or .csv, written batch by batch and whole or not at all."""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pucl.data.own.batch import need
from pucl.errors import RunError
from pucl.files import replacing

Columns = Mapping[str, NDArray[Any]]  # some rows: the values of every column; vectors are (n, k)
Write = Callable[[Columns], None]


@contextmanager
def writing(out: Path, *, owner: str) -> Iterator[Write]:
    """A function that adds rows to a file, which takes the place of `out` if all goes well and is removed if not."""
    with _whole(out, owner) as part, (_parquet if out.suffix.lower() == ".parquet" else _csv)(part) as write:
        yield write


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
def _csv(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)

        def write(columns: Columns) -> None:
            if not file.tell():
                writer.writerow(columns)
            writer.writerows(zip(*(map(_text, column.tolist()) for column in columns.values()), strict=True))

        yield write


def _text(value: Any) -> Any:
    """A number in nine digits, a label as 0 or 1, anything else as it is."""
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
