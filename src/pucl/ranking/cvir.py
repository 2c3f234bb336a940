"""CVIR, cross-fitted: score P against U, estimate π, drop the likely positives from U, refit."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.numerics.logistic import LogisticRegressions, linear_scores
from pucl.numerics.threads import threads_for
from pucl.ranking import Ranking
from pucl.ranking.draws import Draw, draw_seeds, ranking_of
from pucl.ranking.rows import MAX_ROWS, fitted_rows, folds_of, unlabelled_rows
from pucl.ranking.share import share_by_bbe, share_of
from pucl.ranking.thresholds import drop_highest, move_to_gap
from pucl.registry import register

OWNER = "cvir"
Features = Callable[[Tensor], Tensor]
ROUNDS = 10  # by default
TOLERANCE = 1e-4  # of the regressions, on the gradient of a mean loss
BLOCK = 1 << 16  # rows whose features are held together when all are scored


@register("rankers", reference="Garg et al. 2021 (TEDⁿ: CVIR with BBE)")
def cvir(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    folds: int = 5,
    spread: float = 50.0,
    max_rows: int = MAX_ROWS,
    repeats: int | None = None,
) -> Ranking:
    """Conditional value ignoring risk with a linear score; needs no prior and no single-cluster classes.

        f_k(z) = w_k · z / ‖z‖ + b_k,    (w_k, b_k) = argmin  mean_P CE(σ(f), 1) + mean_N CE(σ(f), 0) + ‖w‖² / (v n_P)

    where P and N are rows outside fold k, and N is U without the π̂ n_U rows that score highest. 1. Score P against U.
    2. Estimate π by BBE on the out-of-fold scores, unless `prior` is given. 3. Drop the likely positives from N, fit
    again, and go back to 2, `rounds` times. Every score is out of fold, so that labelled rows are judged as unlabelled
    ones are.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool. They are no part of U: always in N, but not when their own fold is
            scored, and never counted for BBE. Where they may be a random sample of all negatives, π comes from them by
            `adjusted_count`.
        seed: of the folds.
        rounds: how often likely positives are dropped and the score refitted.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        spread: v, variance of the logits before any row is seen; a smaller one is a stronger ridge.
        max_rows: how many labelled and how many unlabelled rows the regressions are fitted to; all are scored.
        repeats: draws of the folds whose scores and π̂ are averaged; steadier where labels are few. When not
            given, 5 up to 2,000 rows, 3 up to 5,000 and 1 beyond.
    """
    with threads_for(z.numel()):
        rows = F.normalize(z, dim=1)
        draws = [
            cross_fitted_rounds(
                OWNER, rows, labelled, _identity,
                prior=prior, seed=number, rounds=rounds, folds=folds, spread=spread, max_rows=max_rows,
                negative=negative,
            )
            for number in draw_seeds(OWNER, len(z), seed, repeats)
        ]  # fmt: skip
    return ranking_of(OWNER, draws, labelled, prior, negative)


@torch.no_grad()
def cross_fitted_rounds(
    owner: str,
    z: Tensor,
    labelled: Tensor,
    features: Features,
    *,
    prior: float | None,
    seed: int,
    rounds: int,
    folds: int,
    spread: float,
    max_rows: int,
    negative: Tensor | None = None,
) -> Draw:
    """Conditional value ignoring risk, once for every fold, on all rows outside it.

    Each fold has a logistic regression of P against those rows of U it takes for negatives: all of them at first, then
    those outside the top π̂ of its own scores. The fold itself is scored, never used, not even to choose what others
    drop: rows dropped by models that have seen the fold would raise the scores of its labelled rows and lower those of
    its unlabelled positives, and π̂ would fall from round to round. π̂ is BBE's on the scores of all folds,
    in the end moved to a gap, see `move_to_gap`.

    Args:
        owner: who signs the errors.
        z: rows (n, k).
        labelled: s, (n,) bool.
        features: rows (m, k) → features (m, d) of length about 1.
        prior: π; estimated when not given.
        seed: of the folds and of the rows that are fitted to.
        rounds: how often likely positives are dropped and the models refitted; with 0, P is scored against all of U.
        folds: how many; fewer when P or U is smaller.
        spread: variance v of the logits before any row is seen; the ridge is 1 / (v n_P).
        max_rows: how many labelled and how many unlabelled rows are fitted to; all are scored.
        negative: confirmed negatives, (n,) bool.
    """
    check_count(owner, "rounds", rounds, low=0)
    check_count(owner, "folds", folds, low=2)
    check_positive(owner, "spread", spread)
    check_count(owner, "max_rows", max_rows, low=2)
    fold, used = folds_of(owner, labelled, folds, seed, negative), fitted_rows(labelled, max_rows, seed, negative)
    ridge = 1 / (spread * min(int(labelled.sum()), max_rows))
    count = int(fold.max()) + 1
    known = None if negative is None else negative[used]
    models, seen, share = _rounds(features(z[used]), labelled[used], fold[used], count, prior, rounds, ridge, known)
    score = torch.empty(len(z), dtype=z.dtype, device=z.device)
    score[used] = seen
    others = torch.ones_like(labelled)
    others[used] = False
    for rows in torch.split(others.nonzero().flatten(), BLOCK) if len(used) < len(z) else ():
        score[rows] = linear_scores(models, features(z[rows])).gather(0, fold[rows][None])[0]
    return Draw(score, share)


def _identity(rows: Tensor) -> Tensor:
    return rows


def _rounds(
    f: Tensor, labelled: Tensor, fold: Tensor, folds: int, prior: float | None, rounds: int, l2: float,
    known: Tensor | None,
) -> tuple[Tensor, Tensor, float]:  # fmt: skip
    """The models of all folds (folds, d + 1), also of those without a row here, out-of-fold scores (n,) and π."""
    outside = fold != torch.arange(folds, device=fold.device)[:, None]  # (folds, n)
    positive, negative = labelled & outside, ~labelled & outside
    free, share = unlabelled_rows(labelled, known), 0.5 if prior is None else prior
    models = f.new_zeros(folds, f.shape[1] + 1)
    regressions = LogisticRegressions(f, labelled, l2=l2)
    for turn in range(rounds + 1):
        models = regressions.fit(_balanced(positive) + _balanced(negative), start=models, tol=TOLERANCE)
        scores = linear_scores(models, f)
        out_of_fold = scores.gather(0, fold[None])[0]
        if prior is None:
            share = share_by_bbe(out_of_fold, labelled, known)
        if turn < rounds:
            before, negative = negative, drop_highest(scores, free & outside, share)
            negative = negative if known is None else negative | known & outside
            if torch.equal(before, negative):  # the same regressions again
                break
    if prior is None:
        share = share if known is None else share_of(out_of_fold, labelled, known)
        share = move_to_gap(out_of_fold[free], out_of_fold[labelled], share)
    return models, out_of_fold, share


def _balanced(rows: Tensor) -> Tensor:
    """Weights (folds, n) that add up to 1 over the rows of every fold, where it has any."""
    return rows.to(torch.float64) / rows.sum(dim=1, keepdim=True).clamp(min=1)
