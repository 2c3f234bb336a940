"""Label spreading among nearest neighbours: neighbours get similar scores."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from pucl.errors import check_count, check_positive, check_share
from pucl.numerics.nearest import nearest
from pucl.ranking import Ranking
from pucl.ranking.draws import Draw, draw_seeds, ranking_of
from pucl.ranking.rows import MAX_ROWS, fitted_rows, folds_of
from pucl.ranking.share import share_by_bbe
from pucl.ranking.thresholds import drop_highest, move_to_gap
from pucl.ranking.whitening import ranked_directions
from pucl.registry import register

OWNER = "label_spreading"
Array = NDArray[np.float32]
N_NEIGHBORS, TEMPERATURE, ALPHA, ROUNDS = 10, 0.05, 0.8, 3  # by default
REMAINDER = 1e-4  # weight of the terms of the series that are left out
FLOOR = 1e-4  # of spread labels, as a part of their average: keeps logarithms finite


@register("rankers", reference="ours; Zhou et al. 2004, Garg et al. 2021", former_names=("walks",))
def label_spreading(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    folds: int = 5,
    n_neighbors: int = N_NEIGHBORS,
    temperature: float = TEMPERATURE,
    alpha: float = ALPHA,
    centred: bool = True,
    whitening: float | None = None,
    max_rows: int = MAX_ROWS,
    repeats: int | None = None,
) -> Ranking:
    """Labels spread among nearest rows: how much of P arrives, against how much of likely negatives.

        T = D⁻¹ (K + Kᵀ),    K_ij = exp(cos(z_i, z_j) / τ) / Σ_l exp(cos(z_i, z_l) / τ)

        a = (1 − α) Σ_t αᵗ Tᵗ 1_P / n_P,    b = (1 − α) Σ_t αᵗ Tᵗ 1_N / n_N,    f = log a − log b

    where j and l run over the nearest rows of i, D makes rows of T add up to 1, and N is U without its likely
    positives. No row receives labels of its own fold. For data that are many small clusters, such as all pictures of a
    person or of a product, which no kernel of one width can follow.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        seed: of the folds and of the rows that labels spread through.
        rounds: how often likely positives are dropped from N; with 0, N is U.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        n_neighbors: how many rows each row chooses; all others when there are fewer.
        temperature: τ; a smaller one prefers the nearest.
        alpha: α, the chance of another step.
        centred: as for `kernel_cvir`.
        whitening: as for `kernel_cvir`.
        max_rows: how many labelled and how many unlabelled rows labels spread through; all are scored.
        repeats: draws of folds whose scores and π̂ are averaged, as for `kernel_cvir`.
    """
    rows = ranked_directions(OWNER, z, labelled, centred=centred, whitening=whitening)
    draws = [
        spreading_draw(
            OWNER, rows, labelled, prior=prior, seed=number, rounds=rounds, folds=folds, n_neighbors=n_neighbors,
            temperature=temperature, alpha=alpha, max_rows=max_rows,
        )
        for number in draw_seeds(OWNER, len(z), seed, repeats)
    ]  # fmt: skip
    return ranking_of(OWNER, draws, labelled, prior)


@torch.no_grad()
def spreading_draw(
    owner: str,
    rows: Tensor,
    labelled: Tensor,
    *,
    prior: float | None,
    seed: int,
    rounds: int = ROUNDS,
    folds: int = 5,
    n_neighbors: int = N_NEIGHBORS,
    temperature: float = TEMPERATURE,
    alpha: float = ALPHA,
    max_rows: int = MAX_ROWS,
) -> Draw:
    """One draw of `label_spreading` on rows of length 1, (n, k); `owner` signs the errors.

    As in `cross_fitted_rounds` a fold is scored by the labels of all others: its own labels are not spread, and what
    is dropped from its negatives is chosen without them. Rows that labels do not spread through take the
    values of their nearest neighbours.
    """
    check_count(owner, "rounds", rounds, low=0)
    check_count(owner, "folds", folds, low=2)
    check_count(owner, "n_neighbors", n_neighbors)
    check_positive(owner, "temperature", temperature)
    check_share(owner, "alpha", alpha)
    check_count(owner, "max_rows", max_rows, low=2)
    fold, used = folds_of(owner, labelled, folds, seed), fitted_rows(labelled, max_rows, seed)
    through = rows[used]
    transition = _symmetric(_transition(through, through, n_neighbors, temperature, skip_self=True))
    count = int(fold.max()) + 1
    spread, share = _rounds(transition, labelled[used].cpu(), fold[used].cpu(), count, prior, rounds, alpha)
    score = rows.new_empty(len(rows))
    score[used] = _own_fold(spread, fold[used]).to(score)
    elsewhere = torch.ones_like(labelled)
    elsewhere[used] = False
    if elsewhere.any():
        arrive = _transition(rows[elsewhere], through, n_neighbors, temperature)
        score[elsewhere] = _own_fold(arrive @ spread, fold[elsewhere]).to(score)
    if prior is None:
        share = move_to_gap(score[~labelled], score[labelled], share)
    return Draw(score, share)


def _rounds(
    transition: csr_array, labelled: Tensor, fold: Tensor, folds: int, prior: float | None, rounds: int, alpha: float
) -> tuple[Array, float]:
    """What arrives of P and of the negatives after the last round, for every fold (n, 2 folds), and π."""
    outside = fold[:, None] != torch.arange(folds)
    positive, negative = labelled[:, None] & outside, ~labelled[:, None] & outside
    share = 0.5 if prior is None else prior
    for turn in range(rounds + 1):
        sources = torch.cat([positive, negative], dim=1).float()
        average = sources.mean(dim=0).clamp(min=1 / len(sources))  # where there are none, none arrive
        spread = _spread(transition, (sources / average).numpy(), alpha)
        scores = _log_ratio(spread)
        out_of_fold = scores.gather(1, fold[:, None])[:, 0]
        if prior is None:
            share = share_by_bbe(out_of_fold, labelled)
        if turn < rounds:
            pairs = zip(scores.T, outside.T, strict=True)
            negative = torch.stack([drop_highest(score, ~labelled & rows, share) for score, rows in pairs], dim=1)
    return spread, share


def _spread(transition: csr_array, sources: Array, alpha: float) -> Array:
    """(1 − α) Σ_t αᵗ Tᵗ w, up to the t after which a weight of `REMAINDER` is left."""
    spread = sources
    for _ in range(math.ceil(math.log(REMAINDER) / math.log(alpha))):
        spread = alpha * (transition @ spread) + (1 - alpha) * sources
    return spread


def _log_ratio(spread: Array) -> Tensor:
    """The scores for every fold, (n, folds)."""
    positive, negative = torch.from_numpy(spread + FLOOR).log().chunk(2, dim=1)
    return positive - negative


def _own_fold(spread: Array, fold: Tensor) -> Tensor:
    """Every row's score for its own fold (n,), where the fold is."""
    return _log_ratio(spread).to(fold.device).gather(1, fold[:, None])[:, 0]


def _transition(
    rows: Tensor, among: Tensor, n_neighbors: int, temperature: float, *, skip_self: bool = False
) -> csr_array:
    """The chances (n, m) of stepping from a row to its nearest ones; with `skip_self`, of the same rows, not itself."""
    k = min(n_neighbors, len(among) - skip_self)
    cosine, index = nearest(rows, among, k, skip_self=skip_self)
    chances = torch.softmax(cosine.float() / temperature, dim=1).cpu()
    ends = np.arange(len(rows) + 1) * k
    return csr_array((chances.flatten().numpy(), index.flatten().cpu().numpy(), ends), shape=(len(rows), len(among)))


def _symmetric(steps: csr_array) -> csr_array:
    """Steps along the edges of a graph, in both directions, with a row's chances adding up to 1."""
    edges = steps + steps.T
    return edges.multiply(1 / edges.sum(axis=1)[:, None]).tocsr()
