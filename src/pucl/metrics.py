"""How good a classifier is when the truth is known: accuracy, F1 and the area under the ROC curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument
from pucl.numerics.auc import auc

OWNER = "pucl.evaluate"


@dataclass(frozen=True)
class Evaluation:
    """Accuracy and F1 at the decision threshold, and the AUC over all thresholds, each within [0, 1]."""

    accuracy: float
    f1: float
    auc: float

    def __str__(self) -> str:
        return f"accuracy {self.accuracy:.3f}, F1 {self.f1:.3f}, AUC {self.auc:.3f}"


def evaluate(y: Any, logits: Any, *, threshold: float = 0.0) -> Evaluation:
    """Compare logits with the truth y, as bool, {0, 1} or {-1, 1}; a row counts as positive above `threshold`."""
    values = logits.detach().cpu().double() if hasattr(logits, "detach") else logits
    truth, score = _truth(y), np.asarray(values, dtype=np.float64)
    if truth.ndim != 1 or truth.shape != score.shape:
        got = Described(f"shapes {truth.shape} and {score.shape}")
        raise bad_argument(OWNER, "y and logits", "two vectors of the same length", got)
    if truth.all() or not truth.any():
        raise bad_argument(OWNER, "y", "a vector with both classes", Described("one class only"))
    if not np.isfinite(score).all():
        row = int(np.isfinite(score).argmin())
        raise bad_argument(OWNER, "logits", "finite", Described(f"{score[row]} at row {row}"))
    predicted = score > threshold
    hits = int((predicted & truth).sum())
    f1 = 2 * hits / max(1, int(predicted.sum() + truth.sum()))
    return Evaluation(float((predicted == truth).mean()), f1, auc(score[truth], score[~truth])[0])


def _truth(y: Any) -> NDArray[np.bool_]:
    values = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    distinct = set(np.unique(values).tolist())
    if not (distinct <= {0, 1} or distinct <= {-1, 1}):
        raise bad_argument(OWNER, "y", "bool, {0, 1} or {-1, 1}", Described(f"the values {sorted(distinct)[:4]}"))
    return np.asarray(values == 1)
