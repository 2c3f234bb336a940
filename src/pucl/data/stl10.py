"""STL-10: 96 × 96 colour pictures; 5,000 labelled to train, 8,000 to test, 100,000 unlabelled.

The PU setting differs from the other data sets. Labelled positives come from the labelled split. U is what remains of
that split together with ``x_unlabelled``, the 100,000 unlabelled images, which also hold classes outside the ten. So
the prior inside U is unknown, and `Dataset.prior` speaks of the labelled split only.
"""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from pucl.data import Dataset
from pucl.data.readers.stl import map_stl_images, read_stl_split
from pucl.data.sources import get_source
from pucl.data.tasks import binary_task
from pucl.registry import register

CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
FIRST = ("airplane", "car", "cat", "ship", "truck")  # 0, 2, 3, 8, 9
SECOND = ("bird", "deer", "dog", "horse", "monkey")  # 1, 4, 5, 6, 7
VEHICLES = ("airplane", "car", "ship", "truck")
ANIMALS = ("bird", "cat", "deer", "dog", "horse", "monkey")


@register("datasets", reference="sec:add_exp", inputs=("image",))
def stl1(*, seed: int = 0) -> Dataset:
    """STL-I: classes 0, 2, 3, 8, 9 against 1, 4, 5, 6, 7; the prior inside U is unknown.

    The numbers are the paper's, counted from 0. They are the vehicles and the cat: class 3 is the cat here.
    """
    return _task("stl1", FIRST, SECOND)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def stl2(*, seed: int = 0) -> Dataset:
    """STL-II: classes 1, 4, 5, 6, 7 against 0, 2, 3, 8, 9; the prior inside U is unknown."""
    return _task("stl2", SECOND, FIRST)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def stl3(*, seed: int = 0) -> Dataset:
    """STL-III: vehicles against animals; 0.4 of the labelled split, the prior inside U is unknown."""
    return _task("stl3", VEHICLES, ANIMALS)


def _task(name: str, positive: tuple[str, ...], negative: tuple[str, ...]) -> Dataset:
    path = get_source("stl10").path
    train = read_stl_split(path("train_X.bin"), path("train_y.bin"))
    test = read_stl_split(path("test_X.bin"), path("test_y.bin"))
    unlabelled = map_stl_images(path("unlabeled_X.bin"))
    return binary_task(name, CLASSES, positive, negative, train=train, test=test, x_unlabelled=unlabelled)
