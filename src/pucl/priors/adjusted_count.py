"""Adjusted counting: π from scores of P, U and confirmed negatives; identifiable where P and U alone leave it open."""

from typing import Any

import numpy as np

from pucl.errors import check_count, check_share
from pucl.priors import PriorEstimate
from pucl.priors.samples import Array, check_sample

NAME = "adjusted_count"
THRESHOLDS = 200  # at most, evenly by rank among the scores of P and N
MARGIN = 0.25  # least r − f of a threshold that counts; half of the largest where that is smaller


def adjusted_count(
    positive: Any, unlabelled: Any, negative: Any, *, confidence: float = 0.9, replicates: int = 200, seed: int = 0
) -> PriorEstimate:
    """The median over thresholds of the adjusted count ("median sweep", Forman 2008), with a bootstrap interval.

        π(c) = (q(c) − f(c)) / (r(c) − f(c)),   π̂ = median of π(c) over all c with r(c) − f(c) ≥ m

    where r, q and f are the shares of P, U and N with scores of c or above, and m is 1/4, or half of the largest r − f
    where that is smaller. With q = π r + (1 − π) f this is exact, however much the classes overlap, if P is a random
    sample of all positives and **N a random sample of all negatives**. Negatives that were looked at because they
    scored high are none: f is then too large and π̂ too low. Where no threshold has r > f, the scores tell nothing:
    π̂ is 1/2 and the interval 0 to 1.

    The interval holds percentiles over samples drawn with replacement from P, U and N.

    Args:
        positive: scores of labelled positives (n_P,), from models that did not see the row.
        unlabelled: scores of unlabelled rows (n_U,).
        negative: scores of confirmed negatives (n_N,).
        confidence: of the interval.
        replicates: how many samples the interval comes from.
        seed: of these samples.
    """
    check_share(NAME, "confidence", confidence)
    check_count(NAME, "replicates", replicates, low=2)
    check_count(NAME, "seed", seed, low=0)
    named = {"positive": positive, "unlabelled": unlabelled, "negative": negative}
    p, u, n = (check_sample(NAME, name, scores, 1) for name, scores in named.items())
    cuts = np.unique(np.quantile(np.concatenate([p, n]), np.linspace(0, 1, THRESHOLDS), method="nearest"))
    binned = [_binned(scores, cuts) for scores in (p, u, n)]
    value = _sweep(*(counts[None] for counts in binned))[0]
    if np.isnan(value):
        return PriorEstimate(0.5, 0.0, 1.0, NAME)
    random = np.random.default_rng(seed)
    drawn = [random.multinomial(c.sum(), c / c.sum(), replicates).astype(np.float64) for c in binned]
    values = np.nan_to_num(_sweep(*drawn), nan=0.5)
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return PriorEstimate(float(value), float(min(low, value)), float(max(high, value)), NAME)


def _binned(scores: Array, cuts: Array) -> Array:
    """How many scores lie below the first cut, between two cuts, and at or above the last, (m + 1,)."""
    return np.bincount(np.searchsorted(cuts, scores, side="right"), minlength=len(cuts) + 1).astype(np.float64)


def _sweep(p: Array, u: Array, n: Array) -> Array:
    """π̂ of every line of counts per bin (b, m + 1), clipped to [0, 1]; NaN where no threshold has r > f."""
    r, q, f = (np.cumsum(counts[:, :0:-1], axis=1)[:, ::-1] / counts.sum(1, keepdims=True) for counts in (p, u, n))
    margin = r - f
    largest = margin.max(1, keepdims=True)
    counts = (margin >= np.minimum(MARGIN, largest / 2)) & (margin > 0)
    share = np.divide(q - f, margin, out=np.full_like(margin, np.nan), where=counts)
    value = np.full(len(share), np.nan)
    known = counts.any(1)
    value[known] = np.clip(np.nanmedian(share[known], axis=1), 0, 1)
    return value
