"""The idx format of MNIST and Fashion-MNIST, plain or gzip: a header of sizes, then bytes."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.sources import Source, damaged
from pucl.data.tasks import Split

LARGEST = 1 << 28  # bytes of a file once it is unpacked; those of MNIST have 47 million


def read_idx(path: Path, *, ndim: int) -> NDArray[np.uint8]:
    """The array of bytes in an idx file of `ndim` dimensions.

    The header is 0, 0, the type (8 = unsigned byte), the number of dimensions, then each size as a big-endian 32-bit
    number.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, f"not a whole gzip file ({error})") from error
    if len(raw) > LARGEST:
        raise damaged(path, f"it has more than {LARGEST:,} bytes")
    start = 4 + 4 * ndim
    if raw[:4] != bytes((0, 0, 8, ndim)) or len(raw) < start:
        raise damaged(path, f"not an idx file of {ndim} dimension(s) of bytes")
    shape = np.frombuffer(raw, ">u4", ndim, offset=4).tolist()
    if len(raw) - start != math.prod(shape):
        raise damaged(path, f"the header announces {math.prod(shape):,} bytes, {len(raw) - start:,} follow")
    try:
        return np.frombuffer(raw, np.uint8, offset=start).reshape(shape).copy()
    except ValueError as error:  # sizes beside one of 0 may be of any size
        raise damaged(path, f"the header announces the sizes {shape} ({error})") from error


def read_idx_split(source: Source, part: str) -> Split:
    """Images (n, 1, h, w) and classes of one part, ``"train"`` or ``"t10k"``, of an MNIST-like data set."""
    images, labels = (source.path(f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    x, classes = read_idx(images, ndim=3), read_idx(labels, ndim=1)
    if len(x) != len(classes):
        raise damaged(labels, f"{len(classes):,} labels for the {len(x):,} images of {images.name}")
    if (classes > 9).any():
        raise damaged(labels, f"classes are 0 to 9, found {classes.max()}")
    return Split(x[:, None], classes.astype(np.int64))
