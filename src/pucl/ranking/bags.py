"""Balanced bags: many models of P against as many rows of U, and for every row the mean of those that never saw it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.threads import in_order

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Bools = NDArray[np.bool_]
Fit = Callable[[NDArray[np.intp], int], Any]  # the rows of a bag and a seed → a model
Score = Callable[[Any, NDArray[np.intp]], Floats]  # a model and the numbers of rows (m,) → its scores of them (m,)
# The numbers of training rows (m,) and other rows in their place (k, m, c) → scores (k, m) by models that did not see
# these training rows.
Unseen = Callable[[NDArray[np.intp], Rows], Floats]
MAX_IN_BAG = 4000  # rows of P, and of U, in a bag
FROM_NEGATIVES = 0.5  # largest share of confirmed negatives among the negatives of a bag
RARELY = 0.05  # share of models without a row of some kind, below which the other kinds do not heed it


@dataclass(frozen=True)
class Bag:
    """The models of all bags, the score of every row by those that never saw it, (n,), and the rows of each bag."""

    models: tuple[Any, ...]
    score: Floats
    rows: tuple[NDArray[np.intp], ...]


def balanced_bag(
    labelled: Bools, fit: Fit, score: Score, *, n_models: int, seed: int, negative: Bools | None = None
) -> Bag:
    """Fit every model to m rows of P and m others, drawn with replacement, m = the fewer of both up to `MAX_IN_BAG`.

        f(x_i) = mean of f_b(x_i) over some of the bags b without row i

    A labelled row is outside about a third of the bags, a row of U outside nearly all. A mean of fewer models varies
    more, and averages of such ranks that favour the top would then favour P. So every kind of row is judged by about as
    many models: of the bags without a row of U a random third judges it, see `judging_chances`. A row that is in all
    bags has the mean score of its kind. With confirmed negatives up to half of the rows that stand against P are drawn
    from them.

    Args:
        labelled: s, (n,).
        fit: a model from the numbers of its rows, the m of P first, and a seed.
        score: of some rows by a model.
        n_models: how many bags.
        seed: of everything that is drawn.
        negative: confirmed negatives, (n,).
    """
    draw = np.random.default_rng(seed)
    n, p = len(labelled), np.flatnonzero(labelled)
    free = np.flatnonzero(~labelled if negative is None else ~labelled & ~negative)
    known = np.flatnonzero(negative) if negative is not None else np.empty(0, dtype=np.intp)
    fewer = min(len(p), len(free) + len(known) or len(p))
    m = min(fewer, MAX_IN_BAG)
    sure = round(m * min(FROM_NEGATIVES, len(known) / fewer))
    chance = _chances(n, [(p, m), (free, m - sure), (known, sure)])
    bags = []
    for _ in range(n_models):
        against = [draw.choice(free, m - sure)] if len(free) else []
        rows = np.concatenate([draw.choice(p, m), *against, *([draw.choice(known, sure)] if sure else [])])
        bags.append((rows, int(draw.integers(2**31))))

    def fit_and_score(bag: tuple[NDArray[np.intp], int]) -> tuple[Any, NDArray[np.intp], Floats]:
        model, judged = fit(*bag), np.random.default_rng(bag[1]).random(n) < chance
        judged[bag[0]] = False
        rows = np.flatnonzero(judged)
        return model, rows, score(model, rows)

    total, count = np.zeros(n), np.zeros(n)
    models = []
    for model, judged, values in in_order(fit_and_score, bags):
        models.append(model)
        total[judged] += values
        count[judged] += 1
    mean = total / np.maximum(count, 1)
    for kind in (labelled, ~labelled):
        seen = kind & (count > 0)
        mean[kind & (count == 0)] = mean[seen].mean() if seen.any() else mean[count > 0].mean() if count.any() else 0.0
    return Bag(tuple(models), mean, tuple(rows for rows, _ in bags))


def _chances(n: int, drawn: Sequence[tuple[NDArray[np.intp], int]]) -> Floats:
    """The chance with which a model judges each of n rows it did not see; of every kind so many are drawn in a bag."""
    chance, kinds = np.ones(n), [(kind, times) for kind, times in drawn if len(kind)]
    outside = [(1 - 1 / len(kind)) ** times for kind, times in kinds]
    for (kind, _), share in zip(kinds, judging_chances(outside), strict=True):
        chance[kind] = share
    return chance


def judging_chances(outside: Sequence[float], always: float = 0.0) -> list[float]:
    """The chance with which a model judges a row that it did not see, for every kind of row.

        c_k = (min_l o_l − a) / (o_k − a)

    so that every kind is judged by the same share of all models. Kinds that hardly any model leaves out do not count
    in the minimum: they would leave all others without a judge.

    Args:
        outside: o, the share of models that did not see a row of each kind.
        always: a, the share of models that judge every row in any case.
    """
    left = [max(0.0, share - always) for share in outside]
    fewest = min((rest for rest, share in zip(left, outside, strict=True) if share >= RARELY), default=1.0)
    return [min(1.0, fewest / rest) if rest else 1.0 for rest in left]


def score_unseen(
    numbers: NDArray[np.intp],
    rows: Rows,
    bags: Sequence[NDArray[np.intp]],
    score: Callable[[int, Rows], Floats],
    most: int,
) -> Floats:
    """Scores (k, m) of rows (k, m, c) in the place of training rows, see `Unseen`.

    Each is the mean over the first bags, at most `most`, that do not hold the training row; 0 where all of them do.

    Args:
        numbers: of the training rows, (m,).
        rows: in their place, (k, m, c).
        bags: the rows of every bag.
        score: the number of a bag and rows (j, c) → their scores (j,).
        most: bags that score a row.
    """
    total, count = np.zeros(rows.shape[:2]), np.zeros(len(numbers))
    for number, bag in enumerate(bags):
        held = np.zeros(int(max(bag.max(), numbers.max())) + 1, dtype=bool)
        held[bag] = True
        used = ~held[numbers] & (count < most)
        if used.any():
            chosen = np.ascontiguousarray(rows[:, used])
            total[:, used] += score(number, chosen.reshape(-1, rows.shape[2])).reshape(len(rows), -1)
            count += used
        elif (count >= most).all():
            break
    return np.asarray(total / np.maximum(count, 1))


def score_unseen_folds(
    numbers: NDArray[np.intp], rows: Rows, fold: NDArray[Any], score: Callable[[int, Rows], Floats]
) -> Floats:
    """The same by the model of the other folds; `score` takes the number of a fold."""
    out = np.zeros(rows.shape[:2])
    for k in np.unique(fold[numbers]):
        here = fold[numbers] == k
        chosen = np.ascontiguousarray(rows[:, here])
        out[:, here] = score(int(k), chosen.reshape(-1, rows.shape[2])).reshape(len(rows), -1)
    return out
