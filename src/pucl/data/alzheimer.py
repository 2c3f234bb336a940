"""MRI slices of people with and without Alzheimer's disease: the published split, and one that keeps people apart."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data import Dataset
from pucl.data.readers.image_folder import list_images, read_image_split
from pucl.data.sources import get_source
from pucl.data.tasks import Split, binary_task
from pucl.errors import InputError
from pucl.registry import register

DEMENTED = ("VeryMildDemented", "MildDemented", "ModerateDemented")
HEALTHY = ("NonDemented",)
NAMES = (*DEMENTED, *HEALTHY)
SLICES = 32  # of every person, numbered from 1
TEST_SHARE = 0.2  # of the people of every class, as of the rows in the published split


@register("datasets", reference="sec:add_exp", inputs=("image",))
def alzheimer(*, seed: int = 0, size: int = 128, skip_unreadable: bool = False) -> Dataset:  # noqa: ARG001  (fixed)
    """Alzheimer: MRI images of demented patients against those of healthy people; prior 0.5.

    The grey slices of 176 × 208 pixels are scaled to `size` × `size`; of the longer side the middle is kept. A person
    has 32 slices, of which the lower 25 or 26 are training rows and the others test rows. The split leaks: every
    person of the test rows is among the training rows, with the same label. `alzheimer_grouped` keeps people apart.

    Args:
        seed: without effect, the split is the published one.
        size: the side of the images in pixels.
        skip_unreadable: leave out images that cannot be read, with a warning, instead of stopping at the first.
    """
    path = get_source("alzheimer-mri").path

    def read(part: str) -> Split:
        groups = [list_images(path(part) / name) for name in NAMES]
        return read_image_split(groups, size=size, mode="L", skip_unreadable=skip_unreadable)

    return binary_task("alzheimer", NAMES, DEMENTED, HEALTHY, train=read("train"), test=read("test"))


@register("datasets", reference="ours", inputs=("image",))
def alzheimer_grouped(*, seed: int = 0, size: int = 128) -> Dataset:
    """Alzheimer with every person either among the training rows or among the test rows; prior 0.5.

    The images of `alzheimer`, both parts together; a person has all 32 slices in one part. A fifth of the people of
    every class, at least one, is drawn for the test: 41 of 200 people. What a method reaches here is what it knows of
    people it has never seen.

    Args:
        seed: of the draw of the people for the test.
        size: the side of the images in pixels.
    """
    path, rng = get_source("alzheimer-mri").path, np.random.default_rng(seed)
    train: list[list[Path]] = []
    test: list[list[Path]] = []
    for name in NAMES:
        parts = [list_images(path(part) / name) for part in ("train", "test")]
        files = [file for part in parts for file in part]
        people = np.concatenate(people_of(*parts))
        everybody = np.unique(people)
        drawn = rng.permutation(everybody)[: max(1, round(TEST_SHARE * len(everybody)))]
        for group, is_in in ((train, ~np.isin(people, drawn)), (test, np.isin(people, drawn))):
            group.append([file for file, chosen in zip(files, is_in, strict=True) if chosen])
    read = (read_image_split(groups, size=size, mode="L") for groups in (train, test))
    return binary_task("alzheimer_grouped", NAMES, DEMENTED, HEALTHY, train=next(read), test=next(read))


def people_of(train: Sequence[Path], test: Sequence[Path]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of the person, from 1 within a class, on every image of the published split of the class.

    Test files carry slice and person in their names: ``26 (19).jpg`` is slice 26 of person 19, ``26.jpg`` that of
    person 1. Training files are numbered in the order of the slices that are not among the test files, and within a
    slice in the order of the names its files had: ``(1), (10), (11), …, (2), …``, person 1 last.
    """
    marked = [re.fullmatch(r"(\d+)(?: \((\d+)\))?", file.stem) for file in test]
    numbered = [re.fullmatch(r"[A-Za-z]+(\d+)", file.stem) for file in train]
    pairs = [(int(found[1]), int(found[2] or 1)) for found in marked if found]
    n_people = max((person for _, person in pairs), default=0)
    order = [*sorted(range(2, n_people + 1), key=str), 1]
    left = [person for k in range(1, SLICES + 1) for person in order if (k, person) not in set(pairs)]
    numbers = [int(found[1]) for found in numbered if found]
    if len(pairs) < len(test) or sorted(numbers) != list(range(len(left))) or len(numbers) < len(train):
        folder = (*train, *test, Path("train"))[0].parent
        raise InputError(f"alzheimer_grouped: the files in {folder} are not those of the published split, whose names "
                         f"tell the person; got {len(train)} for training and {len(test)} for the test")  # fmt: skip
    return np.array([left[number] for number in numbers], np.int64), np.array([person for _, person in pairs], np.int64)
