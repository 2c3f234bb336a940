"""Several held-out scores made one: a regression of P against likely negatives says how much each has to say."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pucl.numerics.logistic import balanced_weights, fit_logistic
from pucl.ranking.cvir import MOST, ROUNDS, Found, at_gap, below, play, share_of
from pucl.ranking.kernel import LANDMARKS, SPREAD, WIDTH, nystroem
from pucl.ranking.label_spreading import wander

RIDGE = 1e-4  # of the regression, on scores of unit variance


def kernel_and_walks(
    owner: str,
    embeddings: Sequence[Tensor],
    labelled: Tensor,
    *,
    prior: float | None,
    seed: int,
    folds: int = 5,
    most: int = MOST,
) -> Found:
    """The score of `kernel_cvir` and that of `walks` on every embedding, stacked.

    Embeddings (n, k) of the same rows, all of length 1; the folds are the same for all. Scores are of the first's type.
    """
    scores = []
    for rows in embeddings:
        far = play(
            owner, rows, labelled, nystroem(rows, width=WIDTH, landmarks=LANDMARKS, seed=seed),
            prior=prior, seed=seed, rounds=ROUNDS, folds=folds, spread=SPREAD, most=most,
        )  # fmt: skip
        near = wander(owner, rows, labelled, prior=prior, seed=seed, folds=folds, most=most)
        scores += [found.score.to(embeddings[0].dtype) for found in (far, near)]
    return stack(scores, labelled, prior=prior)


@torch.no_grad()
def stack(scores: Sequence[Tensor], labelled: Tensor, *, prior: float | None) -> Found:
    """The sum of scores (n,) that best tells P from U, then from those rows of U that it takes for negatives.

        f = Σ_m w_m (f_m − mean f_m) / sd f_m + b,    w_m ≥ 0

    The scores of a row come from models that never saw it, so that a score that has learnt its rows by heart gets no
    weight for that.
    """
    columns = torch.stack([_standardised(score) for score in scores], dim=1)
    score = _weighed(columns, labelled, ~labelled)
    share = share_of(score, labelled) if prior is None else prior
    score = _weighed(columns, labelled, below(score, ~labelled, share))
    if prior is None:
        share = at_gap(score[~labelled], score[labelled], share_of(score, labelled))
    return Found(score, share)


def _weighed(columns: Tensor, labelled: Tensor, negative: Tensor) -> Tensor:
    """Logits (n,) of a logistic regression of P against other rows; columns it would subtract are left out.

    Where that leaves none, chance has turned them all around: they count as they are, and alike.
    """
    train = labelled | negative
    goal = labelled[train]
    layer = fit_logistic(columns[train], goal, balanced_weights(goal), l2=RIDGE)
    helps = layer.weight[0] > 0
    if helps.all():
        logits: Tensor = layer(columns)[:, 0]
        return logits
    return _weighed(columns[:, helps], labelled, negative) if helps.any() else columns.mean(dim=1)


def _standardised(score: Tensor) -> Tensor:
    return (score - score.mean()) / score.std().clamp(min=torch.finfo(score.dtype).tiny)
