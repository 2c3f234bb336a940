"""Trees as tensors: the scores are those of scikit-learn, and what is no tree is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from head_examples import corners, known, two_gaussians
from pucl.errors import InputError
from pucl.heads import fit_head
from pucl.heads import trees as module
from pucl.heads.flat_trees import FlatTrees, floor_float32
from pucl.heads.stored import HeadParts, head_from_parts
from pucl.heads.trees import Trees
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.categories import CategoryValues
from tree_examples import Array, bag, boosted, mean_share, table

EXACT = 1e-14  # the sum of a row's leaves in another order
SPLITS_BY_GAPS = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)  # whether a single tree can


def on_thresholds(trees: list[Any], x: Array) -> Array:
    """The rows with every value moved onto a threshold of its column, or right beside it."""
    moved, rng = x.copy(), np.random.default_rng(5)
    for j in range(x.shape[1]):
        at = np.concatenate([tree.tree_.threshold[tree.tree_.feature == j] for tree in trees]).astype(np.float32)
        at = at[np.isfinite(at)]
        if len(at):
            near = np.concatenate([at, np.nextafter(at, np.float32(9e9)), np.nextafter(at, np.float32(-9e9))])
            moved[:, j] = np.where(np.isnan(x[:, j]), np.nan, rng.choice(near, size=len(x)))
    return moved


@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_bag_scores_as_in_scikit_learn(extra: bool, gaps: bool) -> None:
    x, goal = table(600, gaps=gaps)
    trees = bag(x, goal, extra=extra)
    head = Trees.of_sklearn(trees)
    new, _ = table(3000, gaps=gaps, seed=7)
    for rows in (x, new, on_thresholds(trees, new)):
        np.testing.assert_allclose(head(torch.from_numpy(rows)).numpy(), mean_share(trees, rows), rtol=0, atol=EXACT)
    assert len(np.unique(mean_share(trees, new))) > 100


def test_gaps_that_training_did_not_have_go_where_scikit_learn_sends_them() -> None:
    x, goal = table(500, gaps=False)
    trees = bag(x, goal)
    rows, _ = table(1000, seed=3)
    expected = np.mean([tree.tree_.predict(rows)[:, 1] for tree in trees], axis=0)  # predict_proba refuses gaps
    np.testing.assert_allclose(Trees.of_sklearn(trees)(torch.from_numpy(rows)).numpy(), expected, rtol=0, atol=EXACT)


def test_a_column_that_splits_by_its_gaps_alone() -> None:
    x = np.where(np.arange(40) % 2, np.nan, 1.0).astype(np.float32)[:, None]
    goal = np.arange(40) % 2
    for labels in (goal, 1 - goal):
        tree = DecisionTreeClassifier().fit(x, labels)
        assert np.isinf(tree.tree_.threshold).any() == SPLITS_BY_GAPS
        expected = labels.tolist() if SPLITS_BY_GAPS else [0.5] * 40
        assert Trees.of_sklearn([tree])(torch.from_numpy(x)).tolist() == expected
        model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2).fit(x, labels)
        assert np.isinf(model._predictors[0][0].nodes["num_threshold"]).any()
        found = Trees.of_boosting(model)(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, model.decision_function(x), rtol=0, atol=EXACT)


def test_a_threshold_that_scikit_learn_leaves_empty_sends_rows_where_it_does() -> None:
    """Versions before 1.8 have such thresholds in columns with gaps; all of them send the rows to the right."""
    x, goal = table(500)
    trees = bag(x, goal)
    for tree in trees:
        tree.tree_.threshold[tree.tree_.feature >= 0] = np.nan
    expected = np.mean([tree.tree_.predict(x)[:, 1] for tree in trees], axis=0)
    np.testing.assert_allclose(Trees.of_sklearn(trees)(torch.from_numpy(x)).numpy(), expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("gaps", [False, True])
def test_boosted_trees_score_as_in_scikit_learn(gaps: bool) -> None:
    x, goal = table(800, gaps=gaps)
    model = boosted(x, goal, max_leaf_nodes=12)
    new, _ = table(2000, gaps=gaps, seed=9)
    found = Trees.of_boosting(model)(torch.from_numpy(new)).numpy()
    np.testing.assert_allclose(found, model.decision_function(new), rtol=0, atol=1e-13)


def test_splits_of_categories_by_boosted_trees_are_refused() -> None:
    x, goal = table(400)
    model = boosted(x, (x[:, 2] == 1).astype(int), categorical_features=[2])
    with pytest.raises(InputError, match="model must be boosted trees that split numbers only; got splits of cat"):
        Trees.of_boosting(model)
    assert goal.any()


def test_trees_that_saw_one_class_only() -> None:
    x, _ = table(60)
    trees = [DecisionTreeClassifier().fit(x, np.full(60, label)) for label in (0, 1, 1)]
    assert Trees.of_sklearn(trees)(torch.from_numpy(x)).tolist() == pytest.approx([2 / 3] * 60)
    labels = np.arange(60) < 30
    of_bools = DecisionTreeClassifier(max_depth=3).fit(x, labels)
    assert Trees.of_sklearn([of_bools])(torch.from_numpy(x)).numpy() == pytest.approx(of_bools.predict_proba(x)[:, 1])


@pytest.mark.parametrize(("rows", "numbers", "pairs"), [(1, 1, 1), (7, 10**6, 40), (10**6, 50, 10**6)])
def test_the_size_of_the_pieces_does_not_matter(
    rows: int, numbers: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, goal = table(100)
    head = Trees.of_sklearn(bag(x, goal, min_samples_leaf=1))
    assert head.depth > 8, "some pairs are cleared away"
    expected = head(torch.from_numpy(x))
    for name, value in (("ROWS", rows), ("NUMBERS", numbers), ("PAIRS", pairs)):
        monkeypatch.setattr(module, name, value)
    assert torch.equal(head(torch.from_numpy(x)), expected)
    assert head(torch.from_numpy(x[:0])).shape == (0,)


def test_categories_become_numbers() -> None:
    x, goal = table(500)
    values = CategoryValues((2, 1), np.array([[5.0, -1.0], [0.5, 0.25]], np.float32), np.array([0.75, 9.0], np.float32))
    codes, _ = table(400, seed=2)
    rng = np.random.default_rng(0)
    codes[:, 1:3] = rng.choice(np.array([-1, 0, 1, 2, np.nan]), size=(400, 2))  # −1 and 2 are not known
    numbers = codes.copy()
    for i, j in enumerate(values.columns):
        first, second = values.table[i]
        own = {-1.0: values.default[i], 0.0: first, 1.0: second, 2.0: values.default[i]}
        numbers[:, j] = [own.get(float(code), code) for code in codes[:, j]]
    trees = bag(x, goal)
    given = torch.from_numpy(codes)
    found = Trees.of_sklearn(trees, values)(given)
    np.testing.assert_allclose(found.numpy(), mean_share(trees, numbers), rtol=0, atol=EXACT)
    assert np.array_equal(given.numpy(), codes, equal_nan=True), "the rows are left as they are"


def test_a_graph_of_trees_scores_the_same() -> None:
    x, goal = table(300)
    head = Trees.of_sklearn(
        bag(x, goal, n=5, max_depth=4), CategoryValues((2,), np.ones((1, 2), "f4"), np.ones(1, "f4"))
    )
    rows = torch.from_numpy(x)
    graph = torch.export.export(head, (rows[:3],), dynamic_shapes=({0: torch.export.Dim("n", min=1)},)).module()
    torch.testing.assert_close(graph(rows), head(rows), rtol=0, atol=EXACT)


def test_the_largest_float32_below_a_number() -> None:
    numbers = np.array([0.1, -0.1, 1.0, 1 + 1e-12, 1 - 1e-12, 1e-30, -1e-30, 3e38])
    found = floor_float32(numbers)
    assert (found.astype(np.float64) <= numbers).all()
    assert (np.nextafter(found, np.float32(np.inf)).astype(np.float64) > numbers).all()
    largest = np.finfo(np.float32).max
    assert floor_float32(np.array([np.inf, 1e300, -1e300])).tolist() == [largest, largest, -largest]


def test_the_logit_of_a_bag_stays_finite_and_keeps_the_order() -> None:
    x, goal = table(300, gaps=False)
    trees = bag(x, goal, min_samples_leaf=1)
    share, logit = (Trees.of_sklearn(trees, link=link)(torch.from_numpy(x)).double() for link in ("mean", "logit"))
    assert share.max() == 1 and logit.isfinite().all()
    torch.testing.assert_close(torch.sigmoid(logit), (15 * share + 0.5) / 16)


@pytest.mark.parametrize("wrong", [5, 7])
def test_rows_of_another_width_are_refused(wrong: int) -> None:
    x, goal = table(50)
    with pytest.raises(InputError, match=f"rows must be of 6 columns; got {wrong} columns"):
        Trees.of_sklearn(bag(x, goal, n=2))(torch.zeros(3, wrong))


def test_trees_and_categories_come_back_the_same() -> None:
    x, goal = table(300)
    values = CategoryValues((2,), np.array([[5.0, -1.0, 0.5]], np.float32), np.array([0.75], np.float32))
    for head in (Trees.of_sklearn(bag(x, goal), values, link="logit"), Trees.of_boosting(boosted(x, goal))):
        parts = head.to_parts()
        again = head_from_parts(parts)
        assert torch.equal(again(torch.from_numpy(x)), head(torch.from_numpy(x)))
        assert set(parts.tensors) == set(head.state_dict()), "what follows from the rest is not stored"


NAN, INF = float("nan"), float("inf")
CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "column": lambda p: {"feature": put(p["feature"], 0, 6)},
    "negative column": lambda p: {"feature": put(p["feature"], 0, -2)},
    "fewer columns": lambda _: {"n_columns": 1},
    "no number of columns": lambda _: {"n_columns": "6"},
    "inner node as leaf": lambda p: {"feature": put(p["feature"], 0, -1)},
    "leaf as inner node": lambda p: {"feature": put(p["feature"], -1, 0)},
    "leaves and inner nodes exchanged": lambda p: {"feature": p["feature"].flip(0)},
    "a circle": lambda p: {"feature": put(put(p["feature"], 0, -1), int(p["roots"][1]) - 1, 0)},
    "threshold": lambda p: {"threshold": put(p["threshold"], 0, NAN)},
    "value": lambda p: {"value": put(p["value"], -1, INF)},
    "length": lambda p: {"value": p["value"][1:]},
    "type": lambda p: {"feature": p["feature"].float()},
    "no trees": lambda p: {"roots": p["roots"][:0]},
    "roots out of order": lambda p: {"roots": p["roots"].flip(0)},
    "roots out of range": lambda p: {"roots": put(p["roots"], -1, 10**6)},
    "first root": lambda p: {"roots": put(p["roots"], 0, 1)},
    "a root moved": lambda p: {"roots": put(p["roots"], 1, int(p["roots"][1]) + 2)},
    "link": lambda _: {"link": "probit"},
    "base": lambda _: {"base": NAN},
    "column of categories": lambda p: {"columns": put(p["columns"], 0, 6)},
    "columns in halves": lambda p: {"columns": p["columns"] + 0.5},
    "table": lambda p: {"table": p["table"][:, :0]},
    "table with gaps": lambda p: {"table": p["table"] * NAN},
    "default": lambda _: {"default": torch.zeros(2)},
    "missing": lambda _: {"missing_left": None},
    "half the categories": lambda _: {"table": None},
}


def put(tensor: torch.Tensor, at: int, value: float) -> torch.Tensor:
    changed = tensor.clone()
    changed[at] = value
    return changed


@pytest.mark.parametrize("change", CHANGES)
def test_tampered_trees_are_refused(change: str) -> None:
    x, goal = table(200)
    values = CategoryValues((2,), np.array([[5.0, -1.0, 0.5]], np.float32), np.array([0.75], np.float32))
    parts = Trees.of_sklearn(bag(x, goal, n=3), values).to_parts()
    changed = CHANGES[change]({**parts.tensors, **parts.options})
    options = {name: changed.get(name, value) for name, value in parts.options.items()}
    tensors = {name: changed.get(name, value) for name, value in parts.tensors.items()}
    with pytest.raises((KeyError, ValueError)) as caught:
        head_from_parts(HeadParts("trees", options, {n: t for n, t in tensors.items() if t is not None}))
    assert "\n" not in str(caught.value)


def test_the_depth_and_the_children_are_those_of_the_trees() -> None:
    x, goal = table(200)
    trees = bag(x, goal, n=4)
    head = Trees.of_sklearn(trees)
    assert head.depth == max(tree.tree_.max_depth for tree in trees)
    flat = FlatTrees(head.feature, head.threshold, head.missing_left, head.value, head.roots)
    assert flat.sizes().tolist() == [tree.tree_.node_count for tree in trees]


def test_the_head_draws_rows_by_their_reliability() -> None:
    z, labelled, y = two_gaussians(800, gap=4.0, n_labelled=100)
    pseudo = known(labelled, y, 0.4)
    wrong = (~y) & (torch.arange(len(y)) % 2 == 0)
    labels = PseudoLabels(pseudo.labels | wrong, pseudo.probability, torch.where(wrong, 0.0, 1.0), 0.4)
    sure = fit_head(z, labelled, labels, method="trees", n_trees=30)
    fooled = fit_head(z, labelled, PseudoLabels(labels.labels, labels.probability, torch.ones(len(z)), 0.4),
                      method="trees", n_trees=30)  # fmt: skip
    assert float(((sure(z) > 0) == y).float().mean()) > 0.95 > float(((fooled(z) > 0) == y).float().mean())
    nobody = PseudoLabels(labels.labels, labels.probability, torch.zeros(len(z)), 0.4)
    with pytest.raises(InputError, match="head 'trees': pseudo must be labels with rows whose reliability is above 0"):
        fit_head(z, labelled, nobody, method="trees")


def test_the_head_bends_and_depends_on_its_seed() -> None:
    z, labelled, y = corners(1500)
    fitted = [fit_head(z, labelled, known(labelled, y, 0.48), method="trees", n_trees=20, seed=k)(z) for k in (0, 0, 1)]
    assert float(((fitted[0] > 0) == y).float().mean()) > 0.97
    assert torch.equal(fitted[0], fitted[1]) and not torch.equal(fitted[0], fitted[2])
