"""Lift: how much richer in positives the best-scored rows are than a random pick; needs no π."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pucl.labels import check_negatives
from pucl.selection.scores import check_logits, unlabelled_rows

OWNER = "pucl.selection.lift"
SHARES = (0.01, 0.05, 0.10)
FEWEST = 5  # rows of U in a top share, at least; fewer say nothing


@dataclass(frozen=True)
class Lift:
    """How many times richer in hidden positives the top share of the rows is than a random pick.

    Attributes:
        share: of the unlabelled rows that lie at the top, such as 0.05.
        value: the lift; 1 is chance, 1/share or 1/π the most there can be, whichever is smaller.
        error: its standard error.
    """

    share: float
    value: float
    error: float


def lift(logits: Any, s: Any, *, shares: tuple[float, ...] = SHARES, negatives: Any = None) -> tuple[Lift, ...]:
    """The lift at the top of a ranking, from logits of rows that did not train it.

        lift(q) = r(q) / q

    where r(q) is the share of P that scores above the threshold which a share q of U exceeds. Rows that tie with the
    threshold count in part, so that constant scores have a lift of 1. If P is a random sample of the positives, a share
    r(q) of the positives in U lies in the top, so lift(q) times π, at most 1, is the precision there.

    The error is that of r(q), binomial with one success and one failure added, and that of the threshold: 1/√k of the
    lift for k rows of U at the top.

    Args:
        logits: one per row (n,), finite.
        s: PU labels (n,), 1 for labelled positives that were hidden from the model.
        shares: q, each strictly between 0 and 1; those with fewer than FEWEST rows of U at the top are left out.
        negatives: confirmed negatives, a mask (n,) or row numbers; they are no part of U.
    """
    score, labelled = check_logits(logits, s, owner=OWNER)
    negative = check_negatives(negatives, labelled, len(score), OWNER)
    p, u = score[labelled], np.sort(score[unlabelled_rows(labelled, negative)])[::-1]
    counts = [(share, round(share * len(u))) for share in shares]
    return tuple(_lift(p, u, share, top) for share, top in counts if top >= FEWEST)


def _lift(p: Any, u: Any, share: float, top: int) -> Lift:
    threshold = u[top - 1]
    inside = (top - int((u > threshold).sum())) / int((u == threshold).sum())  # of the rows that tie
    hit, n, q = float((p > threshold).sum() + inside * (p == threshold).sum()), len(p), top / len(u)
    safe = (hit + 1) / (n + 2)
    value, error = hit / n / q, float(np.sqrt(safe * (1 - safe) / n)) / q
    return Lift(share, value, float(np.hypot(error, value / np.sqrt(top))))
