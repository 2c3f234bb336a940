"""Several out-of-fold scores made one: a regression of P against likely negatives says how much each counts."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pucl.numerics.logistic import LogisticRegressions, balanced_weights, linear_scores
from pucl.numerics.threads import threads_for
from pucl.ranking import Ranking
from pucl.ranking.draws import Draw, draw_seeds, ranking_of
from pucl.ranking.kernel_cvir import kernel_draw
from pucl.ranking.kernel_features import LANDMARKS
from pucl.ranking.label_spreading import spreading_draws
from pucl.ranking.rows import MAX_ROWS, unlabelled_rows
from pucl.ranking.share import share_by_bbe, share_of
from pucl.ranking.thresholds import drop_highest, move_to_gap
from pucl.ranking.whitening import ranked_directions
from pucl.registry import register

OWNER = "stacked"
RIDGE = 1e-4  # of the regression, on scores of unit variance


@register("rankers", reference="ours; Wolpert 1992")
def stacked(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    other_embeddings: Sequence[Tensor] | None = None,
    seed: int = 0,
    folds: int = 5,
    centred: bool = True,
    whitening: float | None = None,
    max_rows: int = MAX_ROWS,
    repeats: int | None = None,
) -> Ranking:
    """`kernel_cvir` and `label_spreading` together: out-of-fold scores say how much each of them counts.

        f = w_1 f_kernel + w_2 f_spreading + b,    w ≥ 0

    where w and b are those of a logistic regression of P against likely negatives on both scores of every row, each
    from models that never saw it. The kernel sees the large shape of the classes, label spreading the small clusters in
    them. With other embeddings there are two more scores for each of these: raw rows still show what an
    encoder has learnt to ignore.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, as for `cvir`.
        other_embeddings: of the same rows, (n, k') each.
        seed: of folds, landmarks and rows that are fitted to.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        centred: as for `kernel_cvir`.
        whitening: as for `kernel_cvir`.
        max_rows: how many labelled and how many unlabelled rows are fitted to; all are scored.
        repeats: draws whose scores and π̂ are averaged, as for `kernel_cvir`.
    """
    embeddings = [z, *(other_embeddings or ())]
    return rank_stacked(
        OWNER, embeddings, labelled, prior=prior, seed=seed, folds=folds, centred=centred, whitening=whitening,
        max_rows=max_rows, repeats=repeats, negative=negative,
    )  # fmt: skip


def rank_stacked(
    owner: str,
    embeddings: Sequence[Tensor],
    labelled: Tensor,
    *,
    prior: float | None = None,
    seed: int = 0,
    folds: int = 5,
    centred: bool = True,
    whitening: float | None = None,
    max_rows: int = MAX_ROWS,
    repeats: int | None = None,
    negative: Tensor | None = None,
) -> Ranking:
    """`stacked` on a list of embeddings; `owner` signs the errors."""
    seeds = draw_seeds(owner, len(labelled), seed, repeats)
    with threads_for(len(labelled) * max(LANDMARKS, *(z.shape[1] for z in embeddings))):
        seen = [ranked_directions(owner, z, labelled, centred=centred, whitening=whitening) for z in embeddings]
        draws = stacked_draws(
            owner, seen, labelled, prior=prior, seeds=seeds, folds=folds, max_rows=max_rows, negative=negative
        )
    return ranking_of(OWNER, draws, labelled, prior, negative)


def stacked_draws(
    owner: str,
    embeddings: Sequence[Tensor],
    labelled: Tensor,
    *,
    prior: float | None,
    seeds: Sequence[int],
    folds: int,
    max_rows: int,
    negative: Tensor | None = None,
) -> list[Draw]:
    """For each seed the scores of `kernel_cvir` and of `label_spreading` on every embedding, stacked.

    Embeddings (n, k) of the same rows, all of length 1; the folds are the same for all. Scores are of the first's type.
    """
    scores: list[list[Tensor]] = [[] for _ in seeds]
    shared: dict[str, Any] = {"prior": prior, "folds": folds, "max_rows": max_rows, "negative": negative}
    for rows in embeddings:
        spreading = spreading_draws(owner, rows, labelled, seeds=seeds, **shared)
        for parts, seed, spread in zip(scores, seeds, spreading, strict=True):
            kernel = kernel_draw(owner, rows, labelled, seed=seed, **shared)
            parts += [draw.score.to(embeddings[0].dtype) for draw in (kernel, spread)]
    return [stack(parts, labelled, prior=prior, negative=negative) for parts in scores]


@torch.no_grad()
def stack(scores: Sequence[Tensor], labelled: Tensor, *, prior: float | None, negative: Tensor | None = None) -> Draw:
    """The sum of scores (n,) that best separates P from U, then from those rows of U that it takes for negatives.

        f = Σ_m w_m (f_m − mean f_m) / sd f_m + b,    w_m ≥ 0

    The scores of a row come from models that never saw it, so that a score that has memorised its rows gets no weight
    for that.
    """
    columns = torch.stack([_standardised(score) for score in scores], dim=1)
    score, free = _regressed(columns, labelled, ~labelled), unlabelled_rows(labelled, negative)
    share = share_by_bbe(score, labelled, negative) if prior is None else prior
    likely = drop_highest(score, free, share)
    score = _regressed(columns, labelled, likely if negative is None else likely | negative)
    if prior is None:
        share = move_to_gap(score[free], score[labelled], share_of(score, labelled, negative))
    return Draw(score, share)


def _regressed(columns: Tensor, labelled: Tensor, negative: Tensor) -> Tensor:
    """Logits (n,) of a logistic regression of P against other rows; columns it would subtract are left out.

    If that leaves none, all weights are negative by chance, and the plain mean of the columns is taken.
    """
    train = labelled | negative
    goal = labelled[train]
    model = LogisticRegressions(columns[train], goal, l2=RIDGE).fit(balanced_weights(goal)[None])
    helps = model[0, :-1] > 0
    if helps.all():
        return linear_scores(model, columns)[0]
    return _regressed(columns[:, helps], labelled, negative) if helps.any() else columns.mean(dim=1)


def _standardised(score: Tensor) -> Tensor:
    return (score - score.mean()) / score.std().clamp(min=torch.finfo(score.dtype).tiny)
