"""Small files in the formats of the official data sets."""

import gzip
import hashlib
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.data.sources import SOURCES, data_root
from pucl.errors import InputError

Bytes = NDArray[np.uint8]
REAL = data_root()  # before any test sets PUCL_DATA


def noise(*shape: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def message(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def digest(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def both_checksums(path: Path) -> str:
    """The pattern of an error that names a file of the table with its expected and its found checksum."""
    official = {file.name: file.md5 for source in SOURCES for file in source.files if source.folder == path.parent}
    return f"{re.escape(str(path))}: .*expected MD5 {official[path.name]}, found {digest(path.read_bytes())}"


# Writers of the official formats.


def idx(array: Bytes) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: Path, part: str, images: Bytes, labels: Sequence[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array(labels, np.uint8))))


def cifar_batch(pixels: Bytes, labels: Sequence[int]) -> bytes:
    """A batch as Python 2 pickled it (protocol 2), opcode by opcode as in the official files."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    number = struct.Struct("<cI").pack
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    kind = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN"
    kind += number(b"J", 0xFFFFFFFF) * 2 + b"K\x00tb"
    shape = b"".join(number(b"J", size) for size in pixels.shape) + b"\x86"
    state = b"(K\x01" + shape + kind + b"\x89" + number(b"T", pixels.size) + pixels.tobytes() + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + state + text(b"labels") + listed + b"u."


def write_cifar(root: Path, labels: Sequence[int] = range(10)) -> Bytes:
    """Five batches and a test batch with the same labels; the pixels of the first batch."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        (folder / name).write_bytes(cifar_batch(noise(len(labels), 3072, seed=seed), labels))
    return noise(len(labels), 3072)


def write_stl(root: Path) -> dict[str, Bytes]:
    """Ten images of each part, class k + 1 at row k; the images as they look, (n, 3, row, column)."""
    folder = root / "stl10_binary"
    folder.mkdir()
    images = {part: noise(10, 3, 96, 96, seed=seed) for seed, part in enumerate(("train", "test", "unlabeled"))}
    for part, x in images.items():
        columns_first = b"".join(x[i, c, :, j].tobytes() for i in range(10) for c in range(3) for j in range(96))
        (folder / f"{part}_X.bin").write_bytes(columns_first)
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(range(1, 11)))
    return images


def write_images(folder: Path, *images: Bytes) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for i, pixels in enumerate(images):
        image.fromarray(pixels).save(folder / f"{i:03}.png")
