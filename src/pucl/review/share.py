"""What rows that were picked at random say of π: the share of them that reviewers called positive."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pucl.review.answers import ASKED, Line, standing

RANDOM_SHEET = "-random"  # at the end of the name of a sheet of rows picked at random
QUANTILE = 1.6449  # of the normal distribution, for an interval of 90 %


@dataclass(frozen=True)
class RandomShare:
    """How many rows picked at random were called positive and negative."""

    positive: int
    negative: int

    @property
    def value(self) -> float:
        """The share of positives."""
        return self.positive / (self.positive + self.negative)

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % interval of Wilson.

            (p + z²/2n ± z √(p (1 − p)/n + z²/4n²)) / (1 + z²/n)

        where p is the share, n the number of rows and z the quantile of the normal distribution.
        """
        n, p, z = self.positive + self.negative, self.value, QUANTILE
        middle, spread = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
        low, high = ((middle + sign * spread) / (1 + z * z / n) for sign in (-1, 1))
        return float(max(0.0, low)), float(min(1.0, high))

    def __str__(self) -> str:
        low, high = self.interval
        rows = f"{self.positive:,} of {self.positive + self.negative:,} rows picked at random are positive"
        known = f"{100 * self.value:.0f} % ({100 * low:.0f} to {100 * high:.0f} %) of the unlabelled rows"
        return f"{rows}, so about {known}; pass --prior {max(self.value, 0.001):.3f} to 'pucl fit'"


def random_share(lines: Sequence[Line]) -> RandomShare | None:
    """The share among the rows of the sheets of random rows that came first; None where nothing of them is answered.

    Later ones are a sample of what was left when the most likely rows had been answered, and are not looked at.
    """
    picked: set[str] = set()
    for line in lines:
        if line.answer == ASKED:
            if not line.sheet.endswith(RANDOM_SHEET):
                break
            picked.add(line.id)
    rows = standing(lines)
    said = [rows[one].answer for one in picked]
    found = RandomShare(sum(answer is True for answer in said), sum(answer is False for answer in said))
    return found if found.positive + found.negative else None
