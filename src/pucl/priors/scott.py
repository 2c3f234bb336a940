"""Scott's estimator: the smallest ratio of an upper bound on U's tail to a lower bound on P's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import check_share
from pucl.priors import PriorEstimate
from pucl.priors.samples import Array, check_scores
from pucl.registry import register

STEPS = 21
TOLERANCE = 1e-3  # of δ, to which a tail probability is met


@register("priors", reference="Scott 2015; Blanchard et al. 2010", inputs=("score",))
def scott(positive: Any, unlabelled: Any, *, delta: float = 0.1) -> PriorEstimate:
    """The lowest ratio of tail bounds over all thresholds, with exact binomial tails.

        π̂ = min_c  B(n_U, k_U(c)) / (1 − B(n_P, n_P − k_P(c)))
        B(n, k) = the p with Pr[Bin(n, p) ≤ k] = δ

    where k_P(c) and k_U(c) count the scores ≥ c in P and in U. A single ratio bounds π from above with
    confidence 1 − 2δ; their minimum does not, since the bounds do not hold for all c at once. c is tried
    at the scores of P: between two of them only k_U changes.

    Args:
        positive: scores of labelled positives (n_P,).
        unlabelled: scores of unlabelled rows (n_U,).
        delta: δ, the chance that a single bound fails.
    """
    check_share("scott", "delta", delta)
    p, u = (np.sort(scores) for scores in check_scores("scott", positive, unlabelled))
    below_p, below_u = np.searchsorted(p, p, side="left"), np.searchsorted(u, p, side="left")
    upper_u = _upper_bound(len(u), len(u) - below_u, delta)
    lower_p = 1 - _upper_bound(len(p), below_p, delta)
    return PriorEstimate.point(float((upper_u / np.maximum(lower_p, 1e-12)).min()), "scott")


def _upper_bound(n: int, counts: NDArray[np.integer], delta: float) -> Array:
    """B(n, k) for every k, by bisection until the tail probability is within TOLERANCE · δ of δ."""
    from scipy.special import bdtr

    low, high = np.zeros(len(counts)), np.ones(len(counts))
    middle, settled = np.full(len(counts), 0.5), counts >= n
    for _ in range(STEPS):
        tail = bdtr(np.minimum(counts, n), n, middle)
        settled |= np.abs(tail - delta) <= TOLERANCE * delta
        high, low = np.where(tail < delta, middle, high), np.where(tail < delta, low, middle)
        middle = np.where(settled, middle, (low + high) / 2)
    return np.where(counts >= n, 1.0, middle)
