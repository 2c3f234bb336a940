"""Class priors: π, the share of positives inside the unlabelled set, from scores or points of P and of U."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PriorEstimate:
    """An estimate of π with the interval it came with."""

    value: float
    low: float
    high: float
    method: str

    @classmethod
    def point(cls, value: float, method: str) -> "PriorEstimate":
        """A value clipped to [0, 1] with the interval 0 to 1; `estimate_prior` resamples a narrower one."""
        return cls(min(max(float(value), 0.0), 1.0), 0.0, 1.0, method)
