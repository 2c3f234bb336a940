"""From a split with many classes to a task with two: the classes that are positive, those that are negative."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.data import Dataset
from pucl.errors import Described, bad_argument


@dataclass(frozen=True)
class Split:
    """Images n × c × h × w, or texts, and for each the index of its class."""

    x: NDArray[Any]
    classes: NDArray[np.int64]


def binary_task(
    name: str,
    names: Sequence[str],
    positive: tuple[str, ...],
    negative: tuple[str, ...],
    *,
    train: Split,
    test: Split,
    x_unlabelled: NDArray[np.uint8] | None = None,
    kind: Literal["image", "text"] = "image",
) -> Dataset:
    """The task `positive` against `negative`; rows of other classes are left out.

    Args:
        name: the name of the task.
        names: the names of all classes, in the order of their indices.
        positive: the names of the positive classes.
        negative: the names of the negative classes.
        train: the official training split.
        test: the official test split.
        x_unlabelled: images whose class is unknown.
        kind: of the rows.
    """
    for which, split in (("train", train), ("test", test)):
        lacking = [label for label in (*positive, *negative) if names.index(label) not in split.classes]
        if lacking:
            allowed = f"one with {kind}s of every class of the task"
            raise bad_argument(name, f"the {which} split", allowed, Described(f"none of {', '.join(lacking)}"))
    groups = [[names.index(label) for label in group] for group in (positive, negative)]
    (x_train, y_train, classes), (x_test, y_test, _) = (_select(split, *groups) for split in (train, test))
    texts = ", ".join(positive), ", ".join(negative)
    return Dataset(name, kind, *texts, x_train, y_train, x_test, y_test, x_unlabelled, classes)


def _select(
    split: Split, positive: Sequence[int], negative: Sequence[int]
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.int64]]:
    """The rows of either group of classes, whether they are positive, and their classes."""
    truth = np.isin(split.classes, positive)
    used = truth | np.isin(split.classes, negative)
    return (split.x, truth, split.classes) if used.all() else (split.x[used], truth[used], split.classes[used])
