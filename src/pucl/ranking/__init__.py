"""Ranking: embeddings and s to an out-of-fold score for every row, and π̂ with its interval, in one pass."""

from dataclasses import dataclass

from torch import Tensor

from pucl.priors import PriorEstimate

DEFAULT_RANKER = "stacked"  # LOG.md has the study behind it


@dataclass(frozen=True)
class Ranking:
    """What a ranker says of the rows.

    Attributes:
        score: of every row (n,), high for positives, from models that never saw the row.
        prior: π̂ from these scores, with its interval; π itself where it was given.
    """

    score: Tensor
    prior: PriorEstimate
