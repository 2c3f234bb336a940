"""The threshold of a classifier whose π is not known for sure: the highest F1 on average over the plausible shares."""

import numpy as np
from numpy.typing import NDArray

from pucl.priors import PriorEstimate

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
SHARES = 12  # that are tried between the ends of the interval
QUARTER = 0.25  # of a bound, from which shares are tried
PARTS = 10  # of P, each left out in turn


def expected_f1_threshold(
    score: Floats, labelled: Bools, prior: PriorEstimate, *, negative: Bools | None = None
) -> float:
    """The score from which a row is called positive.

        c = argmax_c  mean_π F1(c, π),    F1(c, π) = 2 t / (q + π),    t = min(π r, q)

    where c runs over the scores of U, r and q are the shares of P and of U at c or above, and π runs evenly over the
    plausible shares: from the low to the high end of its interval, or from a quarter of a bound up to it. A π that was
    given is the only one tried. The result lies half-way between c and the next lower score of U.

    Args:
        score: of every row (n,), from models that did not see it.
        labelled: s, (n,).
        prior: π with its interval.
        negative: confirmed negatives, (n,), which are no part of U.
    """
    p, u = _sorted(score, labelled, negative)
    at, first = np.unique(u, return_index=True)
    return _threshold(p, at, 1 - first / len(u), _shares(prior, len(u)))


def recall_of_others(
    score: Floats, labelled: Bools, prior: PriorEstimate, *, negative: Bools | None = None
) -> float | None:
    """The share of P above a threshold that was chosen without them; None for a single row of P.

        mean_k |{i ∈ P_k : f_i > c_k}| / |P_k|,    c_k = `expected_f1_threshold` of U and of P without P_k

    where P_k are ten parts of P, dealt by rank. The threshold of all of P settles just below some of these very rows,
    so that more of them lie above it than of other positives: 0.06 more than of new rows of real tables, and 0.09 with
    20 labels or fewer. Counted this way it is 0.02 with any number of labels (LOG.md).

    Args:
        score: of every row (n,), from models that did not see it.
        labelled: s, (n,).
        prior: π with its interval.
        negative: confirmed negatives, (n,), which are no part of U.
    """
    p, u = _sorted(score, labelled, negative)
    if len(p) < 2:
        return None
    shares, (at, first) = _shares(prior, len(u)), np.unique(u, return_index=True)
    part = np.arange(len(p)) % min(PARTS, len(p))
    above = [p[part == k] > _threshold(p[part != k], at, 1 - first / len(u), shares) for k in range(part.max() + 1)]
    return float(np.concatenate(above).mean())


def _sorted(score: Floats, labelled: Bools, negative: Bools | None) -> tuple[Floats, Floats]:
    """The scores of P and of U."""
    free = ~labelled if negative is None else ~(labelled | negative)
    return np.sort(score[labelled]), np.sort(score[free])


def _shares(prior: PriorEstimate, n: int) -> Floats:
    """The plausible shares that are tried, none below half a row of n."""
    low = QUARTER * prior.high if prior.is_bound else prior.low
    return np.linspace(max(low, 0.5 / n), max(prior.high, 0.5 / n), SHARES)


def _threshold(p: Floats, at: Floats, q: Floats, shares: Floats) -> float:
    """Half-way between the score of U with the highest mean F1 and the next lower; q is the share of U from `at` up."""
    r = 1 - np.searchsorted(p, at, side="left") / len(p)
    gain = np.zeros(len(at))
    for share in shares:
        gain += 2 * np.minimum(share * r, q) / (q + share)
    best = int(gain.argmax())
    return float((at[best] + at[best - 1]) / 2) if best else float(np.nextafter(at[0], -np.inf))
