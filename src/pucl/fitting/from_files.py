"""From files and folders to a model, or to an estimate of π."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pucl.data.own import OwnData, ReadOptions
from pucl.data.own.batch import load
from pucl.device import pick_device
from pucl.errors import Described, RunWarning, bad_argument, check_count, some, users_line
from pucl.fitting.average import prior_of_rows
from pucl.fitting.compare import CPU
from pucl.fitting.encode import encode_raw
from pucl.fitting.fit import fit
from pucl.fitting.gather import gather
from pucl.fitting.plan import AUTO, FitOptions
from pucl.fitting.progress import OnProgress, StageProgress
from pucl.fitting.resuming import Resumable
from pucl.fitting.sampling import read_rows
from pucl.fitting.start import Start, start_from
from pucl.fitting.text_views import text_views
from pucl.models.folder import load_model
from pucl.models.model import Model
from pucl.models.record import FitRecord, Sampling
from pucl.models.schema import Schema, learn_schema
from pucl.priors import PriorEstimate
from pucl.ranking.prior import estimate_prior
from pucl.registry import get


@dataclass(frozen=True)
class FittedFiles:
    """A model fitted to files, and what is known of the rows it learned from.

    Attributes:
        model: the model.
        data: the rows, s and ids.
        logits: of the rows, by models that did not see the row wherever there is one, (n,).
        answers: 1 (positive), 0 (negative) or NaN, (n,); None without any.
        before: the model that the fit started from; None without one.
    """

    model: Model
    data: OwnData
    logits: NDArray[np.float64]
    answers: NDArray[np.float64] | None = None
    before: Model | None = None


def fit_files(source: str | Path, reading: ReadOptions, options: FitOptions, **more: Any) -> Model:
    """Fit a model to a file or a folder; the arguments are those of `fit_reviewed_files`."""
    return fit_reviewed_files(source, reading, options, **more).model


def fit_reviewed_files(
    source: str | Path,
    reading: ReadOptions,
    options: FitOptions,
    *,
    max_rows: int | None = None,
    device: str | None = None,
    command: str | None = None,
    on_progress: OnProgress | None = None,
    resumable: Resumable | None = None,
    answers: Mapping[str, bool] | None = None,
    before: Model | None = None,
) -> FittedFiles:
    """Fit a model to a file or a folder, with the answers of reviewers and from an earlier model if there are any.

    Args:
        source: what `pucl.read` takes.
        reading: how to read it.
        options: what the user chose.
        max_rows: the largest number of rows to learn from: all labelled positives and confirmed negatives, and a
            random sample of the others, see `read_rows`; chosen by memory and time when not given.
        device: where to train.
        command: the command line, for the report.
        on_progress: called with how far the stages are.
        resumable: where the fit saves itself, see `pucl.fitting.fit.fit`.
        answers: what reviewers said of rows that a model picked, by id; those outside of a sample teach, too.
        before: a model whose encoder is kept, see `start_from`.
    """
    pick_device(device)  # before anything is read
    on_rows = _reading_reporter(on_progress)
    on_rows(0)
    with _recorded_warnings() as texts:
        data, sampling = read_rows(
            source, reading, max_rows, seed=options.seed, time_limit=options.time_limit, also=answers or (),
            on_rows=on_rows,
        )  # fmt: skip
        said = None if answers is None else answers_of(data, answers, options.owner)
        start = None if before is None else start_from(before, data, options)
        content = load(data.rows)
        schema, rows = _schema(data, content, reading, options, start)
        views = text_views(schema, rows, content, options)
        fitted = fit(
            rows, data.s, schema, options, negative=data.negative, answers=said, extra=data.extra, start=start,
            device=device, on_progress=on_progress, resumable=resumable, views=views,
        )  # fmt: skip
    if on_progress is not None:
        on_progress(StageProgress("saving"))
    evidence = gather(fitted, rows, data.s, content=content, ids=data.ids)
    if sampling is not None:
        evidence = replace(evidence, n_unlabelled=sampling.rows.unlabelled)
    record = _recorded(fitted.model.record, source, data, sampling, reading)
    warned = tuple(dict.fromkeys([*texts, *record.warnings]))
    model = replace(fitted.model, record=replace(record, warnings=warned, command=command), evidence=evidence)
    judged = fitted.judged.logits / model.head.temperature
    return FittedFiles(model, data, np.where(np.isfinite(judged), judged, fitted.logits), said, before)


def _recorded(
    record: FitRecord, source: str | Path, data: OwnData, sampling: Sampling | None, reading: ReadOptions
) -> FitRecord:
    """The record with where the rows came from."""
    return replace(
        record,
        source=Path(source).name,
        source_rows=len(data) if sampling is None else sampling.rows.n,
        sampling=sampling,
        id_column=reading.id_column,
        label=reading.label if isinstance(reading.label, str) else None,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _schema(
    data: OwnData, content: Any, reading: ReadOptions, options: FitOptions, start: Start | None
) -> tuple[Schema, Tensor]:
    """The schema and the rows as a model takes them; those of the model whose trained encoder is kept."""
    if start is not None and start.seen_by_encoder is not None:
        return start.model.schema, start.model.schema.encode(content, owner=options.owner)
    schema, rows = learn_schema(
        data, content=content, categorical=reading.categorical, text_columns=reading.text_columns,
        text_encoder=options.text_encoder, download=options.download,
    )  # fmt: skip
    return replace(schema, resize=reading.size is not None), rows


def answers_of(data: OwnData, answers: Mapping[str, bool], owner: str) -> NDArray[np.float64] | None:
    """The answers by row, (n,): 1, 0 or NaN; a warning where some ids are not among the rows, an error if none is.

    Answers that contradict a label of the data are left out with a warning: labels stand.
    """
    if not answers:
        return None
    place = {str(one): number for number, one in enumerate(data.ids.tolist())}
    rows = {place[one]: said for one, said in answers.items() if one in place}
    missing = [one for one in answers if one not in place]
    if not rows:
        got = Described(f"{len(missing):,} ids that are not, such as {missing[0]!r}")
        raise bad_argument(owner, "answers", "about rows of the data, by their ids", got)
    if missing:
        left_out = f"{len(missing):,} of {len(answers):,} answers are left out"
        text = f"{left_out}: no such row without a label is in the data, first {missing[0]!r}"
        warnings.warn(text, RunWarning, stacklevel=users_line())
    values = np.full(len(data), np.nan)
    values[list(rows)] = list(rows.values())
    labels = data.s.astype(np.int8) - (0 if data.negative is None else data.negative.astype(np.int8))
    against = (labels != 0) & np.isfinite(values) & ((labels > 0) != (values > 0))
    if against.any():
        named = some([str(one) for one in data.ids[against].tolist()])
        text = f"answers that contradict a label of the data are left out, the label stands: {named}"
        warnings.warn(text, RunWarning, stacklevel=users_line())
    values[labels != 0] = np.nan
    return values


def _reading_reporter(on_progress: OnProgress | None) -> Callable[[int], None]:
    """Reports how many rows were read."""

    def tell(n_rows: int) -> None:
        if on_progress is not None:
            on_progress(StageProgress("reading", detail=f"{n_rows:,} rows" if n_rows else ""))

    return tell


def estimate_prior_of_files(
    source: str | Path, reading: ReadOptions, *, model: str | Path | None, method: str, max_rows: int | None, seed: int
) -> PriorEstimate:
    """Estimate π of a file or a folder, from the embedding of a model or from the rows; ``"auto"`` as a fit does."""
    if method != AUTO:
        get("priors", method)
    check_count("pucl", "seed", seed, low=0)
    loaded = load_model(model) if model is not None else None
    data, _ = read_rows(source, reading, max_rows, seed=seed)
    if loaded is not None:
        z = loaded.embed(loaded.schema.rows(data))
    else:
        schema, rows = learn_schema(data, categorical=reading.categorical, text_columns=reading.text_columns)
        if method == AUTO and schema.kind != "image":
            return prior_of_rows(schema, rows, data.s, data.negative, seed=seed)
        z = encode_raw(schema.features(rows), CPU).z
    return estimate_prior(z, data.s, method=method, negatives=data.negative, seed=seed)


@contextmanager
def _recorded_warnings() -> Iterator[list[str]]:
    """The texts of the warnings raised inside, which are shown as usual."""
    texts: list[str] = []
    shown = warnings.showwarning

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        texts.append(" ".join(str(message).split()))
        shown(message, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield texts
