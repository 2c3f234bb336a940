"""Class priors: π, the share of positives inside the unlabelled set, from scores of labelled and unlabelled rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PriorEstimate:
    """An estimate of π with the interval it came with."""

    value: float
    low: float
    high: float
    method: str
