"""Tables with ties and gaps, fitted trees and a blend, for the tests of trees, blends, folders and export."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from torch import Tensor

from pucl.data.own.expand import Expand
from pucl.heads import LinearHead
from pucl.heads.blend import Blend, Member, reference_scores
from pucl.heads.support_vectors import SupportVectors
from pucl.heads.trees import Trees
from pucl.ranking.categories import CategoryValues

Array = NDArray[Any]


def table(n: int, *, gaps: bool = True, seed: int = 0, width: int = 6) -> tuple[Array, Array]:
    """Rows (n, width) of float32, some of few values, some with gaps, and a class for each."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width)).astype(np.float32)
    x[:, 1] = np.round(x[:, 1] * 2) / 2
    x[:, 2] = rng.integers(3, size=n)
    positive = x[:, 0] + x[:, 1] * (x[:, 2] - 1) + 0.5 * rng.normal(size=n) > 0
    if gaps:
        x[rng.random(size=x.shape) < 0.15] = np.nan
        x[positive & (rng.random(size=n) < 0.3), 3] = np.nan  # a gap says something
    return x, positive.astype(int)


def bag(x: Array, goal: Array, *, n: int = 15, extra: bool = False, **options: Any) -> list[Any]:
    """Trees, each on rows drawn with replacement."""
    rng, make = np.random.default_rng(1), ExtraTreeClassifier if extra else DecisionTreeClassifier
    drawn = [rng.integers(len(x), size=len(x)) for _ in range(n)]
    how = {"min_samples_leaf": 2, "max_features": "sqrt", **options}
    return [make(random_state=t, **how).fit(x[rows], goal[rows]) for t, rows in enumerate(drawn)]


def mean_share(trees: list[Any], x: Array) -> Array:
    """The mean share of class 1 that the trees themselves give."""
    total: Array = np.mean([tree.predict_proba(x)[:, 1] for tree in trees], axis=0)
    return total


def boosted(x: Array, goal: Array, **options: Any) -> Any:
    return HistGradientBoostingClassifier(max_iter=20, random_state=0, **options).fit(x, goal)


def support_vectors(machines: list[Any], mean: Array, scale: Array) -> SupportVectors:
    """The mean of fitted SVC of one γ, fitted on (x − mean) / scale; a vector of several machines is kept once."""
    every = np.concatenate([machine.support_vectors_ for machine in machines])
    vectors, place = np.unique(every, axis=0, return_inverse=True)
    weight = np.zeros(len(vectors))
    np.add.at(weight, place.reshape(-1), np.concatenate([machine.dual_coef_[0] for machine in machines]))
    bias = np.mean([machine.intercept_[0] for machine in machines])
    arrays = (mean, scale, vectors, weight / len(machines), bias)
    tensors = [torch.as_tensor(np.asarray(array), dtype=torch.float32) for array in arrays]
    return SupportVectors(*tensors, gamma=machines[0].gamma)


def blend(expand: Expand, rows: Tensor, goal: Array, categories: CategoryValues | None = None) -> Blend:
    """Trees, boosted trees, support vectors and a linear head, fitted on rows as a table gives them."""
    x = rows.numpy() if categories is None else categories.apply(rows.numpy())
    with torch.no_grad():
        features = expand(rows).numpy()
    mean, scale = features.mean(axis=0), features.std(axis=0) + 0.1
    scaled = (features - mean) / scale
    machines = [SVC(C=1.0, gamma=0.1).fit(scaled[k::2], goal[k::2]) for k in range(2)]
    one_leaf = DecisionTreeClassifier().fit(x, 0 * goal)
    linear = LinearHead(torch.linspace(-1, 1, features.shape[1]), torch.tensor(0.2))
    heads: list[tuple[str, Any, Any, float]] = [
        ("bag", Trees.of_sklearn([*bag(x, goal), one_leaf], categories), "columns", 0.4),
        ("boosted", Trees.of_boosting(boosted(x, goal), categories), "columns", 0.2),
        ("svm", support_vectors(machines, mean, scale), "features", 0.3),
        ("linear", linear, "features", 0.3),
    ]
    seen = {"columns": rows, "features": torch.from_numpy(features)}
    members = [Member(n, head, on, reference_scores(head(seen[on]).detach()), w) for n, head, on, w in heads]
    return Blend(members, expand)
