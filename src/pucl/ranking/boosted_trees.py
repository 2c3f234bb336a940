"""boosted_trees: gradient-boosted trees of P against U, both of the same weight, out of fold."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.ranking import Ranking
from pucl.ranking.bags import Bools, Floats, Rows
from pucl.ranking.categories import CategoryValues, category_values
from pucl.ranking.columns import as_arrays, ranking_of_scores
from pucl.ranking.cross_fitting import CrossFitted, cross_fitted
from pucl.registry import register

OWNER = "boosted_trees"


@register("rankers", reference="Friedman 2001; Ke et al. 2017 (histograms)")
def boosted_trees(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    n_trees: int = 100,
    learning_rate: float = 0.1,
    categories: tuple[int, ...] = (),
) -> Ranking:
    """The logit of scikit-learn's histogram boosting, from models that did not see the row.

        F = F_0 + ν Σ_t h_t,    argmin  Σ_i a_i CE(σ(F(x_i)), s_i)

    where a gives P and U the same weight in all, h_t are small trees and ν is the learning rate.
    With few labelled rows it ranks worse than bags of trees (LOG.md); it is made for thousands of them.

    Args:
        z: rows (n, c).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool; they weigh more than rows of U, see `weights_within`.
        seed: of folds and trees.
        n_trees: how many.
        learning_rate: how far every tree goes.
        categories: columns that hold the codes 0, 1, … of categories.
    """
    check_count(OWNER, "n_trees", n_trees)
    check_positive(OWNER, "learning_rate", learning_rate)
    rows, s, known = as_arrays(OWNER, z, labelled, categories, negative)
    fitted = fit_boosted(
        rows, s, n_trees=n_trees, learning_rate=learning_rate, categories=categories, seed=seed, negative=known
    )
    return ranking_of_scores(OWNER, fitted.score, z, labelled, negative, prior)


def fit_boosted(
    rows: Rows,
    labelled: Bools,
    *,
    n_trees: int = 100,
    learning_rate: float = 0.1,
    categories: tuple[int, ...] = (),
    seed: int = 0,
    negative: Bools | None = None,
) -> CrossFitted:
    """The boosted trees with their out-of-fold logits; the model is the trees and what stands for the categories.

    What stands for a category is made of labels, so it is made again for every fold, of the others.
    """

    def fit(
        part: Rows, s: Bools, weight: Floats | None
    ) -> tuple[HistGradientBoostingClassifier, CategoryValues | None]:
        x, values = category_values(part, s, categories, seed)
        model = HistGradientBoostingClassifier(
            max_iter=n_trees, learning_rate=learning_rate, max_leaf_nodes=8, l2_regularization=10.0,
            early_stopping=False, class_weight="balanced", random_state=seed,
        )  # fmt: skip
        return model.fit(x, s, sample_weight=weight), values

    def score(fitted: tuple[HistGradientBoostingClassifier, CategoryValues | None], part: Rows) -> Floats:
        model, values = fitted
        return np.asarray(model.decision_function(part if values is None else values.apply(part)), dtype=np.float64)

    return cross_fitted(rows, labelled, fit, score, seed=seed, negative=negative)
