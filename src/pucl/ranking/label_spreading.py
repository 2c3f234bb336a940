"""Scores by random walks among nearest neighbours: rows of one small cluster speak for each other."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from pucl.errors import check_count, check_positive, check_share
from pucl.ranking.cvir import MOST, Found, at_gap, below, fitted_to, folds_of, share_of

Array = NDArray[np.float32]
NEIGHBOURS, TEMPERATURE, ON, TURNS = 10, 0.05, 0.8, 3  # by default
END = 1e-4  # the chance of walks longer than those that are followed
FLOOR = 1e-4  # of what is met, as a part of what is met on average: keeps logarithms finite
PIECE = 1 << 24  # similarities held at a time


@torch.no_grad()
def wander(
    owner: str,
    rows: Tensor,
    labelled: Tensor,
    *,
    prior: float | None,
    seed: int,
    rounds: int = TURNS,
    folds: int = 5,
    neighbours: int = NEIGHBOURS,
    temperature: float = TEMPERATURE,
    on: float = ON,
    most: int = MOST,
) -> Found:
    """How much walks from a row meet labelled rows rather than likely negatives; `walks` has the formula.

    As in `rounds.play` a fold is scored by the labels of all others: its own labels are not met, and what is dropped
    from its negatives is chosen without them.

    Args:
        owner: who asks, for errors.
        rows: of length 1, (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        seed: of the folds and of the rows that walks go through.
        rounds: how often likely positives are dropped from the negatives; with 0, all of U are negatives.
        folds: how many; fewer when P or U is smaller.
        neighbours: how many each row chooses; all others when there are fewer.
        temperature: τ; a smaller one prefers the nearest.
        on: α, the chance of another step.
        most: how many labelled and how many unlabelled rows walks go through; all are scored.
    """
    check_count(owner, "rounds", rounds, low=0)
    check_count(owner, "folds", folds, low=2)
    check_count(owner, "neighbours", neighbours)
    check_positive(owner, "temperature", temperature)
    check_share(owner, "on", on)
    check_count(owner, "most", most, low=2)
    fold, used = folds_of(owner, labelled, folds, seed), fitted_to(labelled, most, seed)
    through = rows[used]
    steps = _both_ways(_steps(through, through, neighbours, temperature, others=True))
    count = int(fold.max()) + 1
    met, share = _wander(steps, labelled[used].cpu(), fold[used].cpu(), count, prior, rounds, on)
    score = rows.new_empty(len(rows))
    score[used] = _own(met, fold[used]).to(score)
    elsewhere = torch.ones_like(labelled)
    elsewhere[used] = False
    if elsewhere.any():
        arrive = _steps(rows[elsewhere], through, neighbours, temperature)
        score[elsewhere] = _own(arrive @ met, fold[elsewhere]).to(score)
    if prior is None:
        share = at_gap(score[~labelled], score[labelled], share)
    return Found(score, share)


def _wander(
    steps: csr_array, labelled: Tensor, fold: Tensor, folds: int, prior: float | None, rounds: int, on: float
) -> tuple[Array, float]:
    """How much of P and of the negatives walks meet after the last round, for every fold (n, 2 folds), and π."""
    outside = fold[:, None] != torch.arange(folds)
    positive, negative = labelled[:, None] & outside, ~labelled[:, None] & outside
    share = 0.5 if prior is None else prior
    for turn in range(rounds + 1):
        wanted = torch.cat([positive, negative], dim=1).float()
        average = wanted.mean(dim=0).clamp(min=1 / len(wanted))  # where there are none, none are met
        met = _walk(steps, (wanted / average).numpy(), on)
        scores = _log_ratio(met)
        honest = scores.gather(1, fold[:, None])[:, 0]
        if prior is None:
            share = share_of(honest, labelled)
        if turn < rounds:
            kept = [below(score, ~labelled & rows, share) for score, rows in zip(scores.T, outside.T, strict=True)]
            negative = torch.stack(kept, dim=1)
    return met, share


def _walk(steps: csr_array, wanted: Array, on: float) -> Array:
    """(1 − α) Σ_t αᵗ Tᵗ w, as far as walks are followed: until a chance of `END` is left."""
    met = wanted
    for _ in range(math.ceil(math.log(END) / math.log(on))):
        met = on * (steps @ met) + (1 - on) * wanted
    return met


def _log_ratio(met: Array) -> Tensor:
    """The scores for every fold, (n, folds)."""
    positive, negative = torch.from_numpy(met + FLOOR).log().chunk(2, dim=1)
    return positive - negative


def _own(met: Array, fold: Tensor) -> Tensor:
    """Every row's score for its own fold (n,), where the fold is."""
    return _log_ratio(met).to(fold.device).gather(1, fold[:, None])[:, 0]


def _steps(rows: Tensor, among: Tensor, neighbours: int, temperature: float, *, others: bool = False) -> csr_array:
    """The chances (n, m) of stepping from a row to its nearest ones; with `others`, of the same rows, not to itself."""
    k = min(neighbours, len(among) - others)
    chances, places = [], []
    for piece in torch.split(torch.arange(len(rows), device=rows.device), max(1, PIECE // len(among))):
        cosine = rows[piece] @ among.T
        if others:
            cosine[torch.arange(len(piece), device=rows.device), piece] = -torch.inf
        near, who = cosine.topk(k, dim=1)
        chances.append(torch.softmax(near.float() / temperature, dim=1).cpu())
        places.append(who.cpu())
    return _sparse(torch.cat(chances), torch.cat(places), len(among))


def _sparse(chances: Tensor, places: Tensor, width: int) -> csr_array:
    n, k = chances.shape
    return csr_array((chances.flatten().numpy(), places.flatten().numpy(), np.arange(n + 1) * k), shape=(n, width))


def _both_ways(steps: csr_array) -> csr_array:
    """Steps along the edges of a graph, in both directions, with a row's chances adding up to 1."""
    edges = steps + steps.T
    return edges.multiply(1 / edges.sum(axis=1)[:, None]).tocsr()
