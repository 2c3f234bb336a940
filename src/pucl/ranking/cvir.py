"""CVIR's rounds on any features: score P against U, estimate π, drop the likely positives from U, refit."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from pucl.errors import Described, bad_argument, check_count, check_positive
from pucl.numerics.logistic import balanced_weights, fit_logistic, stratified_folds
from pucl.priors.bbe import bbe

Features = Callable[[Tensor], Tensor]
NEAR, CLEAR = 0.005, 3.0  # of a gap: share of U on either side, how much wider than the spacing at π̂
REACH, STRAY = 3.0, 0.05  # of a gap: standard errors from π̂, share of P that may lie below
REPEATS = ((2000, 5), (5000, 3))  # draws that are averaged, up to how many rows
ROUNDS, MOST = 10, 20_000  # by default
TOLERANCE = 1e-4  # of the regressions, on the gradient of a mean loss
PIECE = 1 << 16  # rows whose features are held together when all are scored


class Found(NamedTuple):
    """A score for every row (n,), from models that never saw it, and π, given or found."""

    score: Tensor
    prior: float


@torch.no_grad()
def play(
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
    most: int,
) -> Found:
    """Conditional value ignoring risk, once for every fold, on all rows outside it.

    Each fold has a logistic regression of P against those rows of U it takes for negatives: all of them at first, then
    those outside the top π̂ of its own scores. The fold itself is scored, never used, not even to choose what others
    drop: rows dropped by models that have seen the fold would raise the scores of its labelled rows and lower those of
    its unlabelled positives, and π̂ would fall from round to round. π̂ is BBE's on the scores of all folds,
    in the end moved to a gap, see `at_gap`.

    Args:
        owner: who asks, for errors.
        z: rows (n, k).
        labelled: s, (n,) bool.
        features: rows (m, k) → features (m, d) of length about 1.
        prior: π; estimated when not given.
        seed: of the folds and of the rows that are fitted to.
        rounds: how often likely positives are dropped and the models refitted; with 0, P is told from all of U.
        folds: how many; fewer when P or U is smaller.
        spread: variance v of the logits before any row is seen; the ridge is 1 / (v n_P).
        most: how many labelled and how many unlabelled rows are fitted to; all are scored.
    """
    check_count(owner, "rounds", rounds, low=0)
    check_count(owner, "folds", folds, low=2)
    check_positive(owner, "spread", spread)
    check_count(owner, "most", most, low=2)
    fold, used = folds_of(owner, labelled, folds, seed), fitted_to(labelled, most, seed)
    ridge = 1 / (spread * min(int(labelled.sum()), most))
    count = int(fold.max()) + 1
    models, share = _play(features(z[used]), labelled[used], fold[used], count, prior, rounds, ridge)
    score = torch.empty(len(z), dtype=z.dtype, device=z.device)
    for k, model in enumerate(models):
        for rows in torch.split((fold == k).nonzero().flatten(), PIECE):
            score[rows] = model(features(z[rows])).squeeze(1)
    return Found(score, share)


def folds_of(owner: str, labelled: Tensor, folds: int, seed: int) -> Tensor:
    """The fold of every row (n,), at most as many as there are rows of either kind."""
    n_p, n_u = int(labelled.sum()), int((~labelled).sum())
    if min(n_p, n_u) < 2:
        got = Described(f"{n_p} labelled and {n_u} unlabelled")
        raise bad_argument(owner, "s", "labels with at least two rows of each kind, to hold one out", got)
    return stratified_folds(labelled, min(folds, n_p, n_u), seed)


def fitted_to(labelled: Tensor, most: int, seed: int) -> Tensor:
    """The numbers of the rows that are fitted to: at most so many labelled, then at most so many unlabelled ones."""
    return torch.cat([_some(kind, most, seed) for kind in (labelled, ~labelled)])


def averaged(owner: str, draw: Callable[[int], Found], labelled: Tensor, seed: int, repeats: int | None) -> Found:
    """Scores, each measured from its own cut, and π̂, averaged over draws of seeds from `seed` on.

    When not said how many, 5 up to 2,000 rows, 3 up to 5,000 and 1 beyond: with few labels a single draw may be bad
    luck.
    """
    if repeats is not None:
        check_count(owner, "repeats", repeats)
    else:
        repeats = next((count for most, count in REPEATS if len(labelled) <= most), 1)
    found = [draw(number) for number in range(seed, seed + repeats)]
    if repeats == 1:
        return found[0]
    score = torch.stack([one.score - cut(one.score[~labelled], one.prior) for one in found]).mean(0)
    return Found(score, sum(one.prior for one in found) / repeats)


def _play(
    f: Tensor, labelled: Tensor, fold: Tensor, folds: int, prior: float | None, rounds: int, l2: float
) -> tuple[list[nn.Linear], float]:
    """The models of all folds, also of those without a row here, after the last round, and π."""
    outside = [fold != k for k in range(folds)]
    negative = [~labelled & rows for rows in outside]
    models: list[nn.Linear | None] = [None] * len(outside)
    share = 0.5 if prior is None else prior
    for turn in range(rounds + 1):
        scores = []
        for k, rows in enumerate(outside):
            train = labelled & rows | negative[k]
            goal = labelled[train]
            models[k] = fit_logistic(f[train], goal, balanced_weights(goal), l2=l2, start=models[k], tol=TOLERANCE)
            scores.append(models[k](f).squeeze(1))  # type: ignore[misc]
        honest = torch.stack(scores).gather(0, fold[None])[0]
        if prior is None:
            share = share_of(honest, labelled)
        if turn < rounds:
            negative = [below(score, ~labelled & rows, share) for score, rows in zip(scores, outside, strict=True)]
    if prior is None:
        share = at_gap(honest[~labelled], honest[labelled], share)
    return [model for model in models if model is not None], share


def share_of(score: Tensor, labelled: Tensor) -> float:
    """π̂ by BBE, from scores (n,) of models that did not see the row."""
    return bbe(score[labelled].cpu().numpy(), score[~labelled].cpu().numpy()).value


def inner(share: float, n: int) -> float:
    """A share of n rows kept inside (0, 1), half a row from either end."""
    return min(max(share, 0.5 / n), 1 - 0.5 / n)


def at_gap(unlabelled: Tensor, positive: Tensor, share: float) -> float:
    """The share moved to a clear gap in the scores of U (n_U,), if there is one near; else as it is.

    Where the classes are well apart, the scores leave a gap, and the share above it is a better π than any ratio of
    tails. It is taken when it lies within three standard errors of P's sample, 3 π̂ / √n_P, is `CLEAR` times wider than
    the spacing of the scores at π̂ itself, and P lies above it, but for `STRAY` of its held-out scores (n_P,): a gap
    inside the positives, between two of their modes, is no border.
    """
    descending, n, n_p = unlabelled.sort(descending=True).values, len(unlabelled), len(positive)
    near, reach, here = max(1, round(NEAR * n)), REACH * share / n_p**0.5, round(share * n)
    first, last = max(near, round((share - reach) * n)), min(n - near, round((share + reach) * n))
    if not first <= here <= last:
        return share
    places = torch.arange(first, last + 1, device=unlabelled.device)
    spacing = descending[places - near] - descending[places + near - 1]
    middle = (descending[places - 1] + descending[places]) / 2
    below = torch.searchsorted(positive.sort().values, middle)
    border = torch.where(below <= max(1, round(STRAY * n_p)), spacing, torch.zeros_like(spacing))
    best = int(border.argmax())
    return (first + best) / n if border[best] > CLEAR * spacing[here - first] else share


def cut(scores: Tensor, share: float) -> Tensor:
    """The score above which a share of the rows lies, half-way between two, with at least one row on either side."""
    descending = scores.sort(descending=True).values
    n_positive = min(max(round(share * len(scores)), 1), len(scores) - 1)
    return (descending[n_positive - 1] + descending[n_positive]) / 2


def below(score: Tensor, rows: Tensor, share: float) -> Tensor:
    """The rows (n,) bool but the share with the highest scores; all of them where equal scores leave none."""
    kept = rows & (score < cut(score[rows], share)) if int(rows.sum()) > 1 else rows
    return kept if kept.any() else rows


def _some(members: Tensor, most: int, seed: int) -> Tensor:
    """The numbers of at most `most` random rows of those marked, in order."""
    rows = members.cpu().nonzero().flatten()
    if len(rows) > most:
        rows = rows[torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:most]].sort().values
    return rows.to(members.device)
