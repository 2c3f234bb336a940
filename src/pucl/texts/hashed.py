"""hashed: words, pairs of words and pieces of words, weighed by tf-idf, in 256 dimensions; needs no other package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from pucl.registry import register
from pucl.texts import FAMILY, Arrays, Floats
from pucl.texts.tokens import OF_PIECE, Ints, tokens_of, words_of

DIMENSIONS = 256
MAX_WORDS, MAX_PIECES = 20_000, 10_000  # the most frequent n-grams that are kept: words and pairs, and pieces
FEWEST = 2  # texts an n-gram must occur in
PASS = 2048  # texts held as n-grams at a time
MAX_TEXTS = 20_000  # from which the singular vectors are learnt
ITERATIONS = 2  # of the randomised SVD

Words = Sequence[Sequence[str]]  # texts as words


@register(FAMILY, reference="Deerwester et al. 1990", name="hashed", inputs=("text",))
@dataclass(frozen=True)
class HashedEncoder:
    """Hashed words, pairs and pieces of words, weighed by tf-idf, and a truncated SVD.

        z = (w / |w|, p / |p|) V

    where w are the weights (1 + log tf) idf of words and pairs of neighbouring words, p those of pieces of words, and V
    the main right singular vectors of the training texts. A text without a known n-gram is 0.

    Attributes:
        number: of every n-gram, ascending, (m,).
        idf: of every n-gram, log((1 + n) / (1 + n_g)) + 1 where n_g of n texts hold it, (m,).
        axes: V, (m, k), rounded to the 16 bits in which it is stored.
    """

    number: Ints
    idf: Floats
    axes: Floats
    cached: ClassVar[bool] = False

    @classmethod
    def fit(cls, texts: Sequence[str], *, seed: int) -> "HashedEncoder":
        """Learn idf and singular vectors; of very many texts, the vectors from a random choice."""
        split = [words_of(text) for text in texts]
        number, holding = _vocabulary(split)
        idf = (np.log((1 + len(texts)) / (1 + holding)) + 1).astype(np.float32)
        empty = cls(number, idf, np.zeros((len(number), 0), dtype=np.float32))
        if len(split) > MAX_TEXTS:
            split = [split[i] for i in np.random.default_rng(seed).choice(len(split), MAX_TEXTS, replace=False)]
        weights = sparse.vstack([empty.weights(part) for part in _parts(split)], format="csr")
        k = min(DIMENSIONS, weights.shape[0] - 1, weights.shape[1])
        if k < 1:
            return empty
        with threadpool_limits(1, user_api="blas"):  # sums in another order would give other axes, and another fit
            axes = randomized_svd(weights, k, n_iter=ITERATIONS, random_state=seed)[2].T
        return cls(number, idf, axes.astype(np.float16).astype(np.float32))

    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors (n, k)."""
        vectors = np.zeros((len(texts), self.axes.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), PASS):
            part = [words_of(text) for text in texts[start : start + PASS]]
            vectors[start : start + len(part)] = self.weights(part) @ self.axes
        return vectors

    def weights(self, texts: Words) -> sparse.csr_matrix:
        """Tf-idf (n, m), with words and pairs, and pieces, scaled to length 1 each."""
        text, number = tokens_of(texts).all()
        column = np.searchsorted(self.number, number)
        known = column < len(self.number)
        known[known] = self.number[column[known]] == number[known]
        ones, shape = np.ones(int(known.sum()), dtype=np.float32), (len(texts), len(self.number))
        counts = sparse.csr_matrix((ones, (text[known], column[known])), shape=shape)
        counts.sort_indices()  # so that sums, and with them vectors, do not depend on the order of the n-grams
        weight = (1 + np.log(counts.data)) * self.idf[counts.indices]
        kind = (counts.indices >= np.searchsorted(self.number, OF_PIECE)).astype(np.intp)
        part = 2 * np.repeat(np.arange(len(texts)), np.diff(counts.indptr)) + kind
        length = np.sqrt(np.bincount(part, weights=weight.astype(np.float64) ** 2, minlength=2 * len(texts)))
        counts.data = (weight / length[part]).astype(np.float32)
        return counts

    @property
    def arrays(self) -> Arrays:
        """Everything it has learnt."""
        return {"number": self.number, "idf": self.idf, "axes": self.axes.astype(np.float16)}

    @classmethod
    def load(cls, arrays: Arrays) -> "HashedEncoder":
        """The encoder whose `arrays` were stored; a ValueError or KeyError where they are damaged."""
        number, idf, axes = (arrays[name] for name in ("number", "idf", "axes"))
        if not (number.ndim == 1 and idf.shape == number.shape == axes.shape[:1] and (np.diff(number) > 0).all()):
            raise ValueError("the stored n-grams are damaged")
        return cls(number, idf, axes.astype(np.float32))


def _parts(texts: Words) -> list[Words]:
    return [texts[start : start + PASS] for start in range(0, len(texts), PASS)]


def _vocabulary(texts: Words) -> tuple[Ints, Ints]:
    """The n-grams that are kept, ascending, and how many texts hold each."""
    number, holding = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for part in _parts(texts):
        text, every = tokens_of(part).all()
        new, place = np.unique(every, return_inverse=True)
        once = np.unique(text * len(new) + place) % max(1, len(new))
        number, place = np.unique(np.concatenate([number, new]), return_inverse=True)
        both = np.concatenate([holding, np.bincount(once, minlength=len(new))])
        holding = np.bincount(place, weights=both, minlength=len(number)).astype(np.int64)
    kept = []
    for of_kind, most in ((number < OF_PIECE, MAX_WORDS), (number >= OF_PIECE, MAX_PIECES)):
        enough = np.flatnonzero(of_kind & (holding >= FEWEST))
        kept.append(enough[np.lexsort((enough, -holding[enough]))[:most]])
    index = np.sort(np.concatenate(kept))
    return number[index], holding[index]
