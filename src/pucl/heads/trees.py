"""Ensembles of trees: a bag or boosted trees of scikit-learn as tensors, and a bag of trees as a head."""

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from pucl.errors import Described, bad_argument, check_count, is_number
from pucl.heads.flat_trees import LEAF, FlatTrees
from pucl.heads.stored import HeadParts, StoredHead
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.categories import CategoryValues
from pucl.registry import register
from pucl.seeds import seed_of

OWNER = "head 'trees'"
Link = Literal["mean", "logit", "sum"]
ROWS, NUMBERS, PAIRS = 2048, 2**20, 2**17  # rows, their values, and pairs of a row and a tree held at a time
CLEARED = frozenset(range(8, 1000, 4))  # levels after which the pairs that have reached a leaf are cleared away
ONNX_DOMAIN = "pucl"  # of what stands for trees in a graph until `export_onnx` puts the operator for trees there
NODES = ("feature", "threshold", "missing_left", "value", "roots")
CATEGORIES = ("columns", "table", "default")


class Trees(StoredHead):
    """The values of the leaves that a row (c,) reaches, over all trees t = 1 … T.

        mean:   f(x) = Σ_t v_t(x) / T
        logit:  f(x) = logit((T m(x) + ½) / (T + 1)),    m(x) = Σ_t v_t(x) / T
        sum:    f(x) = b + Σ_t v_t(x)

    where v_t(x) is the value of the leaf of tree t. At an inner node a row goes to the left if x_j ≤ threshold, and
    where x_j is missing (NaN) to the side that training chose. Columns of categories take the numbers of
    `CategoryValues` first; a missing one stays missing. Rows count as float32, as scikit-learn takes them; the half of
    a tree in `logit` keeps it finite where all trees agree.

    Attributes:
        feature, threshold, missing_left, value, roots: the trees, see `FlatTrees`.
        columns, table, default: see `CategoryValues`, (k,), (k, m) and (k,); None without categories.
        n_columns: c.
        link: how values become a score.
        base: b.
    """

    kind = "trees"
    feature: Tensor
    threshold: Tensor
    missing_left: Tensor
    value: Tensor
    roots: Tensor
    columns: Tensor | None
    table: Tensor | None
    default: Tensor | None
    seen: Tensor
    border: Tensor
    child: Tensor

    def __init__(
        self,
        trees: FlatTrees,
        categories: CategoryValues | None = None,
        *,
        n_columns: int,
        link: Link = "mean",
        base: float = 0.0,
    ) -> None:
        super().__init__()
        if link not in get_args(Link) or not is_number(base) or not isinstance(n_columns, int) or n_columns < 1:
            raise ValueError(f"link {link!r}, base {base!r} or n_columns {n_columns!r} of the trees cannot be used")
        trees.check(n_columns)
        for name in NODES:
            self.register_buffer(name, getattr(trees, name))
        numbers = (None, None, None) if categories is None else _tensors(categories, n_columns)
        for name, tensor in zip(CATEGORIES, numbers, strict=True):
            self.register_buffer(name, tensor)
        self.n_columns, self.link, self.base, self.depth = n_columns, link, float(base), trees.depth()
        leaf = trees.feature == LEAF
        # Rows are held twice, with +∞ and with −∞ for what is missing: one comparison decides all.
        seen = trees.feature + n_columns * trees.missing_left.int()
        self.register_buffer("seen", torch.where(leaf, 0, seen).int(), persistent=False)
        self.register_buffer("border", torch.where(leaf, torch.inf, trees.threshold), persistent=False)
        self.register_buffer("child", trees.children().int(), persistent=False)

    @classmethod
    def of_sklearn(
        cls, trees: Sequence[Any], categories: CategoryValues | None = None, *, link: Link = "mean"
    ) -> "Trees":
        """From fitted DecisionTreeClassifier or ExtraTreeClassifier: a leaf says its share of class 1.

        Args:
            trees: at least one, all on the same columns; a tree that saw one class only says 0 or 1 everywhere.
            categories: the numbers that stood for categories in training.
            link: ``"mean"`` or ``"logit"``.
        """
        nodes = []
        for fitted in trees:
            tree, share = fitted.tree_, np.flatnonzero(fitted.classes_ == 1)
            value = tree.value[:, 0, share[0]] if len(share) else np.zeros(tree.node_count)
            # Before 1.8, scikit-learn may leave NaN where values are missing; as no number is ≤ NaN, all go right.
            threshold = np.where(np.isnan(tree.threshold), -np.inf, tree.threshold)
            nodes.append({
                "left": tree.children_left, "right": tree.children_right, "feature": tree.feature,
                "threshold": threshold, "missing_left": tree.missing_go_to_left, "value": value,
            })  # fmt: skip
        return cls(FlatTrees.of(nodes), categories, n_columns=int(trees[0].n_features_in_), link=link)

    @classmethod
    def of_boosting(cls, model: Any, categories: CategoryValues | None = None) -> "Trees":
        """From a fitted HistGradientBoostingClassifier of two classes: the logit of class 1.

        Args:
            model: with splits of numbers only; categories come as numbers.
            categories: the numbers that stood for categories in training.
        """
        nodes = []
        for (predictor,) in model._predictors:
            tree = predictor.nodes
            if tree["is_categorical"].any():
                got = Described("splits of categories")
                raise bad_argument(OWNER, "model", "boosted trees that split numbers only", got)
            leaf = tree["is_leaf"].astype(bool)
            nodes.append({
                "left": np.where(leaf, -1, tree["left"].astype(np.int64)),
                "right": np.where(leaf, -1, tree["right"].astype(np.int64)), "feature": tree["feature_idx"],
                "threshold": tree["num_threshold"], "missing_left": tree["missing_go_to_left"], "value": tree["value"],
            })  # fmt: skip
        base = float(np.asarray(model._baseline_prediction).item())
        return cls(FlatTrees.of(nodes), categories, n_columns=int(model.n_features_in_), link="sum", base=base)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Scores (n,) of rows (n, c) in float64, a batch of rows at a time."""
        if x.shape[1] != self.n_columns:
            raise bad_argument(OWNER, "rows", f"of {self.n_columns} columns", Described(f"{x.shape[1]} columns"))
        if torch.compiler.is_compiling():  # a graph for any number of rows has no loop over them
            return self._score(self._sums_in_a_graph(self._numbers(x)))
        size = max(1, min(ROWS, NUMBERS // (2 * self.n_columns)))
        return self._score(torch.cat([self._sums(self._sides(self._numbers(piece))) for piece in torch.split(x, size)]))

    def options(self) -> dict[str, Any]:
        """The number of columns c, the link and b."""
        return {"n_columns": self.n_columns, "link": self.link, "base": self.base}

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored trees; what cannot be trees raises KeyError or ValueError."""
        tensors, options = parts.tensors, parts.options
        trees = FlatTrees(**{name: tensors[name] for name in NODES})
        categories = None
        if any(name in tensors for name in CATEGORIES):
            columns, table, default = (tensors[name].numpy() for name in CATEGORIES)
            if columns.dtype != np.int64 or columns.ndim != 1:
                raise ValueError("columns of the categories are no vector of whole numbers")
            categories = CategoryValues(tuple(columns.tolist()), table, default)
        return cls(trees, categories, n_columns=options["n_columns"], link=options["link"], base=options["base"])

    def _numbers(self, x: Tensor) -> Tensor:
        """Rows (n, c) of float32 with numbers for categories."""
        x = x.to(torch.float32)
        if self.columns is None or self.table is None or self.default is None:
            return x
        code = x[:, self.columns]
        width = self.table.shape[1]
        known = (code >= 0) & (code < width)
        place = torch.where(known, code, 0).long() + width * torch.arange(len(self.columns), device=x.device)
        number = torch.where(known, self.table.reshape(-1)[place], self.default)
        return x.index_copy(1, self.columns, torch.where(code.isnan(), code, number))

    def _sides(self, x: Tensor) -> Tensor:
        """Rows (n, 2c): with +∞ where a value is missing, then with −∞."""
        missing = x.isnan()
        return torch.cat([torch.where(missing, torch.inf, x), torch.where(missing, -torch.inf, x)], dim=1)

    def _sums(self, x: Tensor) -> Tensor:
        """Σ_t v_t (n,) of rows (n, 2c), some trees at a time.

        Node numbers are int32, and the pairs of one tree stand beside each other, so that its nodes stay in the cache.
        """
        columns, places = x.T.contiguous(), self.seen * len(x)
        sums = torch.zeros(len(x), dtype=self.value.dtype, device=x.device)
        for roots in torch.split(self.roots, max(1, PAIRS // max(1, len(x)))):
            # Of the roots whole columns are compared at once.
            right = columns.index_select(0, self.seen[roots]) > self.border[roots][:, None]
            leaf = self._leaves((self.child[roots][:, None] + right).reshape(-1), columns.reshape(-1), places)
            sums += self.value.index_select(0, leaf).view(len(roots), len(x)).sum(dim=0)
        return sums

    def _leaves(self, node: Tensor, values: Tensor, places: Tensor) -> Tensor:
        """The leaves that pairs of a tree and a row reach: all go down one level at a time.

        Args:
            node: the nodes below the roots where they are, (trees × n,).
            values: of the rows, column by column, (2c × n,).
            places: where in `values` the column of a node begins, (N,).
        """
        n = len(values) // (2 * self.n_columns)
        row = torch.arange(n, dtype=torch.int32, device=node.device).repeat(len(node) // max(1, n))
        leaf, pair = node, None  # of all pairs, and which of them are still on their way
        for level in range(2, self.depth + 1):
            value = values.index_select(0, places.index_select(0, node).add_(row))
            after = self.child.index_select(0, node).add_(value > self.border.index_select(0, node))
            if level in CLEARED:
                moved = (after != node).nonzero().squeeze(1)
                leaf = after if pair is None else leaf.index_copy_(0, pair, after)
                pair = moved if pair is None else pair.index_select(0, moved)
                after, row = after.index_select(0, moved), row.index_select(0, moved)
            node = after
        return node if pair is None else leaf.index_copy_(0, pair, node)

    def _sums_in_a_graph(self, x: Tensor) -> Tensor:
        """The same of rows (n, c), all at once and without decisions that depend on them."""
        if torch.onnx.is_in_onnx_export() and hasattr(torch.onnx, "ops"):
            given = (x.double(), *(getattr(self, name) for name in NODES))
            shape = (x.shape[0], 1)
            return torch.onnx.ops.symbolic(f"{ONNX_DOMAIN}::Trees", given, dtype=torch.float64, shape=shape)[:, 0]
        seen, child, x = self.seen.long(), self.child.long(), self._sides(x)
        node = self.roots.long().expand(x.shape[0], -1)
        for _ in range(self.depth):
            node = child[node] + (x.gather(1, seen[node]) > self.border[node]).long()
        return self.value[node].sum(dim=1)

    def _score(self, sums: Tensor) -> Tensor:
        n = len(self.roots)
        if self.link == "sum":
            return sums + self.base
        return sums / n if self.link == "mean" else torch.logit((sums + 0.5) / (n + 1))


def _tensors(categories: CategoryValues, n_columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Columns (k,), table (k, m) and default (k,); a ValueError where they do not fit."""
    table, default = torch.tensor(categories.table).float(), torch.tensor(categories.default).float()
    columns, k = torch.tensor(categories.columns, dtype=torch.int64), len(categories.columns)
    if k == 0 or table.ndim != 2 or len(table) != k or table.shape[1] == 0 or default.shape != (k,):
        raise ValueError(f"table and default of the categories do not fit their {k} columns")
    if len(set(categories.columns)) != k or not all(0 <= column < n_columns for column in categories.columns):
        raise ValueError(f"the columns of the categories are not different numbers from 0 to {n_columns - 1}")
    if not (bool(table.isfinite().all()) and bool(default.isfinite().all())):
        raise ValueError("the numbers of the categories are not finite")
    return columns, table, default


@register("heads", reference="Breiman 1996; Mordelet and Vert 2014")
def trees(
    z: Tensor, labelled: Tensor, pseudo: PseudoLabels, *, n_trees: int = 200, min_leaf: int = 5, seed: int = 0
) -> Trees:
    """A bag of decision trees on the pseudo-labels, each on rows drawn by their reliability.

        f(z) = logit((T m(z) + ½) / (T + 1)),    m(z) = Σ_t v_t(z) / T

    where v_t(z) is the share of positive pseudo-labels among the drawn rows in the leaf of z. Every split looks at
    √k of the k features.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels.
        n_trees: T.
        min_leaf: rows that a leaf holds at least.
        seed: of the drawn rows and features.
    """
    from sklearn.tree import DecisionTreeClassifier

    del labelled
    check_count(OWNER, "n_trees", n_trees)
    check_count(OWNER, "min_leaf", min_leaf)
    check_count(OWNER, "seed", seed, low=0)
    weight = pseudo.reliability.double().cpu().numpy()
    if not weight.sum() > 0:
        raise bad_argument(OWNER, "pseudo", "labels with rows whose reliability is above 0", Described("no such row"))
    rows, goal = z.detach().float().cpu().numpy(), pseudo.labels.cpu().numpy()
    fitted = []
    for t in range(n_trees):
        rng = np.random.default_rng(seed_of(seed, "trees", t))
        drawn = rng.choice(len(rows), size=len(rows), p=weight / weight.sum())
        tree = DecisionTreeClassifier(
            min_samples_leaf=min_leaf, max_features="sqrt", random_state=int(rng.integers(2**31))
        )
        fitted.append(tree.fit(rows[drawn], goal[drawn]))
    return Trees.of_sklearn(fitted, link="logit").to(z.device).eval()
