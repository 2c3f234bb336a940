"""Schedules: numbers that grow over a run, as weights of regularisers and thresholds do."""

import math


def sigmoid_ramp(at: float, length: float) -> float:
    """From near 0 to 1 over `length`, as in temporal ensembling (Laine & Aila 2017).

    w = exp(−5 (1 − t)²),    t = at / length, kept within [0, 1]
    """
    if length <= 0:
        return 1.0
    t = min(max(at / length, 0.0), 1.0)
    return math.exp(-5 * (1 - t) ** 2)


def linear_ramp(at: float, length: float, *, first: float = 0.0, last: float = 1.0) -> float:
    """From `first` to `last` in a straight line over `length`, then `last`."""
    t = min(max(at / length, 0.0), 1.0) if length > 0 else 1.0
    return first + (last - first) * t
