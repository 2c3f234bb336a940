"""TIcE: subsets of the data found by a tree give lower bounds on how often a positive is labelled."""

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import check_count
from pucl.priors import PriorEstimate
from pucl.priors.samples import Array, check_points, principal
from pucl.registry import register

Rows = NDArray[np.intp]
Labels = NDArray[np.bool_]
PIECES = 4  # equal parts of its range a feature is cut into
SMALLEST = 10  # rows of a subset that is looked at
ROUNDS = 2  # the second takes the variance of the first's estimate


@register("priors", reference="Bekker & Davis 2018", inputs=("vector",))
def tice(
    positive: Any,
    unlabelled: Any,
    *,
    seed: int = 0,
    folds: int = 5,
    promise: int = 5,
    splits: int = 500,
    dim: int = 50,
) -> PriorEstimate:
    """The highest lower bound on the label frequency over the subsets of a tree, turned into π.

        ĉ = max_S  L_S / T_S − √(c (1 − c)(1 − δ) / (δ T_S))
        π̂ = (n_P / n_U) · (1 − ĉ) / ĉ,   δ = max(0.025, 1 / (1 + 0.004 T))

    where c is the label frequency, S runs over subsets of T_S ≥ 10 rows, L_S of them labelled, T rows judge them, and
    c is 1/2 in a first round and the first estimate in a second. Subsets are the nodes of a tree grown best first
    on one fold and judged on the others; ĉ is the mean over folds. A feature is cut into quarters of its range.

    Args:
        positive: labelled positives (n_P, k).
        unlabelled: unlabelled rows (n_U, k).
        seed: of the folds.
        folds: how many; a fold grows the tree, the others judge it.
        promise: k in the score L / (T + k) of a split's best part.
        splits: most splits of a tree.
        dim: most principal axes taken.
    """
    check_count("tice", "seed", seed, low=0)
    check_count("tice", "folds", folds, low=2)
    check_count("tice", "promise", promise, low=0)
    check_count("tice", "splits", splits)
    check_count("tice", "dim", dim)
    p, u = principal(*check_points("tice", positive, unlabelled), dim)
    pieces = _pieces(np.concatenate([p, u]))
    labelled = np.arange(len(pieces)) < len(p)
    fold = np.random.default_rng(seed).permutation(np.arange(len(pieces)) % folds)
    frequency = 0.5
    for _ in range(ROUNDS):
        bounds = [_bound(pieces, labelled, fold == k, frequency, promise, splits) for k in range(folds)]
        frequency = float(np.mean(bounds))
    return PriorEstimate.point(len(p) / len(u) * (1 - frequency) / frequency, "tice")


@dataclass(frozen=True)
class _Judge:
    """What turns a subset into a lower bound on c."""

    labelled: Labels
    delta: float
    frequency: float

    def bound(self, rows: Rows) -> float:
        if len(rows) == 0:
            return 0.0
        variance = self.frequency * (1 - self.frequency) * (1 - self.delta) / (self.delta * len(rows))
        return float(self.labelled[rows].mean() - np.sqrt(variance))

    def fewest_labelled(self, best: float) -> float:
        """Labelled rows below which not even a subset of labelled rows only could beat the best bound."""
        spread = self.frequency * (1 - self.frequency) * (1 - self.delta) / self.delta
        return spread / max(1 - best, 1e-9) ** 2


def _bound(
    pieces: NDArray[np.int8], labelled: Labels, grows: Labels, frequency: float, promise: int, splits: int
) -> float:
    """The best lower bound that the nodes of one tree give, never below the plain share of labelled rows."""
    tree, judging = np.flatnonzero(grows), np.flatnonzero(~grows)
    judge = _Judge(labelled, max(0.025, 1 / (1 + 0.004 * len(judging))), frequency)
    best = max(float(labelled[judging].mean()), judge.bound(judging))
    best = max(best, 1 / len(labelled))  # a fold without labelled rows must not end in c = 0
    order = count()  # breaks ties in the queue
    queue = [(-judge.bound(tree), next(order), tree, judging, np.arange(pieces.shape[1]))]
    for _ in range(splits):
        if not queue:
            break
        _, _, tree, judging, features = heapq.heappop(queue)
        feature = _best_feature(pieces, labelled, tree, features, promise)
        if feature is None:
            continue
        rest = features[features != feature]
        for piece in range(PIECES):
            part, judged = tree[pieces[tree, feature] == piece], judging[pieces[judging, feature] == piece]
            if len(judged) >= SMALLEST:
                best = max(best, judge.bound(judged))
            worth = labelled[judged].sum() > judge.fewest_labelled(best)
            if worth and len(part) > SMALLEST and len(rest) and not labelled[part].all():
                heapq.heappush(queue, (-judge.bound(part), next(order), part, judged, rest))
    return best


def _best_feature(
    pieces: NDArray[np.int8], labelled: Labels, rows: Rows, features: Rows, promise: int
) -> np.intp | None:
    """The feature with the most promising part among those that really split the rows, if there is any."""
    values, observed = pieces[np.ix_(rows, features)], labelled[rows]
    scores, largest = np.zeros(len(features)), np.zeros(len(features))
    for piece in range(PIECES):
        inside = values == piece
        size, positives = inside.sum(0), (inside & observed[:, None]).sum(0)
        scores = np.maximum(scores, positives / np.maximum(size + promise, 1))
        largest = np.maximum(largest, size)
    scores[largest == len(rows)] = 0
    best = int(scores.argmax())
    return features[best] if scores[best] > 0 else None


def _pieces(rows: Array) -> NDArray[np.int8]:
    """In which equal part of its feature's range every value lies, (n, k)."""
    low, span = rows.min(0), np.ptp(rows, axis=0)
    scaled = (rows - low) / np.where(span > 0, span, 1)
    return np.asarray(np.minimum(scaled * PIECES, PIECES - 1), dtype=np.int8)
