"""Evidence: rows and scores of a fit that a report can show without the training data."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Shown:
    """Some rows of the training data that can be looked at, k of them.

    Attributes:
        ids: what the rows are called: a file name, a value of the id column, or the row number.
        row: their numbers in the training data, (k,).
        probability: of being positive, (k,).
        labelled: s, (k,) bool.
        pictures: thumbnails (k, h, w, c) as uint8 with c of 1 or 3; None unless rows are images.
        values: feature values by column, each a tuple of k texts; empty where rows have no named columns.
    """

    ids: tuple[str, ...]
    row: NDArray[np.int64]
    probability: Floats
    labelled: NDArray[np.bool_]
    pictures: NDArray[np.uint8] | None = None
    values: dict[str, tuple[str, ...]] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Effect:
    """What one value of a row does to its score: the change of the logit from the typical value to this one."""

    column: str
    value: str
    change: float


@dataclass(frozen=True)
class Explained:
    """A row of a table, and the values that move its score by the model most, the largest first."""

    id: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Evidence:
    """The rows and scores that a report shows in addition to the record.

    Attributes:
        points: rows of the map, at most 5,000; labelled positives come first.
        place: where the points lie in the plane, (k, 2).
        top: the unlabelled rows most likely positive, best first.
        unsure: the unlabelled rows nearest to one half, nearest first.
        held_logit: calibrated logits (m,) of rows held out from labeller and head, labelled and unlabelled.
        held_labelled: s of those rows, (m,) bool.
        quantiles: calibrated logits of all unlabelled rows, sorted, thinned to at most 2,001 values from the lowest to
            the highest, evenly by rank.
        n_unlabelled: how many unlabelled rows there are.
        explained: some of the `top` rows of a table, and what moves their scores.
        embedding: embeddings of the points (k, d), from which t-SNE lays them out; None once that is done.
        keys: of all training rows by their ids, see `keys_of`, (n,); None in models written before there were any.
        shown: labelled rows that the encoder was trained with, (n,) bool; None where none was trained.
    """

    points: Shown
    place: Floats
    top: Shown
    unsure: Shown
    held_logit: Floats
    held_labelled: NDArray[np.bool_]
    quantiles: Floats
    n_unlabelled: int
    embedding: NDArray[np.float16] | None = None
    explained: tuple[Explained, ...] = ()
    keys: NDArray[np.int64] | None = None
    shown: NDArray[np.bool_] | None = None


def well_shaped(evidence: Evidence) -> Evidence:
    """Evidence from a file, if all arrays have their kinds and shapes; a ValueError if not."""
    for shown in (evidence.points, evidence.top, evidence.unsure):
        n = len(shown)
        _check("row", shown.row, "iu", n)
        _check("probability", shown.probability, "f", n)
        _check("labelled", shown.labelled, "b", n)
    k, m = len(evidence.points), len(evidence.held_logit)
    _check("place", evidence.place, "f", k, 2)
    _check("held_logit", evidence.held_logit, "f", m)
    _check("held_labelled", evidence.held_labelled, "b", m)
    _check("quantiles", evidence.quantiles, "f", None)
    if evidence.embedding is not None:
        _check("embedding", evidence.embedding, "f", k, None)
    if evidence.keys is not None:
        _check("keys", evidence.keys, "i", None)
    if evidence.shown is not None:
        _check("shown", evidence.shown, "b", None if evidence.keys is None else len(evidence.keys))
    return evidence


def _check(name: str, array: NDArray[Any], kinds: str, *shape: int | None) -> None:
    """Refuse an array of another kind of numbers or another shape, where None is any size."""
    fits = array.ndim == len(shape) and all(want in (None, is_) for want, is_ in zip(shape, array.shape, strict=True))
    if not fits or array.dtype.kind not in kinds:
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")


def keys_of(ids: Iterable[object]) -> NDArray[np.int64]:
    """A number for every id, by which rows are known again: 64 bits of a hash of the id as text, (n,)."""
    digests = (hashlib.blake2b(str(one).encode(errors="surrogatepass"), digest_size=8).digest() for one in ids)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
