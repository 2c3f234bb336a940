"""Thresholds for a wanted recall or precision, from scores of rows that did not train the model."""

from typing import Any

import numpy as np

from pucl.errors import Described, bad_argument, check_share
from pucl.selection.scores import check_logits, threshold_curve

FEWEST = 10  # labelled and unlabelled rows above a threshold from which its precision is known well enough


def recall_threshold(logits: Any, s: Any, recall: float, *, owner: str = "pucl.selection.recall_threshold") -> float:
    """The highest threshold above which at least a share `recall` of the labelled positives lies; needs no π.

    Args:
        logits: one per row (n,), finite, of rows that did not train the model.
        s: PU labels (n,).
        recall: strictly between 0 and 1.
        owner: whom errors name.
    """
    score, labelled = check_logits(logits, s, owner=owner)
    check_share(owner, "recall", recall)
    p = np.sort(score[labelled])[::-1]
    wanted = int(np.ceil(recall * len(p) - 1e-9))
    return float(np.nextafter(p[max(wanted, 1) - 1], -np.inf))


def precision_threshold(
    logits: Any, s: Any, precision: float, *, prior: float, owner: str = "pucl.selection.precision_threshold"
) -> float:
    """The lowest threshold whose estimated precision is at least `precision`; an error where there is none.

    Only thresholds with FEWEST rows of P and of U above them count; the formula is in `threshold_curve`.

    Args:
        logits: one per row (n,), finite, of rows that did not train the model.
        s: PU labels (n,).
        precision: strictly between 0 and 1.
        prior: π, strictly between 0 and 1.
        owner: whom errors name.
    """
    _, labelled = check_logits(logits, s, owner=owner)
    check_share(owner, "precision", precision)
    curve = threshold_curve(logits, s, prior)
    enough = (curve.found >= FEWEST) & (curve.recall * labelled.sum() >= FEWEST - 0.5)
    known = np.where(enough, curve.precision, 0.0)
    reached = np.flatnonzero(known >= precision)
    if not len(reached):
        best = f"at most {known.max():.3f}, the highest estimate at any threshold"
        raise bad_argument(owner, "precision", best, Described(f"{precision:g}"))
    return float(curve.threshold[reached[-1]])
