"""Why a cell cannot be run on this machine, as far as is known without loading data: a reason, not an error."""

from importlib.util import find_spec

from pucl.bench.grid.cells import (
    BY_BASELINE,
    PU_HEADS,
    TFIDF,
    Baseline,
    Cell,
    Pipeline,
    Readout,
    has_weights,
    reads_texts,
)
from pucl.bench.grid.readouts import METHOD
from pucl.bench.grid.recipes import FROZEN
from pucl.data import Kind
from pucl.data.sources import SOURCES
from pucl.encoders.frozen.published import why_missing
from pucl.errors import how_to_install
from pucl.registry import TEXT, get
from pucl.texts import FAMILY as TEXT_ENCODERS

SOME = 0.5  # in place of a prior that is known once the data are loaded
NO_PRIOR = "needs a prior, but the grid gives none: set prior to 'oracle' or the name of an estimator"


def why_not_run(cell: Cell) -> str | None:
    """The reason, or None if the cell can be tried."""
    kinds = get("datasets", cell.place.task).inputs
    for source in SOURCES:
        if cell.place.task in source.tasks and (missing := source.missing()):
            return str(source.absent(source.folder / missing[0]))
    return _of_baseline(cell, kinds) if isinstance(cell, Baseline) else _of_pipeline(cell, kinds)


def _of_baseline(cell: Baseline, kinds: tuple[str, ...]) -> str | None:
    from pucl.baselines import why_not

    if get("baselines", cell.registered).needs_prior and cell.prior is None:
        return f"{cell.method}: {NO_PRIOR}"
    if cell.encoder == TFIDF:
        return None if TEXT in kinds else _other_kind(TFIDF, (TEXT,), cell, kinds)
    kind: Kind = kinds[0]  # type: ignore[assignment]  # data sets are registered with kinds
    reason = why_not(cell.registered, kind, SOME)
    return None if reason is None else f"{cell.method}: {reason}"


def _of_pipeline(cell: Pipeline, kinds: tuple[str, ...]) -> str | None:
    trained = cell.recipe.tune != FROZEN
    if trained and get("losses", cell.objective).needs_prior and cell.encoder_prior is None:
        return f"{cell.objective}: {NO_PRIOR}"
    if (absent := _weights_missing(cell.encoder)) is not None:
        return absent
    family = TEXT_ENCODERS if reads_texts(cell.encoder) else "encoders"
    for entry in (get(family, cell.encoder), *([get("views", cell.recipe.view)] if trained else [])):
        if not set(entry.inputs) & set(kinds):
            return _other_kind(entry.name, entry.inputs, cell, kinds)
    return _of_readout(cell.readout)


def _of_readout(readout: Readout) -> str | None:
    from pucl.baselines import why_not

    if readout.head in PU_HEADS and readout.prior is None and readout.labeller is None:
        return f"{readout.name}: {NO_PRIOR}"
    if readout.head == BY_BASELINE:
        reason = why_not(str(readout.head_options[METHOD]), "vector", None if readout.prior is None else SOME)
        return None if reason is None else f"{readout.name}: {reason}"
    return None


def _weights_missing(encoder: str) -> str | None:
    """Why the published weights of an encoder are not here, if it has some."""
    if has_weights(encoder):
        return why_missing(encoder)
    package = get(TEXT_ENCODERS, encoder).pretrained if reads_texts(encoder) else None
    if package is None or find_spec(package.replace("-", "_")) is not None:
        return None
    return f"text encoder {encoder!r} needs the package {package}: {how_to_install('encoders')}"


def _other_kind(name: str, takes: tuple[str, ...], cell: Cell, kinds: tuple[str, ...]) -> str:
    return f"{name}: takes {' or '.join(takes)} data; {cell.place.task} has {kinds[0]} data"
