"""ImageNet from a folder of its classes: ``imagenet/train/<wnid>/`` and ``imagenet/val/<wnid>/``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pucl.data import Dataset
from pucl.data.readers.image_folder import list_images, read_image_split
from pucl.data.sources import get_source
from pucl.data.tasks import Split, binary_task
from pucl.errors import check_count
from pucl.registry import register

# The 118 breeds of ImageNet-1k, classes 151 to 268, are all its classes between these two names; wolves, the dingo
# and other wild relatives come after.
FIRST_DOG, LAST_DOG = "n02085620", "n02113978"  # Chihuahua, Mexican hairless


@register("datasets", reference="sec:add_exp", inputs=("image",))
def imagenet1(*, seed: int = 0, size: int = 64, per_class: int | None = None, skip_unreadable: bool = False) -> Dataset:
    """ImageNet-I: dogs against what is not a dog, from a folder of ImageNet classes.

    The paper takes "a subset of dog (P) vs non-dog (N) images" and does not say which: the subset is what the folder
    holds, and `per_class` of each of its classes. Every one of the 118 breeds of ImageNet-1k is a dog; wolves, foxes
    and the dingo (n02115641) are not.

    Args:
        seed: draws the images when `per_class` is given.
        size: the side of the images in pixels.
        per_class: how many training images to take of each class; all of them when not given.
        skip_unreadable: leave out images that cannot be read, with a warning, instead of stopping at the first.
    """
    if per_class is not None:
        check_count("imagenet1", "per_class", per_class)
    rng = np.random.default_rng(seed)
    path = get_source("imagenet").path

    def read(part: str, most: int | None) -> Split:
        folders = sorted(folder for folder in path(part).iterdir() if folder.is_dir())
        dogs: list[Path] = []
        others: list[Path] = []
        for folder in folders:
            group = dogs if FIRST_DOG <= folder.name <= LAST_DOG else others
            group += _draw(list_images(folder), most, rng)
        return read_image_split([dogs, others], size=size, mode="RGB", skip_unreadable=skip_unreadable)

    train, test = read("train", per_class), read("val", None)
    return binary_task("imagenet1", ("dog", "not dog"), ("dog",), ("not dog",), train=train, test=test)


def _draw(files: Sequence[Path], most: int | None, rng: np.random.Generator) -> list[Path]:
    if most is None or most >= len(files):
        return list(files)
    return [files[i] for i in np.sort(rng.choice(len(files), most, replace=False))]
