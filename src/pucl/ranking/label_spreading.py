"""Label spreading among nearest neighbours: neighbours get similar scores."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pucl.errors import check_count, check_positive, check_share
from pucl.numerics.graph import SparseMatrix, both_ways, steps_to_nearest
from pucl.numerics.threads import threads_for
from pucl.ranking import Ranking
from pucl.ranking.draws import Draw, draw_seeds, ranking_of
from pucl.ranking.rows import MAX_ROWS, fitted_rows, folds_of, unlabelled_rows
from pucl.ranking.share import share_by_bbe, share_of
from pucl.ranking.thresholds import drop_highest, move_to_gap
from pucl.ranking.whitening import ranked_directions
from pucl.registry import register

OWNER = "label_spreading"
N_NEIGHBORS, TEMPERATURE, ALPHA, ROUNDS = 10, 0.05, 0.8, 3  # by default
REMAINDER = 1e-4  # weight of the terms of the series that are left out
FLOOR = 1e-4  # of spread labels, as a part of their average: keeps logarithms finite


@register("rankers", reference="ours; Zhou et al. 2004, Garg et al. 2021", former_names=("walks",))
def label_spreading(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
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
        negative: confirmed negatives, as for `cvir`: always in N.
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
    seeds = draw_seeds(OWNER, len(z), seed, repeats)
    with threads_for(z.numel()):
        rows = ranked_directions(OWNER, z, labelled, centred=centred, whitening=whitening)
        draws = spreading_draws(
            OWNER, rows, labelled, prior=prior, seeds=seeds, rounds=rounds, folds=folds, n_neighbors=n_neighbors,
            temperature=temperature, alpha=alpha, max_rows=max_rows, negative=negative,
        )  # fmt: skip
    return ranking_of(OWNER, draws, labelled, prior, negative)


@torch.no_grad()
def spreading_draws(
    owner: str,
    rows: Tensor,
    labelled: Tensor,
    *,
    prior: float | None,
    seeds: Sequence[int],
    rounds: int = ROUNDS,
    folds: int = 5,
    n_neighbors: int = N_NEIGHBORS,
    temperature: float = TEMPERATURE,
    alpha: float = ALPHA,
    max_rows: int = MAX_ROWS,
    negative: Tensor | None = None,
) -> list[Draw]:
    """Draws of `label_spreading` on rows of length 1, (n, k), one for each seed; `owner` signs the errors.

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
    draws: list[Draw] = []
    graph: SpreadingGraph | None = None
    for seed in seeds:
        fold, used = folds_of(owner, labelled, folds, seed, negative), fitted_rows(labelled, max_rows, seed, negative)
        if graph is None or not torch.equal(used, graph.used):
            graph = spreading_graph(rows, used, n_neighbors, temperature)
        draws.append(_draw(graph, labelled, fold, prior, rounds, alpha, rows.dtype, negative))
    return draws


class SpreadingGraph(NamedTuple):
    """The steps of labels: among rows that they spread through, by their numbers, and from all others to these."""

    used: Tensor
    elsewhere: Tensor
    transition: SparseMatrix
    arrive: SparseMatrix | None


def spreading_graph(rows: Tensor, used: Tensor, n_neighbors: int, temperature: float) -> SpreadingGraph:
    """The graph for rows of length 1, (n, k), of which labels spread through those with the numbers `used`."""
    through = rows[used]
    transition = both_ways(steps_to_nearest(through, through, n_neighbors, temperature, skip_self=True))
    others = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    others[used] = False
    elsewhere = others.nonzero().flatten()
    arrive = steps_to_nearest(rows[elsewhere], through, n_neighbors, temperature) if len(elsewhere) else None
    return SpreadingGraph(used, elsewhere, transition, arrive)


def _draw(
    graph: SpreadingGraph,
    labelled: Tensor,
    fold: Tensor,
    prior: float | None,
    rounds: int,
    alpha: float,
    dtype: torch.dtype,
    negative: Tensor | None,
) -> Draw:
    used, elsewhere, folds = graph.used, graph.elsewhere, int(fold.max()) + 1
    known = None if negative is None else negative[used]
    spread, share = _rounds(graph.transition, labelled[used], fold[used], folds, prior, rounds, alpha, known)
    score = torch.empty(len(labelled), dtype=dtype, device=labelled.device)
    score[used] = _own_fold(spread, fold[used]).to(dtype)
    if graph.arrive is not None:
        score[elsewhere] = _own_fold(graph.arrive.times(spread), fold[elsewhere]).to(dtype)
    if prior is None:
        share = share if negative is None else share_of(score, labelled, negative)
        share = move_to_gap(score[unlabelled_rows(labelled, negative)], score[labelled], share)
    return Draw(score, share)


def _rounds(
    transition: SparseMatrix, labelled: Tensor, fold: Tensor, folds: int, prior: float | None, rounds: int,
    alpha: float, known: Tensor | None,
) -> tuple[Tensor, float]:  # fmt: skip
    """What arrives of P and of the negatives after the last round, for every fold (n, 2 folds), and π."""
    outside = fold[:, None] != torch.arange(folds, device=fold.device)
    positive, negative = labelled[:, None] & outside, ~labelled[:, None] & outside
    free, share = unlabelled_rows(labelled, known), 0.5 if prior is None else prior
    for turn in range(rounds + 1):
        sources = torch.cat([positive, negative], dim=1).float()
        average = sources.mean(dim=0).clamp(min=1 / len(sources))  # where there are none, none arrive
        spread = _spread(transition, sources / average, alpha)
        scores = _log_ratio(spread)
        if prior is None:
            share = share_by_bbe(scores.gather(1, fold[:, None])[:, 0], labelled, known)
        if turn < rounds:
            before, negative = negative, drop_highest(scores.T, (free[:, None] & outside).T, share).T
            negative = negative if known is None else negative | known[:, None] & outside
            if torch.equal(before, negative):  # nothing would change any more
                break
    return spread, share


def _spread(transition: SparseMatrix, sources: Tensor, alpha: float) -> Tensor:
    """(1 − α) Σ_t αᵗ Tᵗ w, up to the t after which a weight of `REMAINDER` is left."""
    spread = sources
    for _ in range(math.ceil(math.log(REMAINDER) / math.log(alpha))):
        spread = torch.add((1 - alpha) * sources, transition.times(spread), alpha=alpha)
    return spread


def _log_ratio(spread: Tensor) -> Tensor:
    """The scores for every fold, (n, folds)."""
    positive, negative = (spread + FLOOR).log().chunk(2, dim=1)
    return positive - negative


def _own_fold(spread: Tensor, fold: Tensor) -> Tensor:
    """Every row's score for its own fold (n,)."""
    return _log_ratio(spread).gather(1, fold[:, None])[:, 0]
