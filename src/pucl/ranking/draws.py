"""Draws of a ranker, each with its own folds, averaged into one ranking."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pucl.errors import check_count
from pucl.priors import PriorEstimate
from pucl.ranking import Ranking
from pucl.ranking.rows import unlabelled_rows
from pucl.ranking.share import with_interval
from pucl.ranking.thresholds import threshold_for_share

REPEATS = ((2000, 5), (5000, 3))  # draws that are averaged, up to how many rows


class Draw(NamedTuple):
    """One draw: a score for every row (n,), from models that never saw it, and π, given or estimated."""

    score: Tensor
    share: float


def draw_seeds(owner: str, n_rows: int, seed: int, repeats: int | None) -> range:
    """The seeds of the draws, from `seed` on.

    By default 5 up to 2,000 rows, 3 up to 5,000 and 1 beyond: with few labels a single draw may be bad luck.
    """
    if repeats is None:
        repeats = next((count for max_rows, count in REPEATS if n_rows <= max_rows), 1)
    return range(seed, seed + check_count(owner, "repeats", repeats))


def averaged(draws: Sequence[Draw], labelled: Tensor, negative: Tensor | None = None) -> Draw:
    """Scores, each measured from its own threshold, and π̂, averaged over draws.

        f = mean_r (f_r − q_r),    π̂ = mean_r π̂_r

    where q_r is the score above which a share π̂_r of U lies in draw r.
    """
    if len(draws) == 1:
        return draws[0]
    free = unlabelled_rows(labelled, negative)
    centred = [draw.score - threshold_for_share(draw.score[free], draw.share) for draw in draws]
    return Draw(torch.stack(centred).mean(0), sum(draw.share for draw in draws) / len(draws))


def ranking_of(
    method: str, draws: Sequence[Draw], labelled: Tensor, prior: float | None, negative: Tensor | None = None
) -> Ranking:
    """The averaged scores, and π̂ with an interval from the same scores; π where it was given."""
    score, share = averaged(draws, labelled, negative)
    if prior is not None:
        return Ranking(score, PriorEstimate(prior, prior, prior, "given"))
    return Ranking(score, with_interval(method, share, score, labelled, negative=negative))
