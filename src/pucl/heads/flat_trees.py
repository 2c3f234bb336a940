"""Binary trees as flat arrays: read from fitted scikit-learn trees, checked, and ready to be walked level by level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LEAF = -1
LARGEST = np.finfo(np.float32).max
DTYPES: tuple[tuple[str, torch.dtype], ...] = (
    ("feature", torch.int32),
    ("threshold", torch.float32),
    ("missing_left", torch.bool),
    ("value", torch.float64),
)


@dataclass(frozen=True)
class FlatTrees:
    """Trees one after another, the nodes of each breadth first.

    In this order the children of the j-th inner node of a tree (j = 0, 1, …) stand beside each other, at the places
    2j + 1 and 2j + 2 after the root. So which nodes are leaves says all about the shape of a tree, and no stored number
    can lead in a circle.

    Attributes:
        feature: the column that a node looks at, (N,) int32; −1 at leaves.
        threshold: a row goes to the left where x ≤ threshold, (N,) float32; 0 at leaves.
        missing_left: whether it goes to the left where x is missing, (N,) bool.
        value: what a leaf says, (N,) float64; 0 at inner nodes.
        roots: where the trees begin, (T,) int32.
    """

    feature: Tensor
    threshold: Tensor
    missing_left: Tensor
    value: Tensor
    roots: Tensor

    @classmethod
    def of(cls, trees: Sequence[Mapping[str, NDArray[Any]]]) -> "FlatTrees":
        """From arrays of the nodes: left and right (−1 at leaves), feature, threshold, missing_left and value."""
        flat = [_breadth_first(tree) for tree in trees]
        sizes = [len(tree["feature"]) for tree in flat]
        joined = {name: torch.from_numpy(np.concatenate([tree[name] for tree in flat])) for name, _ in DTYPES}
        roots = torch.tensor([0, *np.cumsum(sizes[:-1])], dtype=torch.int32)
        return cls(**{name: joined[name].to(dtype) for name, dtype in DTYPES}, roots=roots)

    def check(self, n_columns: int) -> None:
        """Refuse, with a ValueError, arrays that are no trees on so many columns."""
        n = len(self.feature)
        for name, dtype in DTYPES:
            tensor = getattr(self, name)
            if tensor.shape != (n,) or tensor.dtype != dtype:
                raise ValueError(f"{name} of the trees is not ({n},) of {dtype}")
        if self.roots.ndim != 1 or self.roots.dtype != torch.int32 or not 0 < len(self.roots) <= n:
            raise ValueError("roots of the trees are no places of nodes")
        sizes = self.sizes()
        if int(self.roots[0]) != 0 or bool((sizes < 1).any()):
            raise ValueError("roots of the trees are not in order")
        if bool((self.feature < LEAF).any()) or bool((self.feature >= n_columns).any()):
            raise ValueError(f"a tree looks at a column outside of 0 … {n_columns - 1}")
        if not (bool(self.threshold.isfinite().all()) and bool(self.value.isfinite().all())):
            raise ValueError("thresholds and values of the trees are not finite")
        inner = self.feature != LEAF
        per_tree = torch.zeros(len(sizes), dtype=torch.int64).index_add_(0, self.trees(), inner.long())
        if not torch.equal(sizes, 2 * per_tree + 1) or bool((self.children()[inner] <= torch.arange(n)[inner]).any()):
            raise ValueError("the nodes of the trees are not in breadth-first order")

    def sizes(self) -> Tensor:
        """The number of nodes of every tree, (T,)."""
        return torch.diff(self.roots.long(), append=torch.tensor([len(self.feature)]))

    def trees(self) -> Tensor:
        """The tree that every node belongs to, (N,)."""
        return torch.repeat_interleave(torch.arange(len(self.roots)), self.sizes())

    def children(self) -> Tensor:
        """The left child of every inner node, its right one follows; a leaf is its own child, (N,)."""
        inner = (self.feature != LEAF).long()
        before = inner.cumsum(0) - inner  # inner nodes before each node, in all trees
        root, own = self.roots.long()[self.trees()], torch.arange(len(inner))
        return torch.where(inner.bool(), root + 1 + 2 * (before - before[root]), own)

    def depth(self) -> int:
        """How many steps lead from a root to the deepest leaf."""
        inner = torch.cat([torch.zeros(1, dtype=torch.int64), (self.feature != LEAF).long().cumsum(0)])
        start, end, depth = self.roots.long(), self.roots.long() + 1, -1
        while bool((end > start).any()):  # the nodes of one level of every tree
            start, end, depth = end, end + 2 * (inner[end] - inner[start]), depth + 1
        return depth


def floor_float32(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest finite float32 ≤ each number: for every finite float32 x, x ≤ number says the same as x ≤ this."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    lower = np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)
    return np.clip(lower, -LARGEST, LARGEST).astype(np.float32)


def _breadth_first(tree: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The nodes level by level, children beside each other."""
    left, right = tree["left"], tree["right"]
    levels = [np.zeros(1, dtype=np.intp)]
    while len(levels[-1]):
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.stack([left[inner], right[inner]], axis=1).reshape(-1).astype(np.intp))
    order = np.concatenate(levels)
    leaf = left[order] < 0
    return {
        "feature": np.where(leaf, LEAF, tree["feature"][order]),
        "threshold": np.where(leaf, np.float32(0), floor_float32(tree["threshold"][order])),
        "missing_left": tree["missing_left"][order].astype(bool) & ~leaf,
        "value": np.where(leaf, tree["value"][order], 0.0),
    }
