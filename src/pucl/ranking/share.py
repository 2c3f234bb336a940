"""π̂ from out-of-fold scores: its value, and an interval around a value that was averaged or moved to a gap."""

from typing import Any

import numpy as np
from torch import Tensor

from pucl.priors import PriorEstimate
from pucl.priors.adjusted_count import adjusted_count, negatives_look_random
from pucl.priors.bbe import best_bin
from pucl.priors.samples import Array
from pucl.ranking.rows import unlabelled_rows
from pucl.ranking.thresholds import inside_unit_interval

CONFIDENCE = 0.9  # of the interval, by default
QUICK = 100  # samples behind a test of the negatives while a ranker runs


def share_by_bbe(score: Tensor, labelled: Tensor, negative: Tensor | None = None) -> float:
    """π̂ by BBE, from the scores (n,) of P and of U by models that did not see the row; computed where these are.

    Rankers drop this share of U as likely positives, with confirmed negatives too. Where classes overlap it is more
    than π, and rows that are hard to tell apart do more harm than good among the negatives (LOG.md).
    """
    return best_bin(score[labelled], score[unlabelled_rows(labelled, negative)]).value


def share_of(score: Tensor, labelled: Tensor, negative: Tensor | None = None) -> float:
    """π̂ from scores (n,) of models that did not see the row.

    By BBE from P and U alone. By `adjusted_count` where there are confirmed negatives that may be a random sample of
    all negatives (`negatives_look_random`), half a row inside (0, 1).
    """
    if negative is None:
        return share_by_bbe(score, labelled)
    p, u, n = samples_of(score, labelled, negative)
    if not negatives_look_random(p, u, n, replicates=QUICK):
        return share_by_bbe(score, labelled, negative)
    return inside_unit_interval(adjusted_count(p, u, n, replicates=2).value, len(u))


def with_interval(
    method: str,
    value: float,
    score: Tensor,
    labelled: Tensor,
    *,
    negative: Tensor | None = None,
    confidence: float = CONFIDENCE,
    **options: Any,
) -> PriorEstimate:
    """π̂ with BBE's interval on the same scores, or that of `adjusted_count` with negatives, widened to contain it.

        [min(low, π̂), max(high, π̂)]

    π̂ may lie outside of [low, high]: it may be a mean over draws, or the share above a gap.

    Args:
        method: the name of what made the scores.
        value: π̂.
        score: of every row (n,), from models that did not see it.
        labelled: s, (n,) bool.
        negative: confirmed negatives, (n,) bool; used where they may be a random sample of all negatives.
        confidence: of the interval.
        options: what else `bbe` takes.
    """
    if negative is not None:
        p, u, n = samples_of(score, labelled, negative)
        if negatives_look_random(p, u, n, replicates=QUICK):
            known = adjusted_count(p, u, n, confidence=confidence)
            return PriorEstimate(value, min(known.low, value), max(known.high, value), method)
    free = unlabelled_rows(labelled, negative)
    tails = best_bin(score[labelled], score[free], confidence=confidence, **options)
    return PriorEstimate(value, min(tails.low, value), max(tails.high, value), method)


def samples_of(score: Tensor, labelled: Tensor, negative: Tensor) -> tuple[Array, Array, Array]:
    """The scores of P, of U and of the confirmed negatives."""
    kinds = (labelled, unlabelled_rows(labelled, negative), negative)
    p, u, n = (np.asarray(score[kind].detach().cpu().numpy(), dtype=np.float64) for kind in kinds)
    return p, u, n
