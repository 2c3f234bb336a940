"""People's own files and folders to a model, or to an estimate of π."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pucl.data.own import OwnData, ReadOptions, sample
from pucl.data.own.batch import load
from pucl.device import pick_device
from pucl.encoders.embedding import embed
from pucl.errors import check_count
from pucl.fitting.encode import encode_raw
from pucl.fitting.fit import fit
from pucl.fitting.gather import gather
from pucl.fitting.plan import AUTO, FitOptions, OnProgress
from pucl.models.folder import load_model
from pucl.models.model import Model
from pucl.models.schema import learn_schema
from pucl.priors import PriorEstimate
from pucl.ranking.prior import estimate_prior
from pucl.registry import get


def fit_own(
    source: str | Path,
    reading: ReadOptions,
    options: FitOptions,
    *,
    max_rows: int,
    device: str | None = None,
    command: str | None = None,
    on_progress: OnProgress | None = None,
) -> Model:
    """A model of a file or a folder.

    Args:
        source: what `pucl.read` takes.
        reading: how to read it.
        options: what was asked for.
        max_rows: rows that are learnt from at most; all labelled positives and a random choice of the others.
        device: where to train.
        command: how to do it again, for the report.
        on_progress: called with what is going on and the share done.
    """
    pick_device(device)  # before anything is read
    if on_progress is not None:
        on_progress("reading", 0.0)
    with _heard() as texts:
        data, whole = _some(source, reading, max_rows, options.seed)
        content = load(data.rows)
        schema, rows = learn_schema(data, content=content, categorical=reading.categorical)
        schema = replace(schema, resize=reading.size is not None)
        fitted = fit(rows, data.s, schema, options, device=device, on_progress=on_progress)
    evidence = gather(fitted, rows, data.s, content=content, ids=data.ids)
    record = replace(
        fitted.model.record,
        warnings=tuple(dict.fromkeys([*texts, *fitted.model.record.warnings])),
        source=Path(source).name,
        source_rows=whole,
        id_column=reading.id_column,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
    )
    return replace(fitted.model, record=record, evidence=evidence)


def prior_of_own(
    source: str | Path, reading: ReadOptions, *, model: str | Path | None, method: str, max_rows: int, seed: int
) -> PriorEstimate:
    """π of a file or a folder, through the embedding of a model or from the rows as they are."""
    if method != AUTO:
        get("priors", method)
    loaded = load_model(model) if model is not None else None
    data, _ = _some(source, reading, max_rows, seed)
    if loaded is not None:
        z = embed(loaded.encoder, loaded.schema.rows(data))
    else:
        z = encode_raw(learn_schema(data, categorical=reading.categorical)[1]).z
    return estimate_prior(z, data.s, method=method, seed=seed)


def _some(source: str | Path, reading: ReadOptions, max_rows: int, seed: int) -> tuple[OwnData, int]:
    """At most `max_rows` rows, all labelled positives among them, and how many there are."""
    check_count("pucl", "rows", max_rows)
    data = reading.read(source)
    return (sample(data, max_rows, seed=seed, keep_positives=True) if len(data) > max_rows else data), len(data)


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Warnings are shown as ever; what they said is kept."""
    texts: list[str] = []
    shown = warnings.showwarning

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        texts.append(" ".join(str(message).split()))
        shown(message, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield texts
