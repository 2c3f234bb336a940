"""The common axis of scores and thresholds: logits on an even grid that holds 0, the probability one half."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDEST = 9.2  # logits beyond it are probabilities within 0.0001 of 0 and 1, which nobody tells apart
NARROWEST = 1.0
STEPS = 400
LOW_TAIL = 0.005  # share of the lowest scores that may fall off: thresholds down there find everything


def grid(scores: Floats) -> Floats:
    """Logits from the low tail of `scores` to their highest, evenly apart; 0 is always one of them."""
    low, high = (np.clip(edge, -WIDEST, WIDEST) for edge in (np.quantile(scores, LOW_TAIL), scores.max()))
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    short = max(0.0, NARROWEST - (high - low)) / 2
    step = (high - low + 2 * short) / STEPS
    return np.arange(np.floor((low - short) / step), np.ceil((high + short) / step) + 1) * step


def sigmoid(logit: Floats) -> Floats:
    """The probability of a logit."""
    return np.asarray((1 + np.tanh(logit / 2)) / 2)
