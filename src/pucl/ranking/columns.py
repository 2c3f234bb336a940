"""What the rankers of rows share: checks, arrays, and a ranking from out-of-sample scores."""

import numpy as np
import torch
from torch import Tensor

from pucl.errors import Described, bad_argument, check_count
from pucl.numerics.floats import columns_in_range
from pucl.priors import PriorEstimate
from pucl.ranking import Ranking
from pucl.ranking.bags import Bools, Floats, Rows
from pucl.ranking.rows import unlabelled_rows
from pucl.ranking.share import share_of, with_interval
from pucl.ranking.thresholds import move_to_gap


def as_arrays(
    owner: str, z: Tensor, labelled: Tensor, categories: tuple[int, ...], negative: Tensor | None
) -> tuple[Rows, Bools, Bools | None]:
    """Rows, s and confirmed negatives as arrays, with at least two rows of P and of U.

    Columns far beyond what float32 can square come times powers of 2, which change nothing for rankers of columns.
    """
    n_p, n_u = int(labelled.sum()), int((~labelled if negative is None else ~labelled & ~negative).sum())
    if min(n_p, n_u) < 2:
        got = Described(f"{n_p} labelled and {n_u} unlabelled")
        raise bad_argument(owner, "s", "0 or 1, with at least two rows of each kind, to hold one out", got)
    for column in categories:
        check_count(owner, "categories", column, low=0)
        if column >= z.shape[1]:
            raise bad_argument(owner, "categories", f"numbers of columns below {z.shape[1]}", column)
    rows = np.ascontiguousarray(columns_in_range(z.detach().cpu().numpy()), dtype=np.float32)
    known = None if negative is None else negative.cpu().numpy()
    return rows, labelled.cpu().numpy(), known


def ranking_of_scores(
    method: str, score: Floats, z: Tensor, labelled: Tensor, negative: Tensor | None, prior: float | None
) -> Ranking:
    """A ranking from out-of-sample logits (n,), with π as in `share_at_gap`, unless it is given."""
    scores = torch.from_numpy(score).to(z.device, z.dtype)
    if prior is not None:
        return Ranking(scores, PriorEstimate(prior, prior, prior, "given"))
    share = share_at_gap(scores, labelled, negative)
    return Ranking(scores, with_interval(method, share, scores, labelled, negative=negative))


def share_at_gap(score: Tensor, labelled: Tensor, negative: Tensor | None = None) -> float:
    """π̂ as in `share_of` from scores (n,) of models that did not see the row, moved to a clear gap near it."""
    free = unlabelled_rows(labelled, negative)
    return move_to_gap(score[free], score[labelled], share_of(score, labelled, negative))
