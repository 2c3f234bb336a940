"""Data sets by name. A data set carries the truth y, which only sampling, metrics and benchmarks may read."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.errors import check_count, signed_by
from pucl.registry import get

Kind = Literal["image", "table", "vector"]


@dataclass(frozen=True)
class Dataset:
    """A task with its truth: rows to train on, rows held out for the final evaluation.

    Images are n × c × h × w, tables and vectors n × d, texts (n,). ``y`` is True for the positive class.
    ``x_unlabelled`` are rows without a known class, if the data set has any: they can only be part of U.
    ``classes_train`` are the classes, of several that make up a side, of the training rows, where there are such.
    """

    name: str
    kind: Kind | Literal["text"]
    positive: str
    negative: str
    x_train: NDArray[Any]
    y_train: NDArray[np.bool_]
    x_test: NDArray[Any]
    y_test: NDArray[np.bool_]
    x_unlabelled: NDArray[Any] | None = None
    classes_train: NDArray[Any] | None = None

    @property
    def prior(self) -> float:
        """The share of positives among the training rows, before any of them is labelled."""
        return float(self.y_train.mean())


@signed_by("pucl.load")
def load(name: str, *, seed: int = 0, **options: Any) -> Dataset:
    """The data set registered under `name`; `seed` decides its random parts (a draw or a split), if it has any."""
    check_count("pucl.load", "seed", seed, low=0)
    dataset: Dataset = get("datasets", name).function(seed=seed, **options)
    return dataset
