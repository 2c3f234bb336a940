"""Bags of trees on rows with categories and missing values, as their rankers and the average of ranks use them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from pucl.ranking.bags import Bools, Floats, Rows, Unseen, balanced_bag, score_unseen, score_unseen_folds
from pucl.ranking.categories import CategoryValues, category_values
from pucl.ranking.rows import folds_of

N_TREES = 100
FOLDS = 5
MOST_UNSEEN = 8  # trees that score a row in the place of one they did not see
JUDGES = 0.4  # of the number of trees: how many judge a fold, about as many as judge a labelled row out of bag


@dataclass(frozen=True)
class FittedTrees:
    """A bag of trees.

    Attributes:
        trees: scikit-learn's, fitted.
        values: what stands for the categories; None where there are none.
        score: the mean share of P in a row's leaf over the trees that never saw the row, (n,).
        unseen: such scores of other rows, by `MOST_UNSEEN` trees each.
    """

    trees: tuple[Any, ...]
    values: CategoryValues | None
    score: Floats
    unseen: Unseen

    def votes(self, rows: Rows, most: int | None = None) -> Floats:
        """The mean share of P in the leaf of every row over `most` or all trees, (n,), of rows (n, c) with codes."""
        x = rows if self.values is None else self.values.apply(rows)
        return np.asarray(np.mean([_vote(tree, x) for tree in self.trees[:most]], axis=0))


def bag_of_trees(
    rows: Rows,
    labelled: Bools,
    *,
    min_leaf: int,
    random_splits: bool = False,
    categories: tuple[int, ...] = (),
    negative: Bools | None = None,
    n_trees: int = N_TREES,
    seed: int = 0,
) -> FittedTrees:
    """Trees on balanced bags of P and U, with the mean vote of those that never saw a row as its score.

    Without categories these are the trees whose bag does not hold the row. What stands for a category is made of
    labels, also of those of rows outside the bag; so with categories a row is scored by trees of the other folds, with
    values that were made of the other folds.

    Args:
        rows: (n, c), NaN where a value is missing.
        labelled: s, (n,).
        min_leaf: rows a leaf holds at least.
        random_splits: draw the threshold of every column at random and look at all columns (extra trees), in place of
            the best threshold of √c columns.
        categories: columns that hold codes.
        negative: confirmed negatives, (n,).
        n_trees: how many.
        seed: of everything that is drawn.
    """
    tree = ExtraTreeClassifier if random_splits else DecisionTreeClassifier
    make = partial(tree, max_features=None if random_splits else "sqrt", min_samples_leaf=min_leaf)

    def grow(shown: Bools, number: int) -> FittedTrees:
        known = None if negative is None else negative[shown]
        return _grown(make, rows[shown], labelled[shown], known, categories, number, seed)

    fitted = grow(np.ones(len(rows), dtype=bool), n_trees)
    if not categories:
        return fitted
    known, score = None if negative is None else torch.from_numpy(negative), np.empty(len(rows))
    fold = folds_of("pucl.ranking.bag_of_trees", torch.from_numpy(labelled), FOLDS, seed, known).numpy()
    judges = [grow(fold != k, max(1, round(JUDGES * n_trees))) for k in range(int(fold.max()) + 1)]
    for k, judge in enumerate(judges):
        score[fold == k] = judge.votes(rows[fold == k])

    def unseen(numbers: NDArray[np.intp], others: Rows) -> Floats:
        return score_unseen_folds(numbers, others, fold, lambda k, part: judges[k].votes(part, MOST_UNSEEN))

    return replace(fitted, score=score, unseen=unseen)


def _grown(
    make: Callable[..., Any], rows: Rows, labelled: Bools, negative: Bools | None, categories: tuple[int, ...],
    n_trees: int, seed: int,
) -> FittedTrees:  # fmt: skip
    """The trees, and the scores of rows out of bag; with categories these are not used, and 0."""
    x, values = category_values(rows, labelled, categories, seed)
    gaps, goal = bool(np.isnan(x).any()), labelled.astype(np.float64)

    def fit(bag: NDArray[np.intp], number: int) -> Any:
        with config_context(skip_parameter_validation=True):  # a quarter of the time of a small tree
            return make(random_state=number).fit(x[bag], goal[bag], check_input=gaps)

    def score(tree: Any, judged: NDArray[np.intp]) -> Floats:
        return _vote(tree, x[judged]) if values is None else np.zeros(len(judged))

    bag = balanced_bag(labelled, fit, score, n_models=n_trees, seed=seed, negative=negative)

    def unseen(numbers: NDArray[np.intp], others: Rows) -> Floats:
        return score_unseen(numbers, others, bag.rows, lambda k, part: _vote(bag.models[k], part), MOST_UNSEEN)

    return FittedTrees(bag.models, values, bag.score, unseen)


def _vote(tree: Any, x: Rows) -> Floats:
    """The share of P in the leaf of every row, (n,)."""
    leaf = tree.tree_.value[:, 0, :]
    return np.asarray((leaf[:, -1] / leaf.sum(axis=1))[tree.tree_.apply(x)])


def as_logits(vote: Floats, n: int = N_TREES) -> Floats:
    """Mean votes of n trees as logits, with half a vote for either side so that none is infinite."""
    share = (n * vote + 0.5) / (n + 1)
    return np.log(share / (1 - share))
