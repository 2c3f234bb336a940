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
Write = Callable[["Scores"], None]
Odd = dict[tuple[str, bool], ColumnWarning]  # by column, and whether it is about new categories


@dataclass(frozen=True)
class Scores:
    """Some rows' scores.

    Attributes:
        ids: what the rows are called.
        probability: of being positive.
        label: whether it is above the threshold.
        reliability: how far it lies from one half, |2p − 1|.
    """

    ids: NDArray[Any]
    probability: NDArray[np.float64]
    label: NDArray[np.bool_]
    reliability: NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """What came of scoring a file: how many rows, how many positive, and where the scores are."""

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
) -> Iterator[Scores]:
    """The scores of all rows of an array, a frame, a file or a folder, batch by batch.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        batch_size: rows held at a time.
        threshold: of the probability, for the label.
        strict: refuse categories and missing values that training did not have; else one warning a column in the end.
        **options: how to read the source, such as ``id_column``; that of training is taken where it is there.
    """
    check_count(OWNER, "batch_size", batch_size)
    check_share(OWNER, "threshold", threshold)
    odd: Odd = {}
    for batch in _opened(model, source, options).batches(batch_size):
        with _gathered(odd, strict):
            rows = model.schema.encode(batch, owner=OWNER)
        probability = torch.sigmoid(model.logits(rows).double()).numpy()
        yield Scores(batch.ids, probability, probability > threshold, np.abs(2 * probability - 1))
    for warning in odd.values():
        warnings.warn(warning, stacklevel=2)


@contextmanager
def _gathered(odd: Odd, strict: bool) -> Iterator[None]:
    """Warnings about columns join those of earlier batches; where people are strict, the first is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        found = one.message
        if not isinstance(found, ColumnWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif strict:
            raise InputError(str(found).rpartition("; ")[0], owner=OWNER)  # without what would be done instead
        else:
            key = (found.name, bool(found.new))
            odd[key] = odd[key] + found if key in odd else found


def _opened(model: Model, source: Any, options: Mapping[str, Any]) -> Rows:
    """The rows, with the ids that training had if nobody names others and the source has them."""
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
    **how: Any,
) -> Scored:
    """Write id, probability, label and reliability of every row to a Parquet or CSV file, whole or not at all.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        out: a path that ends in .parquet or .csv.
        on_progress: called with the number of rows done after every batch.
        **how: the other arguments of `scores`.
    """
    out = Path(out)
    check_file(OWNER, "out", out, SUFFIXES)
    if isinstance(source, str | Path) and out.exists() and Path(source).exists() and out.samefile(source):
        raise bad_argument(OWNER, "out", "another file than the rows", str(out))
    rows = positive = 0
    with _whole(out) as part, (_parquet if out.suffix.lower() == ".parquet" else _csv)(part) as write:
        for found in scores(model, source, **how):
            write(found)
            rows, positive = rows + len(found.ids), positive + int(found.label.sum())
            if on_progress is not None:
                on_progress(rows)
    return Scored(rows, positive, out)


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A file beside `out` that takes its place if all went well, and is gone if not."""
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
                out.parent.rmdir()  # which it only is while it is empty


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)

        def write(found: Scores) -> None:
            columns = (found.ids.tolist(), found.probability.tolist(), found.label.tolist(), found.reliability.tolist())
            writer.writerows((i, f"{p:.9g}", int(label), f"{r:.9g}") for i, p, label, r in zip(*columns, strict=True))

        yield write


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    arrow, parquet = need("pyarrow", "a Parquet file"), need("pyarrow.parquet", "a Parquet file")
    opened: list[Any] = []

    def write(found: Scores) -> None:
        columns = (found.ids, found.probability, found.label, found.reliability)
        table = arrow.table({name: arrow.array(column) for name, column in zip(COLUMNS, columns, strict=True)})
        if not opened:
            opened.append(parquet.ParquetWriter(path, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()
