"""bagged_trees: decision trees on balanced bags of P and U, judged by the trees that never saw a row."""

from torch import Tensor

from pucl.errors import check_count
from pucl.ranking import Ranking
from pucl.ranking.columns import as_arrays, ranking_of_scores
from pucl.ranking.trees import as_logits, bag_of_trees
from pucl.registry import register

OWNER = "bagged_trees"


@register("rankers", reference="Mordelet and Vert 2014; Breiman 1996 (out of bag)", revision=2)
def bagged_trees(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    n_trees: int = 200,
    min_leaf: int = 5,
    categories: tuple[int, ...] = (),
) -> Ranking:
    """The share of P in a row's leaf, averaged over the trees whose bag did not hold the row.

        f(x_i) = logit mean_{b: i ∉ b} |P ∩ leaf_b(x_i)| / |leaf_b(x_i)|

    where b are the bags, and leaf_b(x) holds the rows of b in the leaf of x.

    Every tree is grown on n_P rows of P and n_P rows of U, drawn with replacement, and looks at √c of the c columns in
    every split. It needs no scaling, and takes missing values and categories as they are.

    Args:
        z: rows (n, c).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool.
        seed: of bags and splits.
        n_trees: how many trees.
        min_leaf: rows a leaf holds at least; more are better where classes overlap.
        categories: columns that hold the codes 0, 1, … of categories.
    """
    check_count(OWNER, "n_trees", n_trees)
    check_count(OWNER, "min_leaf", min_leaf)
    rows, s, known = as_arrays(OWNER, z, labelled, categories, negative)
    fitted = bag_of_trees(rows, s, min_leaf=min_leaf, categories=categories, negative=known, n_trees=n_trees, seed=seed)
    return ranking_of_scores(OWNER, as_logits(fitted.score, n_trees), z, labelled, negative, prior)
