"""People's own files and folders to a model, or to an estimate of π."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pucl.data.own import read, sample
from pucl.data.own.batch import load
from pucl.embeddings import embed
from pucl.fitting.evidence import gather
from pucl.fitting.fit import Tell, fit, raw
from pucl.fitting.recipe import Recipe
from pucl.models.folder import load_model
from pucl.models.model import Model
from pucl.models.schema import learn_schema
from pucl.priors import PriorEstimate
from pucl.priors.estimate import estimate_prior


def fit_own(
    source: str | Path,
    reading: Mapping[str, Any],
    recipe: Mapping[str, Any],
    *,
    most: int,
    device: str | None = None,
    command: str | None = None,
    tell: Tell = lambda _what, _done: None,
) -> Model:
    """A model of a file or a folder.

    Args:
        source: what `pucl.read` takes.
        reading: its options.
        recipe: those of `Recipe`.
        most: rows that are learnt from at most; all labelled positives and a random choice of the others.
        device: where to train.
        command: how to do it again, for the report.
        tell: called with what is going on and the share done.
    """
    wanted = Recipe(**recipe)
    tell("reading", 0.0)
    data = read(source, **reading)
    whole = len(data)
    if whole > most:
        data = sample(data, most, seed=wanted.seed, keep_positives=True)
    content = load(data.rows)
    schema, rows = learn_schema(data, content=content, categorical=reading.get("categorical", ()))
    schema = replace(schema, resize=reading.get("size") is not None)
    fitted = fit(rows, data.s, schema, wanted, device=device, tell=tell)
    evidence = gather(fitted, rows, data.s, content=content, ids=data.ids)
    about = {
        **fitted.model.about,
        "source": Path(source).name,
        "source_rows": whole,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
    }
    return replace(fitted.model, about=about, evidence=evidence)


def prior_of_own(
    source: str | Path, reading: Mapping[str, Any], *, model: Path | None, method: str, seed: int
) -> PriorEstimate:
    """π of a file or a folder, through the embedding of a model or from the rows as they are."""
    data = read(source, **reading)
    if model is not None:
        loaded = load_model(model)
        z = embed(loaded.encoder, loaded.schema.encode(load(data.rows)))
    else:
        z = raw(learn_schema(data, categorical=reading.get("categorical", ()))[1]).z
    return estimate_prior(z, data.s, method=method, seed=seed)
