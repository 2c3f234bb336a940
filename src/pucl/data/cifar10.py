"""CIFAR-10: 60,000 colour pictures of 32 × 32 pixels in ten classes; 50,000 to train, 10,000 to test."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

import numpy as np

from pucl.data import Dataset
from pucl.data.readers.cifar import read_cifar_batch
from pucl.data.sources import get_source
from pucl.data.tasks import Split, binary_task
from pucl.registry import register

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
VEHICLES = ("airplane", "automobile", "ship", "truck")  # 0, 1, 8, 9
ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")  # 2, 3, 4, 5, 6, 7


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar0(*, seed: int = 0) -> Dataset:
    """CIFAR-0: dogs against cats, the other eight classes left out; prior 0.5."""
    return _task("cifar0", ("dog",), ("cat",))


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar1(*, seed: int = 0) -> Dataset:
    """CIFAR-I: vehicles (classes 0, 1, 8, 9) against animals (2 to 7); prior 0.4."""
    return _task("cifar1", VEHICLES, ANIMALS)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar2(*, seed: int = 0) -> Dataset:
    """CIFAR-II: animals (classes 2 to 7) against vehicles (0, 1, 8, 9); prior 0.6."""
    return _task("cifar2", ANIMALS, VEHICLES)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar3(*, seed: int = 0) -> Dataset:
    """CIFAR-III: vehicles against animals, the same classes as CIFAR-I; prior 0.4.

    The paper lists it apart because its experiments use another network and other numbers of labels.
    """
    return _task("cifar3", VEHICLES, ANIMALS)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar_easy(*, seed: int = 0) -> Dataset:
    """CIFAR-easy: airplane, bird against cat, dog, so that what looks alike is together; prior 0.5."""
    return _task("cifar_easy", ("airplane", "bird"), ("cat", "dog"))


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar_medium(*, seed: int = 0) -> Dataset:
    """CIFAR-medium: airplane, cat, dog against bird; prior 0.75."""
    return _task("cifar_medium", ("airplane", "cat", "dog"), ("bird",))


@register("datasets", reference="sec:add_exp", inputs=("image",))
def cifar_hard(*, seed: int = 0) -> Dataset:
    """CIFAR-hard: airplane, cat against bird, dog, so that what looks alike is apart; prior 0.5."""
    return _task("cifar_hard", ("airplane", "cat"), ("bird", "dog"))


def _task(name: str, positive: tuple[str, ...], negative: tuple[str, ...]) -> Dataset:
    train, test = _split(*(f"data_batch_{i}" for i in range(1, 6))), _split("test_batch")
    return binary_task(name, CLASSES, positive, negative, train=train, test=test)


def _split(*files: str) -> Split:
    source = get_source("cifar10")
    batches = [read_cifar_batch(path) for path in [source.path(file) for file in files]]
    return Split(np.concatenate([batch.x for batch in batches]), np.concatenate([batch.classes for batch in batches]))
