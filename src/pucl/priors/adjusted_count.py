"""Adjusted counting: π from scores of P, U and confirmed negatives; identifiable where P and U alone leave it open."""

from typing import Any

import numpy as np

from pucl.errors import check_count, check_share
from pucl.priors import PriorEstimate
from pucl.priors.samples import Array, check_sample

NAME = "adjusted_count"
THRESHOLDS = 200  # at most, evenly by rank among the scores of P and N
MARGIN = 0.25  # least r − f of a threshold that counts; half of the largest where that is smaller
REPLICATES = 200  # samples behind an interval or a test
LEVEL = 0.05  # of the test of whether N can be a random sample
FEWEST = 10  # confirmed negatives from which they tell anything about π


def adjusted_count(
    positive: Any,
    unlabelled: Any,
    negative: Any,
    *,
    confidence: float = 0.9,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> PriorEstimate:
    """The median over thresholds of the adjusted count ("median sweep", Forman 2008), with a bootstrap interval.

        π(c) = (q(c) − f(c)) / (r(c) − f(c)),   π̂ = median of π(c) over all c with r(c) − f(c) ≥ m

    where r, q and f are the shares of P, U and N with scores of c or above, and m is 1/4, or half of the largest r − f
    where that is smaller. Since q = π r + (1 − π) f, this is right however much the classes overlap, if P is a random
    sample of all positives and **N a random sample of all negatives**. Negatives that somebody looked at because they
    scored high are not: f is then too large and π̂ too low, see `negatives_look_random`. Where no threshold has r > f,
    the scores tell nothing: π̂ is 1/2 and the interval 0 to 1.

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
    binned = _all_binned(positive, unlabelled, negative)
    value = _sweep(*_tails(binned))[0]
    drawn = _tails(_resampled(binned, replicates, seed))
    if np.isnan(value):
        return PriorEstimate(0.5, 0.0, 1.0, NAME)
    values = np.nan_to_num(_sweep(*drawn), nan=0.5)
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return PriorEstimate(float(value), float(min(low, value)), float(max(high, value)), NAME)


def negatives_look_random(
    positive: Any, unlabelled: Any, negative: Any, *, replicates: int = REPLICATES, seed: int = 0
) -> bool:
    """Whether the scores of U can be a mixture of those of P and of N, as they are if both are random samples.

        D = max_c |q(c) − π̂ r(c) − (1 − π̂) f(c)|

    with the shares and π̂ of `adjusted_count`. The answer is no where fewer than 5 % of the samples drawn with
    replacement differ from what they were drawn from by D or more, where no threshold has r > f, or where there are
    fewer than ten negatives. Negatives picked by their high scores are found out nearly always; a mild preference, or
    one that leaves the shape of the scores as it is, may not be.

    Args:
        positive: scores of labelled positives (n_P,), from models that did not see the row.
        unlabelled: scores of unlabelled rows (n_U,).
        negative: scores of confirmed negatives (n_N,).
        replicates: how many samples are drawn.
        seed: of these samples.
    """
    binned = _all_binned(positive, unlabelled, negative)
    r, q, f = _tails(binned)
    value = _sweep(r, q, f)[0]
    r_again, q_again, f_again = _tails(_resampled(binned, replicates, seed))
    if np.isnan(value) or binned[2].sum() < FEWEST:
        return False
    gap = np.abs(q - value * r - (1 - value) * f).max()
    by_chance = np.abs((q_again - q) - value * (r_again - r) - (1 - value) * (f_again - f)).max(1)
    return bool((by_chance >= gap).mean() >= LEVEL)


def _all_binned(positive: Any, unlabelled: Any, negative: Any) -> tuple[Array, ...]:
    """How many scores of P, U and N lie below the first cut, between two, and at or above the last, (1, m + 1) each."""
    named = {"positive": positive, "unlabelled": unlabelled, "negative": negative}
    p, u, n = (check_sample(NAME, name, scores, 1) for name, scores in named.items())
    cuts = np.unique(np.quantile(np.concatenate([p, n]), np.linspace(0, 1, THRESHOLDS), method="nearest"))
    places = (np.searchsorted(cuts, scores, side="right") for scores in (p, u, n))
    return tuple(np.bincount(place, minlength=len(cuts) + 1)[None].astype(np.float64) for place in places)


def _resampled(binned: tuple[Array, ...], replicates: int, seed: int) -> tuple[Array, ...]:
    """Counts of samples drawn with replacement, (b, m + 1) each: multinomial, since only the counts matter."""
    check_count(NAME, "replicates", replicates, low=2)
    check_count(NAME, "seed", seed, low=0)
    random = np.random.default_rng(seed)
    sizes = ((counts[0], int(counts.sum())) for counts in binned)
    return tuple(random.multinomial(n, counts / n, replicates).astype(np.float64) for counts, n in sizes)


def _tails(binned: tuple[Array, ...]) -> tuple[Array, ...]:
    """The shares at or above every cut, (b, m) each."""
    return tuple(np.cumsum(c[:, :0:-1], axis=1)[:, ::-1] / c.sum(1, keepdims=True) for c in binned)


def _sweep(r: Array, q: Array, f: Array) -> Array:
    """π̂ of every line of shares (b, m), clipped to [0, 1]; NaN where no threshold has r > f."""
    margin = r - f
    kept = (margin >= np.minimum(MARGIN, margin.max(1, keepdims=True) / 2)) & (margin > 0)
    share = np.divide(q - f, margin, out=np.full_like(margin, np.nan), where=kept)
    value, known = np.full(len(share), np.nan), kept.any(1)
    value[known] = np.clip(np.nanmedian(share[known], axis=1), 0, 1)
    return value
