"""Class priors: π, the share of positives inside the unlabelled set, from scores or points of P and of U."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PriorEstimate:
    """An estimate of π with the interval it came with, or only a bound on it.

    Attributes:
        value: the estimate; the upper bound where there is no more than that.
        low: low end of the interval; 0 for a bound.
        high: high end of the interval; the bound itself for a bound.
        method: what gave them; ``"given"`` for a number from the user.
        is_bound: the data only say π ≤ `high`: nothing shows that positives and negatives separate (the classes
            overlap, or labels are too few), so any smaller share fits the data as well.
    """

    value: float
    low: float
    high: float
    method: str
    is_bound: bool = False

    @property
    def cautious(self) -> float:
        """The π that precision, F1 and accuracy are computed with: the low end of the interval, the value without one.

        All three rise with π. So they rather promise too little than too much.
        """
        return self.low if self.low > 0 else self.value

    @classmethod
    def point(cls, value: float, method: str) -> "PriorEstimate":
        """A value clipped to [0, 1] with the interval 0 to 1; `estimate_prior` resamples a narrower one."""
        return cls(min(max(float(value), 0.0), 1.0), 0.0, 1.0, method)

    @classmethod
    def bound(cls, high: float, method: str) -> "PriorEstimate":
        """The upper bound `high`, and nothing else: π lies between 0 and it."""
        return cls(float(high), 0.0, float(high), method, is_bound=True)
