"""bagged_svm: support vector machines with a Gaussian kernel on balanced bags of P and U, judged out of bag."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.numerics.threads import in_order
from pucl.ranking import Ranking
from pucl.ranking.bags import Bools, Floats, Rows, Unseen, judging_chances, score_unseen
from pucl.ranking.columns import as_arrays, ranking_of_scores
from pucl.ranking.scaling import standardised
from pucl.registry import register

OWNER = "bagged_svm"
MAX_BAGS, HIDDEN_FOLDS = 15, 5
IN_ALL_BAGS = 2000  # rows of P: larger bags need fewer of them, and a model of fewer vectors scores faster
MAX_IN_BAG = 400  # rows of P, and of U
JUDGES = 3  # machines for each one of the model, where only a fifth of them judge a row
PIECE = 1 << 18  # values of the kernel held at a time


@dataclass(frozen=True)
class BaggedMachines:
    """The mean of all machines as one sum of kernels.

        f(x) = Σ_i a_i exp(−γ ‖x − v_i‖²) + b

    Attributes:
        vectors: v, (k, d), standardised rows.
        weight: a, (k,).
        bias: b.
        gamma: γ.
        score: of every training row by the machines that never saw it, (n,).
        unseen: such scores of other rows, by one machine each.
    """

    vectors: Rows
    weight: Floats
    bias: float
    gamma: float
    score: Floats
    unseen: Unseen


@register("rankers", reference="Mordelet and Vert 2014", revision=3)
def bagged_svm(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    c: float = 1.0,
    n_bags: int | None = None,
) -> Ranking:
    """The mean decision of machines whose bag did not hold the row.

        f_b(x) = Σ_i a_i exp(−‖x − x_i‖² / d) + b

    where rows are standardised and have d columns, and x_i are the support vectors of bag b. Every bag leaves out a
    fifth of P and of U in turn, so that every row is judged, and takes as many rows of one as of the other, at most
    400 of either.

    Args:
        z: rows (n, d), finite.
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool.
        seed: of the bags.
        c: C, the cost of a row on the wrong side.
        n_bags: how many machines the model has, at least five; 15, or fewer where bags are large, when not given.
            Others only judge: where P is small, twice as many.
    """
    check_positive(OWNER, "c", c)
    if n_bags is not None:
        check_count(OWNER, "n_bags", n_bags, low=HIDDEN_FOLDS)
    rows, s, known = as_arrays(OWNER, z, labelled, (), negative)
    machines = fit_bagged_svm(standardised(rows)[0], s, costs=[c], n_bags=n_bags, seed=seed, negative=known)
    return ranking_of_scores(OWNER, machines[0].score, z, labelled, negative, prior)


def fit_bagged_svm(
    x: Rows,
    labelled: Bools,
    *,
    costs: Sequence[float],
    seed: int,
    n_bags: int | None = None,
    negative: Bools | None = None,
) -> list[BaggedMachines]:
    """The machines of standardised rows for every cost C; all costs share the bags and their kernels.

    Where P is small a row is judged by a fifth of the machines, and more are fitted than the model needs: the first
    `n_bags` are the model, and all of them judge. A machine scores only the rows it judges.
    """
    draw, n_model = np.random.default_rng(seed), n_bags or bags_for(labelled)
    gamma, kinds = 1 / x.shape[1], [draw.permutation(np.flatnonzero(kind)) for kind in (labelled, ~labelled)]
    bags, judged = [], []
    for b in range(_fitted(n_model, kinds)):
        p, u = (_without_fold(rows, b) for rows in kinds)
        m = min(len(p), len(u), MAX_IN_BAG)
        against = draw.choice(u, m, replace=False, p=_chances(u, negative))
        bags.append(np.concatenate([draw.choice(p, m, replace=False), against]))
        judged.append(judged_by(kinds, bags[-1], b, len(x), draw))

    def fit_and_score(number: int) -> tuple[Floats, Floats, Floats]:
        rows, rest = bags[number], judged[number]
        weight, bias = np.zeros((len(rows), len(costs))), np.empty(len(costs))
        gram = kernel(x[rows], x[rows], gamma).astype(np.float64)
        for j, cost in enumerate(costs):
            machine = SVC(C=cost, kernel="precomputed").fit(gram, labelled[rows])
            weight[machine.support_, j], bias[j] = machine.dual_coef_[0], machine.intercept_[0]
        return weight, bias, decisions(x[rest], x[rows], weight, gamma) + bias

    total, count, biases = np.zeros((len(x), len(costs))), np.zeros((len(x), 1)), np.zeros(len(costs))
    weights, parts = np.zeros((len(x), len(costs))), []
    with threadpool_limits(1):
        for number, (weight, bias, score) in enumerate(in_order(fit_and_score, range(len(bags)))):
            total[judged[number]] += score
            count[judged[number]] += 1
            if number < n_model:
                parts.append((weight, bias))
                weights[bags[number]] += weight / n_model
                biases += bias / n_model
    score = total / np.maximum(count, 1)
    machines = []
    for j in range(len(costs)):
        used = np.flatnonzero(weights[:, j])
        own = [
            (x[rows], weight[:, j], float(bias[j])) for rows, (weight, bias) in zip(bags[:n_model], parts, strict=True)
        ]
        unseen = _scorer(bags[:n_model], own, gamma)
        machines.append(BaggedMachines(x[used], weights[used, j], float(biases[j]), gamma, score[:, j], unseen))
    return machines


def _scorer(bags: Sequence[NDArray[np.intp]], machines: Sequence[tuple[Rows, Floats, float]], gamma: float) -> Unseen:
    """Scores of rows by the first machine that did not see the row in whose place they stand."""

    def score(number: int, rows: Rows) -> Floats:
        vectors, weight, bias = machines[number]
        used = weight != 0
        return decisions(rows, vectors[used], weight[used, None], gamma)[:, 0] + bias

    def unseen(numbers: NDArray[np.intp], rows: Rows) -> Floats:
        return score_unseen(numbers, rows, bags, score, 1)

    return unseen


def bags_for(labelled: Bools) -> int:
    """How many machines: 15 of small bags, down to 5 of large ones."""
    return int(np.clip(IN_ALL_BAGS // min(max(1, int(labelled.sum())), MAX_IN_BAG), HIDDEN_FOLDS, MAX_BAGS))


def kernel(x: Rows, vectors: Rows, gamma: float) -> Rows:
    """exp(−γ ‖x_i − v_j‖²), (n, k)."""
    exponent = x @ (2 * gamma * vectors.T)
    exponent -= gamma * (x**2).sum(axis=1)[:, None] + gamma * (vectors**2).sum(axis=1)
    np.minimum(exponent, 0, out=exponent)  # rounding may lift it above
    return np.asarray(np.exp(exponent, out=exponent))


def decisions(x: Rows, vectors: Rows, weight: Floats, gamma: float) -> Floats:
    """Σ_j w_j exp(−γ ‖x_i − v_j‖²) for every column of weights (k, c), (n, c); a piece of the rows at a time."""
    weights, step = weight.astype(np.float32), max(1, PIECE // len(vectors))
    pieces = (x[start : start + step] for start in range(0, len(x), step))
    return np.concatenate([kernel(piece, vectors, gamma) @ weights for piece in pieces]).astype(np.float64)


def _fitted(n_model: int, kinds: Sequence[NDArray[np.intp]]) -> int:
    """How many machines are fitted: so many that a row has 3/5 as many judges as the model has machines, or more."""
    m = min(MAX_IN_BAG, *(len(_without_fold(kind, 0)) for kind in kinds))
    share = max(1 / HIDDEN_FOLDS, min(1 - m / len(kind) for kind in kinds))
    return max(n_model, round(JUDGES * n_model / HIDDEN_FOLDS / share))


def judged_by(
    kinds: Sequence[NDArray[np.intp]], bag: NDArray[np.intp], b: int, n: int, draw: np.random.Generator
) -> NDArray[np.intp]:
    """The rows that machine b judges: the folds it leaves out, and some of the others outside its bag.

    Rows of P and of U are judged by about as many machines, see `judging_chances`.
    """
    inside = np.zeros(n, dtype=bool)
    inside[bag] = True
    chances = judging_chances([1 - len(bag) / 2 / len(kind) for kind in kinds], always=1 / HIDDEN_FOLDS)
    parts = []
    for kind, chance in zip(kinds, chances, strict=True):
        left_out = _left_out(kind, b)
        parts.append(kind[(left_out | (draw.random(len(kind)) < chance)) & ~inside[kind]])
    return np.concatenate(parts)


def _left_out(rows: NDArray[np.intp], b: int) -> Bools:
    """Which rows are in the fold of bag b: a fifth of them in turn, one in turn of fewer than five."""
    folds = min(HIDDEN_FOLDS, len(rows))
    return np.asarray(np.arange(len(rows)) % folds == b % folds)


def _without_fold(rows: NDArray[np.intp], b: int) -> NDArray[np.intp]:
    """The rows without the fold of bag b."""
    return np.asarray(rows[~_left_out(rows, b)])


def _chances(u: NDArray[np.intp], negative: Bools | None) -> NDArray[np.float64] | None:
    """Confirmed negatives are drawn as often in all as the other rows, but none more than ten times as often."""
    if negative is None:
        return None
    known = negative[u]
    weight = np.where(known, min(10.0, max(1.0, (~known).sum() / max(1, known.sum()))), 1.0)
    return np.asarray(weight / weight.sum())
