"""The binary files of STL-10: bytes without a header, every image channel by channel and column by column."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.sources import damaged
from pucl.data.tasks import Split

SIDE = 96
BYTES = 3 * SIDE * SIDE


def map_stl_images(path: Path) -> NDArray[np.uint8]:
    """The images (n, 3, 96, 96) of a file, left on disk and read where they are used (2.8 GB for the unlabelled)."""
    size = path.stat().st_size
    if size == 0 or size % BYTES:
        raise damaged(path, f"{size:,} bytes are not a whole number of images of {BYTES:,} bytes")
    stored = np.memmap(path, np.uint8, mode="r").reshape(-1, 3, SIDE, SIDE)  # the columns come before the rows
    return stored.transpose(0, 1, 3, 2)


def read_stl_split(images: Path, labels: Path) -> Split:
    """Images and classes of one labelled part; the file counts classes from 1, the paper and we from 0."""
    x, numbers = np.ascontiguousarray(map_stl_images(images)), np.fromfile(labels, np.uint8)
    if len(x) != len(numbers):
        raise damaged(labels, f"{len(numbers):,} labels for the {len(x):,} images of {images.name}")
    if ((numbers < 1) | (numbers > 10)).any():
        raise damaged(labels, "classes are 1 to 10, found others")
    return Split(x, numbers.astype(np.int64) - 1)
