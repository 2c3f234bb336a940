"""From files and folders to a model, or to an estimate of π."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pucl.data.own import ReadOptions
from pucl.data.own.batch import load
from pucl.device import pick_device
from pucl.errors import check_count
from pucl.fitting.average import prior_of_rows
from pucl.fitting.compare import CPU
from pucl.fitting.encode import encode_raw
from pucl.fitting.fit import fit
from pucl.fitting.gather import gather
from pucl.fitting.plan import AUTO, FitOptions
from pucl.fitting.progress import OnProgress, StageProgress
from pucl.fitting.resuming import Resumable
from pucl.fitting.sampling import read_rows
from pucl.fitting.text_views import text_views
from pucl.models.folder import load_model
from pucl.models.model import Model
from pucl.models.schema import learn_schema
from pucl.priors import PriorEstimate
from pucl.ranking.prior import estimate_prior
from pucl.registry import get


def fit_files(
    source: str | Path,
    reading: ReadOptions,
    options: FitOptions,
    *,
    max_rows: int | None = None,
    device: str | None = None,
    command: str | None = None,
    on_progress: OnProgress | None = None,
    resumable: Resumable | None = None,
) -> Model:
    """Fit a model to a file or a folder.

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
    """
    pick_device(device)  # before anything is read
    tell = _reading_told(on_progress)
    tell(0)
    with _recorded_warnings() as texts:
        data, sampling = read_rows(
            source, reading, max_rows, seed=options.seed, time_limit=options.time_limit, on_rows=tell
        )
        content = load(data.rows)
        schema, rows = learn_schema(
            data, content=content, categorical=reading.categorical, text_columns=reading.text_columns,
            text_encoder=options.text_encoder, download=options.download,
        )  # fmt: skip
        schema = replace(schema, resize=reading.size is not None)
        views = text_views(schema, rows, content, options)
        fitted = fit(
            rows, data.s, schema, options, negative=data.negative, device=device, on_progress=on_progress,
            resumable=resumable, views=views,
        )  # fmt: skip
    if on_progress is not None:
        on_progress(StageProgress("saving"))
    evidence = gather(fitted, rows, data.s, content=content, ids=data.ids)
    if sampling is not None:
        evidence = replace(evidence, n_unlabelled=sampling.rows.unlabelled)
    record = replace(
        fitted.model.record,
        warnings=tuple(dict.fromkeys([*texts, *fitted.model.record.warnings])),
        source=Path(source).name,
        source_rows=len(data) if sampling is None else sampling.rows.n,
        sampling=sampling,
        id_column=reading.id_column,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
    )
    return replace(fitted.model, record=record, evidence=evidence)


def _reading_told(on_progress: OnProgress | None) -> Callable[[int], None]:
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
