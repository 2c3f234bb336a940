"""Several rankers of the same rows: their ranks, averaged with weights that hidden positives decide."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.auc import auc
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
    """

    columns: Rows
    categories: tuple[int, ...]
    features: Rows
    labelled: Bools
    negative: Bools | None
    seed: int


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
    """

    name: str
    takes: Literal["columns", "features"]
    fitted: Any
    score: Floats
    area: float
    error: float
    weight: float = 0.0
    unseen: Unseen | None = None


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


def _trees(min_leaf: int, *, random_splits: bool = False) -> Callable[[TableRows], list[Fitted]]:
    def fit(rows: TableRows) -> list[Fitted]:
        fitted = bag_of_trees(
            rows.columns, rows.labelled, min_leaf=min_leaf, random_splits=random_splits, categories=rows.categories,
            negative=rows.negative, seed=rows.seed,
        )  # fmt: skip
        return [(fitted, fitted.score, fitted.unseen)]

    return fit


def _machines(rows: TableRows) -> list[Fitted]:
    fitted = fit_bagged_svm(rows.features, rows.labelled, costs=COSTS, seed=rows.seed, negative=rows.negative)
    return [(machines, machines.score, machines.unseen) for machines in fitted]


def _seconds_of_linear(rows: TableRows) -> float:
    return float(0.05 + 2e-7 * rows.features.size)


def _seconds_of_trees(rows: TableRows) -> float:
    in_bag = 2 * min(int(rows.labelled.sum()), MAX_IN_TREE)
    grown = N_TREES * in_bag * np.log2(in_bag + 2) * (1 + rows.columns.shape[1] ** 0.5) * 2e-7
    grown *= 1 + FOLDS * JUDGES if rows.categories else 1
    return float(0.1 + grown + N_TREES * len(rows.columns) * 4e-7)


def _seconds_of_machines(rows: TableRows) -> float:
    m = 2 * min(int(rows.labelled.sum()), MAX_IN_BAG)
    return 0.1 + bags_for(rows.labelled) * float(
        m * m * 1e-7 + len(rows.features) * m * (1e-8 + 1e-10 * rows.features.shape[1])
    )


MEMBERS = (  # the cheapest first; the choice is explained in LOG.md
    Member(("logistic regression",), "features", _linear, _seconds_of_linear),
    Member(("bagged trees, leaves of 10",), "columns", _trees(10), _seconds_of_trees),
    Member(("extra trees, leaves of 5",), "columns", _trees(5, random_splits=True), _seconds_of_trees),
    Member(("bagged trees, leaves of 1",), "columns", _trees(1), _seconds_of_trees),
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
    free = ~rows.labelled if rows.negative is None else ~rows.labelled & ~rows.negative
    cost = [member.seconds(rows) for member in members]
    for number, member in enumerate(members):
        on_progress(sum(cost[:number]) / (sum(cost) or 1.0), member.names[0], sum(cost))
        if ranked and deadline is not None and time.perf_counter() + cost[number] > deadline:
            skipped.extend(member.names)
            continue
        for name, (fitted, score, unseen) in zip(member.names, member.fit(rows), strict=True):
            area, error = auc(score[rows.labelled], score[free])
            ranked.append(Ranked(name, member.takes, fitted, score, area, error, unseen=unseen))
    return weighed(ranked), skipped


def weighed(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The rankers with their weights; those of hardly any weight are left out.

        w_j ∝ exp((A_j − A) / (2 σ))

    where A_j is the AUC of P against U by scores out of sample, A the largest of them and σ its standard error. Rankers
    that hidden positives cannot tell apart have about the same weight; a clearly worse one has none.
    """
    best = max(ranked, key=lambda each: each.area)
    weight = np.array([np.exp((each.area - best.area) / (SOFTNESS * max(best.error, 1e-6))) for each in ranked])
    weight = np.where(weight / weight.sum() < SMALLEST, 0.0, weight)
    weight /= weight.sum()
    return [replace(each, weight=float(w)) for each, w in zip(ranked, weight, strict=True)]


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
