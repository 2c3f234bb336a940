"""A round of a review: score the rows, pick those worth a look, and write them as a sheet."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own import OwnData, ReadOptions, open_rows
from pucl.data.own.files import is_table
from pucl.data.own.table_rows import TableRows
from pucl.errors import InputError, RunWarning, bad_argument
from pucl.fitting.sampling import read_rows
from pucl.models.model import Model
from pucl.review.answers import Standing, standing
from pucl.review.changes import drift_of
from pucl.review.drift import Drift
from pucl.review.folder import log_of, next_sheet, working_in, write_sheet
from pucl.review.picking import Pick, check_strategy, pick
from pucl.review.share import RANDOM_SHEET
from pucl.review.sheet import as_page, as_table, sheet_rows
from pucl.review.strategies import MIXED, RANDOM

BATCH = 4096  # rows scored at a time


@dataclass(frozen=True)
class Round:
    """A sheet that was written.

    Attributes:
        name: of the sheet; empty where there is nothing left to ask, and no sheet.
        files: the sheet as CSV and as a page.
        picks: the rows on it.
        left: how many rows could still be asked.
        drift: rows that the model did not learn from against those it did; None where that cannot be told.
    """

    name: str
    files: tuple[Path, ...]
    picks: tuple[Pick, ...]
    left: int
    drift: Drift | None


def write_round(
    model: Model,
    source: str | Path,
    folder: Path,
    reading: ReadOptions,
    *,
    strategy: str = MIXED,
    n: int = 20,
    seed: int = 0,
    max_rows: int | None = None,
    owner: str = "pucl review",
) -> Round:
    """Pick rows and write the next sheet of a review.

    Rows that are labelled, answered, skipped, or stand on an earlier sheet are not picked, but for those whose answers
    contradict each other, which come first.

    Args:
        model: that scores the rows.
        source: what `pucl.read` takes.
        folder: of the review.
        reading: how to read the source; without labels all rows count as unlabelled, with a warning.
        strategy: see `pucl.review.picking.pick`.
        n: how many rows.
        seed: of whatever is drawn.
        max_rows: rows that are looked at, see `read_rows`.
        owner: who signs the errors.
    """
    check_strategy(strategy)
    twofold = [one for one, row in standing(log_of(folder, owner)).items() if row.contradicts]
    data = read_for_review(model, source, reading, max_rows=max_rows, seed=seed, also=twofold, owner=owner)
    rows = model.schema.rows(data, owner=owner)
    logits = np.concatenate([model.logits(part).double().numpy() for part in torch.split(rows, BATCH)])
    z = model.embed(rows)
    with working_in(folder, owner):
        log = log_of(folder, owner)
        asked = standing(log)
        free, known, again = masks(data, asked)
        if asked and not any(str(one) in asked for one in data.ids.tolist()):
            text = f"none of the {len(asked):,} rows in {folder} is in the data"
            warnings.warn(text, RunWarning, stacklevel=2)
        picks = pick(strategy, n, logits, z, free, known, seed=seed, again=again)
        left, found = int(free.sum()), drift_of(model, data, rows, seed=seed)
        if not picks:
            return Round("", (), (), left, found)
        name = next_sheet(folder, log) + (RANDOM_SHEET if strategy == RANDOM and not again.any() else "")
        shown = sheet_rows(data, picks, logits)
        page = as_page(name, shown, folder=str(folder), title=Path(source).name)
        ids = [row.id for row in shown]
        files = write_sheet(folder, name, ids, as_table(name, shown), page)
    return Round(name, files, tuple(picks), left - int(free[[each.row for each in picks]].sum()), found)


def masks(
    data: OwnData, asked: Mapping[str, Standing]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows that may be picked, rows that are known or were asked, and rows that are to be asked again, (n,) each."""
    rows = [asked.get(str(one), Standing()) for one in data.ids.tolist()]
    again = np.array([row.contradicts and not row.again for row in rows], dtype=bool)
    was = np.array([bool(row.said) or row.skipped or row.open for row in rows], dtype=bool)
    labelled = data.s if data.negative is None else data.s | data.negative
    again &= ~labelled
    return ~labelled & ~was, labelled | (was & ~again), again


def read_for_review(
    model: Model,
    source: str | Path,
    reading: ReadOptions,
    *,
    max_rows: int | None,
    seed: int,
    also: Collection[str] = (),
    owner: str,
) -> OwnData:
    """The rows with their labels where there are any; of very many a sample, as a fit draws it, and the rows `also`."""
    record, schema = model.record, model.schema
    options: dict[str, Any] = {**vars(reading), "kind": schema.kind}
    if is_table(source):
        options |= {"columns": schema.needed, "categorical": schema.as_text}
    if schema.resize:
        options["size"] = schema.shape[1:]
    if reading.id_column is None and record.id_column is not None and _has(source, record.id_column):
        options["id_column"] = record.id_column
    own = reading.positives is not None or reading.label is not None
    if not own and record.label is not None and _has(source, record.label):
        options["label"] = record.label
    found = ReadOptions(**options)
    try:
        data, sampling = read_rows(source, found, max_rows, seed=seed, also=also)
    except InputError:
        if own:
            raise
        return _without_labels(model, source, found, owner)
    if sampling is not None:
        text = f"rows are picked from {len(data):,} of {sampling.rows.n:,} rows, a random sample (--rows takes more)"
        warnings.warn(text, RunWarning, stacklevel=3)
    return data


def _has(source: str | Path, column: str) -> bool:
    """Whether a column is in the source."""
    if not is_table(source):
        return False
    rows = open_rows(source, kind="table")
    return isinstance(rows, TableRows) and column in rows.scan.schema.names


def _without_labels(model: Model, source: str | Path, reading: ReadOptions, owner: str) -> OwnData:
    """Rows of which none is known to be labelled."""
    named: dict[str, Any] = {"id_column": reading.id_column}
    rows = model.schema.open(source, owner=owner, **named)
    ids = np.concatenate([batch.ids for batch in rows.batches(BATCH)])
    if len(set(map(str, ids.tolist()))) < len(ids):
        raise bad_argument(owner, "id_column", "a column of distinct ids", reading.id_column)
    text = "no labels are given (--label or --positives), so labelled rows may be picked, too"
    warnings.warn(text, RunWarning, stacklevel=4)
    return OwnData(rows, np.zeros(len(rows), dtype=bool), ids)
