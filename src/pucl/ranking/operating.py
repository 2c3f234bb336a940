"""The threshold of a classifier whose π is not known for sure: the highest F1 on average over the plausible shares."""

import numpy as np
from numpy.typing import NDArray

from pucl.priors import PriorEstimate

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
SHARES = 12  # that are tried between the ends of the interval
QUARTER = 0.25  # of a bound, from which shares are tried


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
    free = ~labelled if negative is None else ~(labelled | negative)
    p, u = np.sort(score[labelled]), np.sort(score[free])
    at, first = np.unique(u, return_index=True)
    q = 1 - first / len(u)
    r = 1 - np.searchsorted(p, at, side="left") / len(p)
    low = QUARTER * prior.high if prior.is_bound else prior.low
    gain = np.zeros(len(at))
    for share in np.linspace(max(low, 0.5 / len(u)), max(prior.high, 0.5 / len(u)), SHARES):
        gain += 2 * np.minimum(share * r, q) / (q + share)
    best = int(gain.argmax())
    return float((at[best] + at[best - 1]) / 2) if best else float(np.nextafter(at[0], -np.inf))
