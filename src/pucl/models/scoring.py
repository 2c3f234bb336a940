"""Scoring: rows of any size through a model into a file, in memory that does not grow with them."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own.batch import Rows
from pucl.data.own.files import is_one_of
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError, bad_argument, check_count, signed_by, users_line
from pucl.models.labelling import OWNER, LabelRule
from pucl.models.model import Model
from pucl.models.places import check_file
from pucl.models.writing import writing

SUFFIXES = (".parquet", ".csv")
COLUMNS = ("id", "probability", "label", "reliability")
COLUMNS_OF_A_BOUND = ("id", "score", "label")  # where π is only bounded, nothing is a probability


@dataclass(frozen=True)
class ScoredRows:
    """The scores of some rows.

    Attributes:
        ids: what the rows are called.
        score: logits of the model; the higher, the likelier positive.
        probability: of being positive, the sigmoid of the score; only an order where π is only bounded.
        label: whether the row is labelled positive.
        reliability: |2p − 1|, where p is the probability.
    """

    ids: NDArray[Any]
    score: NDArray[np.float64]
    probability: NDArray[np.float64]
    label: NDArray[np.bool_]
    reliability: NDArray[np.float64]

    def columns(self, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
        """The values by the name they have in a file of scores."""
        return {name: self.ids if name == "id" else getattr(self, name) for name in names}


@dataclass(frozen=True)
class ScoredFile:
    """How many rows were scored, how many are labelled positive and by which rule, and the file with the scores."""

    rows: int
    positive: int
    path: Path
    rule: str


def scores(
    model: Model,
    source: Any,
    *,
    batch_size: int = 8192,
    threshold: float | None = None,
    recall: float | None = None,
    precision: float | None = None,
    strict: bool = False,
    **options: Any,
) -> Iterator[ScoredRows]:
    """The scores of all rows of an array, a frame, a file or a folder, batch by batch.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        batch_size: rows held at a time.
        threshold: of the probability, for the label; the model's own, 0.5, when nothing else is given.
        recall: label with the threshold that finds this share of the positives, by held-out rows; needs no π.
        precision: label with the lowest threshold at which this share of the labelled rows should be positive.
        strict: refuse categories and missing values that training did not have; otherwise warn once per column.
        **options: how to read the source, such as ``id_column`` (default: that of training, if the source has it).
    """
    cut = LabelRule(threshold, None, recall, precision).checked(model).logit(model)
    for ids, logit in _logits(model, source, batch_size, strict, options):
        yield _scored(ids, logit, logit > cut)


def columns_of(model: Model) -> tuple[str, ...]:
    """What a file of scores holds: probability and reliability, or the score where π is only bounded."""
    return COLUMNS_OF_A_BOUND if model.record.prior.is_bound else COLUMNS


def _scored(ids: NDArray[Any], logit: NDArray[np.float64], label: NDArray[np.bool_]) -> ScoredRows:
    probability = torch.sigmoid(torch.from_numpy(logit)).numpy()
    return ScoredRows(ids, logit, probability, label, np.abs(2 * probability - 1))


def _logits(
    model: Model, source: Any, batch_size: int, strict: bool, options: Mapping[str, Any]
) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Ids and logits, batch by batch."""
    for ids, rows in _encoded(model, source, batch_size, strict, options):
        yield ids, model.logits(rows).double().numpy()


def _encoded(
    model: Model, source: Any, batch_size: int, strict: bool, options: Mapping[str, Any]
) -> Iterator[tuple[NDArray[Any], torch.Tensor]]:
    """Ids and rows as the model takes them, batch by batch; what is odd about the columns is said at the end."""
    check_count(OWNER, "batch_size", batch_size)
    gathered: list[ColumnWarning] = []
    for batch in _opened(model, source, options).batches(batch_size):
        with _gathering(gathered, strict):
            rows = model.schema.encode(batch, owner=OWNER)
        yield batch.ids, rows
    for warning in joined(gathered):
        warnings.warn(warning, stacklevel=users_line())


@contextmanager
def _gathering(gathered: list[ColumnWarning], strict: bool) -> Iterator[None]:
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
            gathered[:] = joined([*gathered, warning])


def joined(gathered: Iterable[ColumnWarning]) -> list[ColumnWarning]:
    """One warning for each column, and another one for its new categories."""
    sums: dict[tuple[str, bool], ColumnWarning] = {}
    for warning in gathered:
        key = (warning.name, bool(warning.new))
        sums[key] = sums[key] + warning if key in sums else warning
    return list(sums.values())


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
    top: int | None = None,
    threshold: float | None = None,
    recall: float | None = None,
    precision: float | None = None,
    batch_size: int = 8192,
    strict: bool = False,
    on_progress: Callable[[int], None] | None = None,
    **options: Any,
) -> ScoredFile:
    """Write id, probability, label and reliability of every row to a Parquet or CSV file, whole or not at all.

    Where π is only bounded, the columns are id, score and label: a score orders the rows, and is no probability.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        out: a path that ends in .parquet or .csv.
        top: label so many rows positive, the best; equals are taken in their order. The rows are read twice.
        threshold: as in `scores`, and so are the next four; only one of these rules can be given.
        recall: see `scores`.
        precision: see `scores`.
        batch_size: see `scores`.
        strict: see `scores`.
        on_progress: called with the number of rows done after every batch, with `top` in both passes.
        **options: the other arguments of `scores`.
    """
    report = on_progress or _silent
    rule = LabelRule(threshold, top, recall, precision).checked(model)
    out = _checked_out(out, source, SUFFIXES)

    def logits() -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
        return _logits(model, source, batch_size, strict, options)

    cut, equals = (rule.logit(model), 0) if top is None else _cut_for(top, logits, report)
    columns = columns_of(model)
    rows = positive = 0
    with writing(out, owner=OWNER) as write:
        for ids, logit in logits():
            also = (logit == cut) & (np.cumsum(logit == cut) <= equals)
            equals -= int(also.sum())
            batch = _scored(ids, logit, (logit > cut) | also)
            write(batch.columns(columns))
            rows, positive = rows + len(ids), positive + int(batch.label.sum())
            report(rows)
    return ScoredFile(rows, positive, out, rule.in_words(model))


@signed_by("pucl.embed_to_file")
def embed_to_file(
    model: Model,
    source: Any,
    out: str | Path,
    *,
    batch_size: int = 8192,
    strict: bool = False,
    on_progress: Callable[[int], None] | None = None,
    **options: Any,
) -> int:
    """Write id and embedding of every row to a Parquet file, whole or not at all; returns the number of rows.

    Args:
        model: a fitted one.
        source: what `pucl.read` takes.
        out: a path that ends in .parquet; its column ``embedding`` holds vectors of length 1, which `pucl.read` reads.
        batch_size: see `scores`.
        strict: see `scores`.
        on_progress: called with the number of rows done after every batch.
        **options: the other arguments of `scores`.
    """
    report, rows = on_progress or _silent, 0
    out = _checked_out(out, source, SUFFIXES[:1])
    with writing(out, owner=OWNER) as write:
        for ids, encoded in _encoded(model, source, batch_size, strict, options):
            write({"id": ids, "embedding": model.embed(encoded).numpy()})
            rows += len(ids)
            report(rows)
    return rows


def _checked_out(out: str | Path, source: Any, suffixes: tuple[str, ...]) -> Path:
    out = Path(out)
    check_file(OWNER, "out", out, suffixes)
    if is_one_of(out, source):
        raise bad_argument(OWNER, "out", "another file than the source", str(out))
    return out


def _silent(rows: int) -> None:
    """Report nothing."""


def _cut_for(top: int, logits: Callable[[], Iterator[Any]], report: Callable[[int], None]) -> tuple[float, int]:
    """The lowest of the `top` largest logits, and how many of these are equal to it, in memory for `top` of them."""
    best, rows = np.empty(0), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)  # the second pass says the same
        for ids, logit in logits():
            best = np.concatenate([best, logit])
            best = np.partition(best, len(best) - top)[-top:] if len(best) > top else best
            rows += len(ids)
            report(rows)
    if rows < top:
        raise bad_argument(OWNER, "top", f"at most the number of rows, {rows:,}", top)
    return float(best.min()), int((best == best.min()).sum())
