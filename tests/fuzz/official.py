"""The official files: idx, CIFAR pickles, STL, SVHN, tables of Orange."""

import gzip
import io
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from dataset_examples import cifar_batch, idx, noise
from fuzz.reader import MB, Files, Reader
from pucl.data.readers.cifar import read_cifar_batch
from pucl.data.readers.idx import read_idx
from pucl.data.readers.mat import read_svhn
from pucl.data.readers.stl import read_stl_split
from pucl.data.readers.texts import HEAD, read_tab_split

CANARY = b"touch canary"
LABELS = [0, 1, 9]


def _idx_seeds(_: Path) -> Sequence[Files]:
    _bomb()  # made once
    images = idx(noise(3, 4, 5))
    return [{"x.idx": images}, {"x.gz": gzip.compress(images)}, {"x.gz": gzip.compress(idx(noise(40, 9, 9)))}]


def _read_idx(folder: Path) -> object:
    return read_idx(next(folder.iterdir()), ndim=3)


@cache
def _bomb() -> Files:
    zeros = gzip.compress(bytes(64 * MB), 9)  # members follow each other
    return {"x.gz": gzip.compress(b"\0\0\x08\x03" + struct.pack(">3I", 8, 1024, 65536)) + zeros * 8}


def _announced(rng: Random, _: Sequence[Files]) -> Files:
    sizes = [rng.choice((0, 1, 3, 2**16, 2**31, 2**32 - 1)) for _ in range(3)]
    data = bytes((0, 0, 8, 3)) + struct.pack(">3I", *sizes) + noise(rng.choice((0, 60))).tobytes()
    return {"x.gz": gzip.compress(data)} if rng.random() < 0.5 else {"x.idx": data}


def cifar_seeds(_: Path) -> Sequence[Files]:
    return [{"batch": cifar_batch(noise(3, 3072), LABELS)}]


def _read_cifar(folder: Path) -> object:
    return read_cifar_batch(folder / "batch")


def _calls(rng: Random, seeds: Sequence[Files]) -> Files:
    """A pickle that would run a command, alone or before the others."""
    name = rng.choice(
        (b"cos\nsystem\n", b"cposix\nsystem\n", b"csubprocess\ncall\n", b"cbuiltins\neval\n", b"c__builtin__\nexec\n")
    )
    call = name + b"(U" + bytes([len(CANARY)]) + CANARY + b"tR"
    stack = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x8c" + bytes([len(CANARY)]) + CANARY + b"\x85R."
    instance = b"(S'" + CANARY + b"'\nios\nsystem\n."
    body = seeds[0]["batch"][2:]
    return {"batch": rng.choice((b"\x80\x02" + call + b".", stack, instance, b"\x80\x02" + call + b"0" + body))}


def nested(_: Random, seeds: Sequence[Files]) -> Files:
    """Labels that are ten lists of ten lists of … of the same list."""
    level = b"](" + b"K\x01" * 10 + b"e"
    for memo in range(8):
        level += b"q" + bytes([memo]) + b"0](" + (b"h" + bytes([memo])) * 10 + b"e"
    data = seeds[0]["batch"]
    at = data.rindex(b"](")
    return {"batch": data[:at] + level + b"u."}


def _memo(rng: Random, _: Sequence[Files]) -> Files:
    """An entry of the memo with a huge number, for which the unpickler makes a huge table."""
    index = rng.choice((2**31 - 1, 2**28, 2**27))
    return {"batch": b"\x80\x02}r" + struct.pack("<I", index) + b"."}


def _deep(rng: Random, _: Sequence[Files]) -> Files:
    n = rng.choice((1_000, 100_000))
    return {"batch": b"\x80\x02" + b"(" * n + b"t" * n + b"."}


def _long(rng: Random, _: Sequence[Files]) -> Files:
    """Opcodes that announce more than there is."""
    size = struct.pack("<Q", rng.choice((2**33, 2**40, 2**63 - 1)))
    opcode = rng.choice((b"\x8e", b"\x8d", b"\x96", b"\x95"))
    return {"batch": b"\x80\x05" + opcode + size + b"abc."}


def _stl_seeds(_: Path) -> Sequence[Files]:
    return [{"train_X.bin": noise(2, 27648).tobytes(), "train_y.bin": bytes((1, 10))}]


def _read_stl(folder: Path) -> object:
    return read_stl_split(folder / "train_X.bin", folder / "train_y.bin")


def _svhn_seeds(_: Path) -> Sequence[Files]:
    _mat_bomb()
    from scipy.io import savemat  # type: ignore[import-untyped,unused-ignore]

    content = {"X": noise(32, 32, 3, 3), "y": np.array([[1], [5], [10]], np.uint8)}
    seeds = []
    for options in ({}, {"do_compression": True}):
        file = io.BytesIO()
        savemat(file, content, **options)
        seeds.append({"train_32x32.mat": file.getvalue()})
    return seeds


def _read_svhn(folder: Path) -> object:
    return read_svhn(folder / "train_32x32.mat")


def mat(content: dict[str, Any], **options: Any) -> Files:
    from scipy.io import savemat

    file = io.BytesIO()
    savemat(file, content, **options)
    return {"train_32x32.mat": file.getvalue()}


def _objects(rng: Random, _: Sequence[Files]) -> Files:
    """Variables of other kinds: cells, structures, texts, complex, logical and sparse values."""
    from scipy.sparse import dia_array  # type: ignore[import-untyped,unused-ignore]

    cell = np.empty((2, 2), object)
    cell[:] = [["a", 1], [np.zeros(3), "b"]]
    kinds = (
        cell,
        {"a": 1, "b": cell},
        "text",
        np.ones((2, 2)) * 1j,
        np.ones(3, bool),
        dia_array(np.eye(4)),
        1.5,
        np.zeros((0, 3)),
    )
    return mat({"X": rng.choice(kinds), "y": rng.choice(kinds)}, do_compression=rng.random() < 0.5)


@cache
def _mat_bomb() -> Files:
    return mat({"X": np.zeros((32, 32, 3, 180_000), np.uint8), "y": np.ones((2, 1))}, do_compression=True)


def _mat4(rng: Random, _: Sequence[Files]) -> Files:
    header = struct.pack(
        "<5i", rng.choice((50, 0, 10, 1000)), *(rng.choice((1, 2**16, 2**31 - 1, -1)) for _ in range(2)), 0, 2
    )
    return {"train_32x32.mat": header + b"X\0" + bytes(64)}


def _tab_seeds(_: Path) -> Sequence[Files]:
    lines = [*HEAD, "space\tround the moon", "cars\ta wheel", ""]
    return [{"news.tab": "\n".join(lines).encode()}]


def _read_tab(folder: Path) -> object:
    return read_tab_split(folder / "news.tab", ("space", "cars"))


READERS = (
    Reader(
        "idx",
        _idx_seeds,
        _read_idx,
        {"gzip bomb": lambda _rng, _seeds: dict(_bomb()), "sizes": _announced},
        share=90,
        memory=320 * MB,
        once=("gzip bomb",),
    ),
    Reader(
        "CIFAR pickle",
        cifar_seeds,
        _read_cifar,
        share=130,
        memory=64 * MB,
        hostile={"calls": _calls, "nested": nested, "memo": _memo, "deep": _deep, "long": _long},
    ),
    Reader("STL", _stl_seeds, _read_stl, share=50, memory=64 * MB),
    Reader(
        "SVHN .mat",
        _svhn_seeds,
        _read_svhn,
        {"objects": _objects, "bomb": lambda _rng, _seeds: dict(_mat_bomb()), "version 4": _mat4},
        share=25,
        memory=1100 * MB,
        once=("bomb",),
    ),
    Reader("Orange table", _tab_seeds, _read_tab, share=40, memory=64 * MB),
)
