"""π̂ from out-of-fold scores: BBE's value, and BBE's interval around a value that was averaged or moved to a gap."""

from typing import Any

from torch import Tensor

from pucl.priors import PriorEstimate
from pucl.priors.bbe import best_bin

CONFIDENCE = 0.9  # of the interval, by default


def share_by_bbe(score: Tensor, labelled: Tensor) -> float:
    """π̂ by BBE, from scores (n,) of models that did not see the row; computed where these are."""
    return best_bin(score[labelled], score[~labelled]).value


def with_interval(
    method: str, value: float, score: Tensor, labelled: Tensor, *, confidence: float = CONFIDENCE, **options: Any
) -> PriorEstimate:
    """π̂ with BBE's interval on the same scores, widened to contain it.

        [min(low, π̂), max(high, π̂)]

    where [low, high] is BBE's interval. π̂ may lie outside of it: it may be a mean over draws, or the share above a gap.

    Args:
        method: the name of what made the scores.
        value: π̂.
        score: of every row (n,), from models that did not see it.
        labelled: s, (n,) bool.
        confidence: of BBE's interval.
        options: what else `bbe` takes.
    """
    tails = best_bin(score[labelled], score[~labelled], confidence=confidence, **options)
    return PriorEstimate(value, min(tails.low, value), max(tails.high, value), method)
