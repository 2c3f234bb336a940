"""Scoring: rows of any size through a model into a file, in memory that does not grow with them."""

import csv
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own.batch import Rows, need
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError, RunError, bad_argument, check_count, check_share
from pucl.models.model import Model
from pucl.models.places import check_file

OWNER = "pucl.score"
SUFFIXES = (".parquet", ".csv")
COLUMNS = ("id", "probability", "label", "reliability")
Write = Callable[["ScoredRows"], None]
ColumnWarnings = dict[tuple[str, bool], ColumnWarning]  # by column, and whether it is about new categories


@dataclass(frozen=True)
class ScoredRows:
    """The scores of some rows.

    Attributes:
        ids: what the rows are called.
        probability: of being positive.
        label: whether the probability is above the threshold.
        reliability: |2p − 1|, where p is the probability.
    """

    ids: NDArray[Any]
    probability: NDArray[np.float64]
    label: NDArray[np.bool_]
    reliability: NDArray[np.float64]


@dataclass(frozen=True)
class ScoredFile:
    """How many rows were scored, how many are labelled positive, and the file with the scores."""

    rows: int
    positive: int
    path: Path


def scores(
    model: Model,
    source: Any,
    *,
    batch_size: int = 8192,
    threshold: float = 0.5,
    strict: bool = False,
    **options: Any,
) -> Iterator[ScoredRows]:
    """The scores of all rows of an array, a frame, a file or a folder, batch by batch.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        batch_size: rows held at a time.
        threshold: of the probability, for the label.
        strict: refuse categories and missing values that training did not have; otherwise warn once per column.
        **options: how to read the source, such as ``id_column`` (default: that of training, if the source has it).
    """
    check_count(OWNER, "batch_size", batch_size)
    check_share(OWNER, "threshold", threshold)
    gathered: ColumnWarnings = {}
    for batch in _opened(model, source, options).batches(batch_size):
        with _gathering(gathered, strict):
            rows = model.schema.encode(batch, owner=OWNER)
        probability = torch.sigmoid(model.logits(rows).double()).numpy()
        yield ScoredRows(batch.ids, probability, probability > threshold, np.abs(2 * probability - 1))
    for warning in gathered.values():
        warnings.warn(warning, stacklevel=2)


@contextmanager
def _gathering(gathered: ColumnWarnings, strict: bool) -> Iterator[None]:
    """Add warnings about columns to those of earlier batches; with `strict` the first one is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for entry in caught:
        warning = entry.message
        if not isinstance(warning, ColumnWarning):
            warnings.warn_explicit(warning, entry.category, entry.filename, entry.lineno)
        elif strict:
            raise InputError(str(warning).rpartition("; ")[0], owner=OWNER)  # without the consequence
        else:
            key = (warning.name, bool(warning.new))
            gathered[key] = gathered[key] + warning if key in gathered else warning


def _opened(model: Model, source: Any, options: Mapping[str, Any]) -> Rows:
    """The rows, with the id column of training unless the user names another or the source lacks it."""
    known = model.record.id_column
    if known is not None and options.get("id_column") is None:
        with suppress(InputError):
            return model.schema.open(source, owner=OWNER, **{**options, "id_column": known})
    return model.schema.open(source, owner=OWNER, **options)


def score_to_file(
    model: Model,
    source: Any,
    out: str | Path,
    *,
    on_progress: Callable[[int], None] | None = None,
    **options: Any,
) -> ScoredFile:
    """Write id, probability, label and reliability of every row to a Parquet or CSV file, whole or not at all.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        out: a path that ends in .parquet or .csv.
        on_progress: called with the number of rows done after every batch.
        **options: the other arguments of `scores`.
    """
    out = Path(out)
    check_file(OWNER, "out", out, SUFFIXES)
    if isinstance(source, str | Path) and out.exists() and Path(source).exists() and out.samefile(source):
        raise bad_argument(OWNER, "out", "another file than the source", str(out))
    rows = positive = 0
    with _whole(out) as part, (_parquet if out.suffix.lower() == ".parquet" else _csv)(part) as write:
        for batch in scores(model, source, **options):
            write(batch)
            rows, positive = rows + len(batch.ids), positive + int(batch.label.sum())
            if on_progress is not None:
                on_progress(rows)
    return ScoredFile(rows, positive, out)


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A temporary file that replaces `out` if all goes well and is removed if not."""
    part, made = out.with_name(f"{out.name}.part"), not out.parent.exists()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(out)
    except OSError as error:
        raise RunError(f"{OWNER}: cannot write {out}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
            if made:
                out.parent.rmdir()  # fails, as it should, if there are other files in it


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)

        def write(batch: ScoredRows) -> None:
            columns = (batch.ids.tolist(), batch.probability.tolist(), batch.label.tolist(), batch.reliability.tolist())
            writer.writerows((i, f"{p:.9g}", int(label), f"{r:.9g}") for i, p, label, r in zip(*columns, strict=True))

        yield write


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    arrow, parquet = need("pyarrow", "a Parquet file"), need("pyarrow.parquet", "a Parquet file")
    opened: list[Any] = []

    def write(batch: ScoredRows) -> None:
        columns = (batch.ids, batch.probability, batch.label, batch.reliability)
        table = arrow.table({name: arrow.array(column) for name, column in zip(COLUMNS, columns, strict=True)})
        if not opened:
            opened.append(parquet.ParquetWriter(path, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()
