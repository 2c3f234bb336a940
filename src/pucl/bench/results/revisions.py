"""Revisions: which state of the code a result was made with, so that results that would differ today are known.

Every registered entry has a revision, ``register(..., revision=2)``, and so has every stage in `STAGES`. Whoever
changes *results* (not speed, not words) raises the revision of what was changed by one. A result is stored with the
revisions of all it was made of, such as ``{"losses/pucl": 1, "stage/training": 1}``, and is *outdated* when one of
them is higher today. A new loss, a comment or a faster loop outdates nothing.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pucl.bench.grid.cells import (
    BY_BASELINE,
    KNN,
    MOMENTUM,
    PLAIN,
    TEACHER,
    TFIDF,
    TRUTH,
    TUNING,
    Baseline,
    Cell,
    EncoderCell,
    Readout,
    is_estimated,
    reads_texts,
)
from pucl.bench.grid.readouts import METHOD
from pucl.bench.grid.recipes import ALL, FROZEN, HEAD, VIEWS
from pucl.fitting.project import PROJECTION
from pucl.registry import entries
from pucl.texts import FAMILY as TEXT_ENCODERS

STAGES: Mapping[str, int] = MappingProxyType(
    {
        "split": 1,  # data sets, and who is labelled: pucl.data
        "training": 1,  # contrastive training and embeddings: pucl.training, pucl.encoders
        "frozen": 1,  # vectors of networks with published weights: pucl.encoders.frozen
        "texts": 1,  # from texts to vectors that are scaled, and TF-IDF: pucl.texts, pucl.bench
        "lars": 2,  # the optimiser of that name: pucl.training.lars
        "priors": 1,  # estimating π from embeddings: pucl.priors, pucl.ranking
        "labelling": 1,  # from embeddings to pseudo-labels: pucl.ranking, pucl.pseudo_labels
        "heads": 1,  # classifiers of embeddings: pucl.heads
        "fine_tuning": 1,  # encoder and layer together: pucl.heads
        "moving_labels": 1,  # on labels that move: pucl.heads.momentum
        "teaching": 1,  # a pipeline that learns from another: pucl.bench
        "baselines": 1,  # what all baselines share: pucl.baselines.shared
        "grading": 1,  # from scores to metrics: pucl.metrics, pucl.bench
    }
)
Revisions = Mapping[str, int]


def revisions_of(cell: Cell | EncoderCell) -> dict[str, int]:
    """The present revisions of all that a cell, or a trained encoder, is made of, by ``family/name``."""
    return dict(sorted(_revisions(cell)))


def is_outdated(made_with: Revisions, cell: Cell | EncoderCell) -> bool:
    """Whether something a result was made of has a higher revision today; what it does not name had its first."""
    return any(made_with.get(name, 1) < revision for name, revision in _revisions(cell))


def _revisions(cell: Cell | EncoderCell) -> Iterator[tuple[str, int]]:
    if isinstance(cell, EncoderCell):
        yield from _of_encoder(cell)
        return
    if isinstance(cell, Baseline):
        yield from _of_entry("datasets", cell.place.task)
        yield from _of_entry("baselines", cell.registered)
        yield from _of_entry("encoders", cell.encoder)
        yield from _of_prior(cell.prior)
        yield from _of_stages("split", "texts" if cell.encoder == TFIDF else "baselines", "grading")
        return
    yield from _of_encoder(cell.encoder_cell)
    yield from _of_readout(cell.readout)
    yield from _of_stages("grading")


def _of_encoder(cell: EncoderCell) -> Iterator[tuple[str, int]]:
    yield from _of_entry("datasets", cell.place.task)
    of_texts = reads_texts(cell.encoder)
    yield from _of_entry(TEXT_ENCODERS if of_texts else "encoders", cell.encoder)
    if cell.recipe.tune != ALL:
        yield from _of_stages("texts" if of_texts else "frozen")
    if cell.recipe.tune == FROZEN:
        yield from _of_stages("split")
        return
    if cell.recipe.tune == HEAD:  # of which the network of vectors is made, and their view
        yield from _of_entry("encoders", PROJECTION)
        yield from _of_entry("views", "vector")
    yield from _of_entry("losses", cell.objective)
    yield from _of_entry("views", cell.recipe.view)
    yield from _of_prior(cell.prior)
    if is_estimated(cell.prior):  # it is estimated on an encoder trained without labels
        yield from _of_entry("losses", PLAIN)
    yield from _of_stages("split", "training", *(["lars"] if cell.recipe.training.optimiser == "lars" else []))


def _of_readout(readout: Readout) -> Iterator[tuple[str, int]]:
    yield from _of_prior(readout.prior)
    if readout.labeller not in (None, TRUTH, TEACHER):
        yield from _of_entry("rankers", readout.labeller)
        yield from _of_entry("pseudo-labellers", readout.labeller)
        yield from _of_stages("labelling")
    if readout.head in TUNING:
        for view in (readout.head_options.get(name) for name in VIEWS):
            yield from _of_entry("views", view if isinstance(view, str) else None)
        yield from _of_stages("fine_tuning", *(["moving_labels"] if readout.head == MOMENTUM else []))
    elif readout.head == BY_BASELINE:
        yield from _of_entry("baselines", str(readout.head_options[METHOD]))
        yield from _of_stages("baselines")
    elif readout.head != KNN:
        yield from _of_entry("heads", readout.head)
        yield from _of_stages("heads")
    if readout.teacher is not None:
        yield from _of_stages("teaching")
        yield from _of_encoder(readout.teacher.encoder_cell)
        yield from _of_readout(readout.teacher.readout)


def _of_prior(prior: str | None) -> Iterator[tuple[str, int]]:
    """What an estimate of π was made by; "auto" is the stage's own choice."""
    if is_estimated(prior):
        yield from _of_entry("priors", prior)
        yield from _of_stages("priors")


def _of_entry(family: str, name: str | None) -> Iterator[tuple[str, int]]:
    """A registered entry; nothing of one that is not registered here."""
    if name is not None and (entry := entries(family).get(name)) is not None:
        yield f"{family}/{name}", entry.revision


def _of_stages(*names: str) -> Iterator[tuple[str, int]]:
    yield from ((f"stage/{name}", STAGES[name]) for name in names)
