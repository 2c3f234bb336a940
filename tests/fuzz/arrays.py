"""Arrays: .npy and .npz files."""

import io
import struct
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.reader import MB, Files, Reader, zipped
from pucl.data.own import read


def npy(array: Any, **options: Any) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def header(text: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """A .npy file with any header."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text.encode()))
    return b"\x93NUMPY" + bytes(version) + length + text.encode() + data


def _npy_seeds(_: Path) -> Sequence[Files]:
    x = np.arange(36, dtype="f4").reshape(12, 3)
    images = np.zeros((12, 4, 4), np.uint8)
    return [
        {"x.npy": npy(each)}
        for each in (x, np.asfortranarray(x), x.astype(">f8"), images, x.astype("i1"), x.astype("f2"))
    ]


def _read_array(folder: Path) -> object:
    rows = read(folder / next(path.name for path in folder.iterdir()), positives=[0, 1])
    return rows.load()


class Runs:
    """A pickle of it would write a file."""

    def __reduce__(self) -> Any:
        return exec, ("open('canary', 'w').write('x')",)


def _objects(rng: Random, _: Sequence[Files]) -> Files:
    array = np.array([Runs()] * 12, object).reshape(12, 1)
    return {"x.npy": npy(array, allow_pickle=True)} if rng.random() < 0.5 else {"x.npy": b"\x80\x04" + npy(array)[130:]}


def _headers(rng: Random, _: Sequence[Files]) -> Files:
    kind = rng.choice(
        (
            "'<f4'",
            "'|O'",
            "'>f8'",
            "'<U9'",
            "'|V4'",
            "'<M8[s]'",
            "'<c8'",
            "[('a','<f4')]",
            "'<f16'",
            "'|b1'",
            "('<f4',(3,))",
            "5",
            "'<f4'*9",
        )
    )
    shape = rng.choice(
        (
            "(12,3)",
            "(3,)",
            "()",
            "(-1,3)",
            "(0,3)",
            "(12,0)",
            "(2**40,3)",
            f"({2**40},3)",
            f"({2**62},{2**62})",
            "(12.0,3)",
            "('a',)",
            "(True,3)",
            "[12,3]",
            "(1," * 30 + ")" * 30,
            "(" + "1," * 40 + ")",
        )
    )
    order = rng.choice(("True", "False", "1", "None", "'x'"))
    more = rng.choice(("", "", ", 'x': 1", "," * 9, ", 'shape': (1,)"))
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}{more}}}\n"
    text = rng.choice(
        (text, text, text, text + " " * 20_000, "[" * 5_000, "{}", "\ufeff", "__import__('os').system('x')")
    )
    return {"x.npy": header(text, bytes(rng.choice((0, 7, 144))), rng.choice(((1, 0), (2, 0), (3, 0), (9, 9))))}


def _npz_seeds(_: Path) -> Sequence[Files]:
    x, ids = np.arange(36, dtype="f4").reshape(12, 3), np.array([f"r{i}" for i in range(12)])
    seeds = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, x=x, ids=ids, label=np.arange(12) < 4)
        seeds.append({"x.npz": file.getvalue()})
    return seeds


def _read_npz(folder: Path) -> object:
    return read(folder / "x.npz", key="x", id_column="ids", label="label").load(), read(
        folder / "x.npz", key="x", positives=[1]
    ).load()


def _npz(rng: Random, seeds: Sequence[Files]) -> Files:
    """An archive with other arrays in it."""
    parts = {"x.npy": npy(np.ones((12, 3), "f4")), "ids.npy": npy(np.arange(12)), "label.npy": npy(np.arange(12) < 4)}
    kind = rng.choice((_headers, _objects, _headers))(rng, seeds)["x.npy"]
    parts[rng.choice(sorted(parts))] = kind
    if rng.random() < 0.3:
        parts[rng.choice(("../x.npy", "/etc/x.npy", "x", "y.npy", "x.npz", "a/b.npy"))] = parts.pop(
            rng.choice(sorted(parts))
        )
    return {
        "x.npz": zipped(
            parts, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        )
    }


@cache
def _zeros(n: int) -> Files:
    """An array of many zeros, compressed."""
    data = zipped(
        {
            "x.npy": header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},1)}}\n", bytes(4 * n)),
            "ids.npy": npy(np.arange(3)),
            "label.npy": npy([0, 1, 1]),
        }
    )
    return {"x.npz": data}


def _nested(_: Random, seeds: Sequence[Files]) -> Files:
    return {
        "x.npz": zipped(
            {"x.npy": zipped({"x.npy": seeds[0]["x.npz"]}), "ids.npy": b"", "label.npy": b"PK\x05\x06" + bytes(18)}
        )
    }


READERS = (
    Reader(".npy", _npy_seeds, _read_array, {"objects": _objects, "headers": _headers}, share=60, names=("positives",)),
    Reader(
        ".npz",
        _npz_seeds,
        _read_npz,
        share=20,
        names=("positives",),
        memory=900 * MB,
        once=("large", "bomb"),
        hostile={
            "arrays": _npz,
            "nested": _nested,
            "large": lambda *_: _zeros(50 * MB),
            "bomb": lambda *_: _zeros(75 * MB),
        },
    ),
)
