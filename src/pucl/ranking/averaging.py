"""Several rankers of the same rows: their ranks, averaged with weights that hidden positives decide."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.auc import auc
from pucl.ranking.bagged_svm import JUDGES as JUDGES_OF_MACHINES
from pucl.ranking.bagged_svm import MAX_IN_BAG, bags_for, fit_bagged_svm
from pucl.ranking.bags import MAX_IN_BAG as MAX_IN_TREE
from pucl.ranking.bags import Bools, Floats, Rows, Unseen
from pucl.ranking.logistic import fit_linear
from pucl.ranking.trees import FOLDS, JUDGES, N_TREES, bag_of_trees

# A model, the out-of-sample scores of the training rows, and such scores of other rows in their place.
Fitted = tuple[Any, Floats, Unseen | None]
COSTS = (1.0, 10.0)  # C of the support vector machines
SOFTNESS = 2.0  # standard errors of the best AUC by which a ranker's weight falls to 1/e
SMALLEST = 0.02  # weight below which a ranker is left out
CLEARLY = 2.0  # standard errors from which one ranker is worse than another among the best rows
FEWEST = 10  # labelled rows from which the best rows are looked at
MORE_TREES, ROWS_IN_TREES = 300, 20_000  # trees where P is small, and rows of P in all of them that are enough


@dataclass(frozen=True)
class TableRows:
    """The training rows of the rankers.

    Attributes:
        columns: compact rows (n, c), NaN where a value is missing.
        categories: columns that hold codes.
        features: standardised features (n, d), finite.
        labelled: s, (n,).
        negative: confirmed negatives, (n,); None without any.
        seed: of everything random.
        reviewed: rows whose label a reviewer gave because a model had picked them, (n,). They train the rankers; where
            these are compared, they stand for U, whatever the answer was. None without any.
        extra: reviewed rows that a random sample of U was given besides, (n,); they do not stand for U.
    """

    columns: Rows
    categories: tuple[int, ...]
    features: Rows
    labelled: Bools
    negative: Bools | None
    seed: int
    reviewed: Bools | None = None
    extra: Bools | None = None

    @property
    def judged(self) -> tuple[Bools, Bools]:
        """P and U as they are where scores are compared, (n,) each."""
        free = ~self.labelled if self.negative is None else ~self.labelled & ~self.negative
        if self.reviewed is None:
            return self.labelled, free
        of_u = free | self.reviewed
        return self.labelled & ~self.reviewed, of_u if self.extra is None else of_u & ~self.extra


@dataclass(frozen=True)
class Ranked:
    """A ranker as it was fitted.

    Attributes:
        name: in words.
        takes: which rows it takes.
        fitted: its model, see `MEMBERS`.
        score: of every row by models that did not see it, (n,).
        area: AUC of P against U of these scores.
        error: its standard error.
        weight: of its ranks in the average.
        unseen: out-of-sample scores of other rows in the place of training rows.
        depth: how far every row of P is from the top, see `depth_of`, (n_p,); None if it is not looked at.
    """

    name: str
    takes: Literal["columns", "features"]
    fitted: Any
    score: Floats
    area: float
    error: float
    weight: float = 0.0
    unseen: Unseen | None = None
    depth: Floats | None = None


@dataclass(frozen=True)
class Member:
    """Rankers to be averaged that are fitted together: their names, and about how long that takes.

    Attributes:
        names: of every ranker, in words.
        takes: which rows they take.
        fit: rows → the model and the out-of-sample scores of every ranker.
        seconds: rows → a cautious guess of the time on one slow core.
    """

    names: tuple[str, ...]
    takes: Literal["columns", "features"]
    fit: Callable[[TableRows], list[Fitted]]
    seconds: Callable[[TableRows], float]


def _linear(rows: TableRows) -> list[Fitted]:
    fitted = fit_linear(rows.features, rows.labelled, seed=rows.seed, negative=rows.negative)
    return [(fitted.model, fitted.score, fitted.unseen)]


def _trees(min_leaf: int, *, random_splits: bool = False, most: int = N_TREES) -> Callable[[TableRows], list[Fitted]]:
    def fit(rows: TableRows) -> list[Fitted]:
        fitted = bag_of_trees(
            rows.columns, rows.labelled, min_leaf=min_leaf, random_splits=random_splits, categories=rows.categories,
            negative=rows.negative, n_trees=trees_for(rows.labelled, most), seed=rows.seed,
        )  # fmt: skip
        return [(fitted, fitted.score, fitted.unseen)]

    return fit


def trees_for(labelled: Bools, most: int) -> int:
    """How many trees: `N_TREES`, or up to `most` where P is small. Trees of few rows are rough, and quickly grown."""
    return int(np.clip(ROWS_IN_TREES // max(1, int(labelled.sum())), N_TREES, most))


def _machines(rows: TableRows) -> list[Fitted]:
    fitted = fit_bagged_svm(rows.features, rows.labelled, costs=COSTS, seed=rows.seed, negative=rows.negative)
    return [(machines, machines.score, machines.unseen) for machines in fitted]


def _seconds_of_linear(rows: TableRows) -> float:
    return float(0.05 + 2e-7 * rows.features.size)


def _seconds_of_trees(rows: TableRows, most: int = N_TREES) -> float:
    n_trees, in_bag = trees_for(rows.labelled, most), 2 * min(int(rows.labelled.sum()), MAX_IN_TREE)
    grown = n_trees * in_bag * np.log2(in_bag + 2) * (1 + rows.columns.shape[1] ** 0.5) * 2e-7
    grown *= 1 + FOLDS * JUDGES if rows.categories else 1
    return float(0.1 + grown + n_trees * len(rows.columns) * 4e-7)


_seconds_of_small_leaves = partial(_seconds_of_trees, most=MORE_TREES)


def _seconds_of_machines(rows: TableRows) -> float:
    m = 2 * min(int(rows.labelled.sum()), MAX_IN_BAG)
    fitted, scored = JUDGES_OF_MACHINES * m * m * 1e-7, len(rows.features) * m * (1e-8 + 1e-10 * rows.features.shape[1])
    return 0.1 + bags_for(rows.labelled) * float(fitted + scored)


MEMBERS = (  # the cheapest first; the choice is explained in LOG.md
    Member(("logistic regression",), "features", _linear, _seconds_of_linear),
    Member(("bagged trees, leaves of 10",), "columns", _trees(10), _seconds_of_trees),
    Member(("extra trees, leaves of 5",), "columns", _trees(5, random_splits=True), _seconds_of_trees),
    Member(("bagged trees, leaves of 1",), "columns", _trees(1, most=MORE_TREES), _seconds_of_small_leaves),
    Member(tuple(f"bagged support vectors, C = {c:g}" for c in COSTS), "features", _machines, _seconds_of_machines),
)


def rank_all(
    rows: TableRows,
    *,
    deadline: float | None = None,
    members: Sequence[Member] = MEMBERS,
    on_progress: Callable[[float, str, float], None] = lambda _done, _name, _seconds: None,
) -> tuple[list[Ranked], list[str]]:
    """Every ranker fitted and weighed, and the names of those that were left out because time was short.

    Args:
        rows: training rows.
        deadline: `time.perf_counter()` by which all should be done; the first is fitted in any case.
        members: the rankers, the cheapest first.
        on_progress: called with the share of the work that is done, the name of the next ranker, and about how many
            seconds all of them take.
    """
    ranked: list[Ranked] = []
    skipped: list[str] = []
    of_p, of_u = rows.judged
    cost = [member.seconds(rows) for member in members]
    for number, member in enumerate(members):
        on_progress(sum(cost[:number]) / (sum(cost) or 1.0), member.names[0], sum(cost))
        if ranked and deadline is not None and time.perf_counter() + cost[number] > deadline:
            skipped.extend(member.names)
            continue
        for name, (fitted, score, unseen) in zip(member.names, member.fit(rows), strict=True):
            p, u = score[of_p], score[of_u]
            depth = depth_of(p, u) if len(p) >= FEWEST else None
            ranked.append(Ranked(name, member.takes, fitted, score, *auc(p, u), unseen=unseen, depth=depth))
    return weighed(ranked), skipped


def weighed(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The rankers with their weights; those of hardly any weight are left out.

        w_j ∝ exp((A_j − A) / (2 σ) − max(0, t_j − 2))

    where A_j is the AUC of P against U by scores out of sample, A the largest of them and σ its standard error, and t_j
    says by how many standard errors ranker j is worse than another among the best rows, see `deeper`. Rankers that
    hidden positives cannot tell apart have about the same weight; a clearly worse one has none. Where positives are
    rare all AUCs may be near 1, and only the best rows tell who finds them (LOG.md).
    """
    best = max(ranked, key=lambda each: each.area)
    log = np.array([(each.area - best.area) / (SOFTNESS * max(best.error, 1e-6)) for each in ranked])
    log -= np.maximum(0.0, deeper([each.depth for each in ranked]) - CLEARLY)
    weight = np.exp(log - log.max())
    weight = np.where(weight / weight.sum() < SMALLEST, 0.0, weight)
    weight /= weight.sum()
    return [replace(each, weight=float(w)) for each, w in zip(ranked, weight, strict=True)]


def depth_of(p: Floats, u: Floats) -> Floats:
    """How far rows of P are from the top, (n_p,).

        d_i = log((#{u > p_i} + #{u = p_i}/2 + ½) / (n_U + 1))

    the logarithm of the share of U above the row: from 2 % to 1 % is as far as from 20 % to 10 %.
    """
    others = np.sort(u)
    below, upto = (np.searchsorted(others, p, side=side) for side in ("left", "right"))
    return np.asarray(np.log((len(u) - (below + upto) / 2 + 0.5) / (len(u) + 1)))


def deeper(depths: Sequence[Floats | None]) -> Floats:
    """By how many standard errors every ranker puts P deeper than the one that has it highest, (rankers,).

        t_j = mean_i δ_i / (sd(δ) / √n_P),    δ_i = d_ij − d_i*

    where * is the ranker of the smallest mean depth. 0 for all where a depth is not known.
    """
    known = [depth for depth in depths if depth is not None]
    if len(known) < len(depths):
        return np.zeros(len(depths))
    d = np.array(known)
    delta = d - d[d.mean(axis=1).argmin()]
    error = delta.std(axis=1, ddof=1) / np.sqrt(d.shape[1])
    return np.asarray(delta.mean(axis=1) / np.maximum(error, 1e-9))


def rank_among(reference: Floats, score: Floats) -> Floats:
    """The mid-rank of every score among sorted reference scores, within [0, 1]."""
    below, upto = (np.searchsorted(reference, score, side=side) for side in ("left", "right"))
    return np.asarray((below + upto) / (2 * len(reference)))


def averaged_score(ranked: Sequence[Ranked]) -> NDArray[np.float64]:
    """The average of every row's ranks by scores out of sample, (n,), in which high ranks count most.

        r = 1 − Π_j (1 − r_j)^w_j

    where 1 − r_j is the share of rows that ranker j puts above the row. The geometric mean of these shares lets a
    ranker that puts a row at the very top outvote others that put it high. Where positives are rare, the arithmetic
    mean of ranks found fewer of them (LOG.md).
    """
    used = (each for each in ranked if each.weight)
    tails = (each.weight * np.log1p(-rank_among(np.sort(each.score), each.score)) for each in used)
    return np.asarray(-np.expm1(sum(tails)))


def averaged_logits(ranked: Sequence[Ranked]) -> NDArray[np.float64]:
    """`averaged_score` as logits, (n,): finite, in the same order."""
    average = averaged_score(ranked)
    inside = np.clip(average, 0.25 / len(average), 1 - 0.25 / len(average))
    return np.asarray(np.log(inside / (1 - inside)))
