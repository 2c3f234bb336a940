"""Bags of trees on rows with categories and missing values, as their rankers and the average of ranks use them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from pucl.ranking.bags import Bools, Floats, Rows, balanced_bag
from pucl.ranking.categories import CategoryValues, category_values

N_TREES = 100


@dataclass(frozen=True)
class FittedTrees:
    """A bag of trees.

    Attributes:
        trees: scikit-learn's, fitted.
        values: what stands for the categories; None where there are none.
        score: the mean share of P in a row's leaf over the trees that never saw the row, (n,).
    """

    trees: tuple[Any, ...]
    values: CategoryValues | None
    score: Floats


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
    x, values = category_values(rows, labelled, categories, seed)
    gaps = bool(np.isnan(x).any())
    make: Callable[..., Any] = ExtraTreeClassifier if random_splits else DecisionTreeClassifier
    features = None if random_splits else "sqrt"
    goal = labelled.astype(np.float64)

    def fit(bag: NDArray[np.intp], number: int) -> Any:
        tree = make(max_features=features, min_samples_leaf=min_leaf, random_state=number)
        return tree.fit(x[bag], goal[bag], check_input=gaps)

    def score(tree: Any) -> Floats:
        leaf = tree.tree_.value[:, 0, :]
        share = leaf[:, -1] / leaf.sum(axis=1)
        return np.asarray(share[tree.tree_.apply(x)])

    bag = balanced_bag(labelled, fit, score, n_models=n_trees, seed=seed, negative=negative)
    return FittedTrees(bag.models, values, bag.score)


def as_logits(vote: Floats, n: int = N_TREES) -> Floats:
    """Mean votes of n trees as logits, with half a vote for either side so that none is infinite."""
    share = (n * vote + 0.5) / (n + 1)
    return np.log(share / (1 - share))
