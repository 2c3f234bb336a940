"""Files that were found, by what is wrong with them: the reader, the file, how it ends now, and what is said of it."""

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from dataset_examples import cifar_batch, noise
from fuzz import arrays, official, pictures, tables
from fuzz.lists import HERE
from fuzz.reader import zipped
from fuzz.trial import READ, REFUSED


def arrow(**columns: Any) -> bytes:
    import pyarrow as pa
    from pyarrow import feather

    n = len(next(iter(columns.values())))
    file = io.BytesIO()
    table = pa.table({"id": [f"r{i}" for i in range(n)], "label": [i % 2 for i in range(n)]} | columns)
    feather.write_feather(table, file, compression="uncompressed")
    return file.getvalue()


def page_of_another_kind() -> bytes:
    """A Parquet file with a page of an unknown kind in its last column: Arrow passes it over and finds no rows."""
    import pyarrow as pa
    from pyarrow import parquet

    file = io.BytesIO()
    table = pa.table({"id": ["x", "y"], "label": [0, 1], "a": [1.5, 2.5]})
    parquet.write_table(table, file, compression="none", use_dictionary=False, write_statistics=False)
    data = bytearray(file.getvalue())
    page = parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(2).data_page_offset
    assert data[page : page + 2] == b"\x15\x00"  # a page of data
    data[page + 1] = 2
    return bytes(data)


def broken_text() -> bytes:
    """A column of texts that are not UTF-8."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"\xffa")]
    return arrow(a=pa.Array.from_buffers(pa.string(), 2, buffers))


def wrong_offsets() -> bytes:
    """A column whose texts lie outside the file."""
    data, there = arrow(a=["a", "b"]), struct.pack("<3i", 0, 1, 2)
    assert there in data
    return data.replace(there, struct.pack("<3i", 0, 1, 2**30))


def dates(*days: int) -> bytes:
    import pyarrow as pa

    return arrow(a=pa.array(days, pa.date32()), b=list(range(len(days))))


def no_zone() -> bytes:
    import pyarrow as pa

    return arrow(a=pa.array([0, 1], pa.timestamp("us", "Not/There")))


def book(old: bytes, new: bytes, *, place: Path) -> bytes:
    """A workbook with other bytes in its sheet."""
    (seed,) = tables.sheet_seeds(place)
    with zipfile.ZipFile(io.BytesIO(seed["table.xlsx"])) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert old in parts[sheet]
    parts[sheet] = parts[sheet].replace(old, new, 1)
    return zipped(parts)


def mat_file(**content: Any) -> bytes:
    return official.mat(content)["train_32x32.mat"]


def list_of(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def weights(content: Any) -> bytes:
    import torch

    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def announced_weights() -> bytes:
    """An archive whose only part has three bytes and announces more."""
    data, size = zipped({"archive/version": b"\n3\n"}, zipfile.ZIP_STORED), struct.pack("<I", 3)
    return data.replace(size + size, size + struct.pack("<I", 2_000_000_000))


def published(old: bytes, new: bytes) -> bytes:
    """The published numbers with other bytes in them."""
    data = (HERE.parent.parent / "src/pucl/bench/results/published.csv").read_bytes()
    assert old in data
    return data.replace(old, new, 1)


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
GRID = b"""tasks = ["digits"]
n_labelled = [100]
seeds = [0]
[recipe.long]
epochs = 1000000000
view = "shift"
[[block]]
objectives = ["sscl"]
encoder = "small_cnn"
recipes = ["long"]
readouts = ["pupl"]
knn_every = 1
"""
Case = tuple[str, str, Callable[[], bytes], str, str]
CASES: dict[str, Case] = {
    "labels as lists of lists": (
        "CIFAR pickle",
        "batch",
        lambda: official.nested(Random(0), official.cifar_seeds(Path()))["batch"],
        REFUSED,
        "not a list of whole numbers",
    ),
    "a memo of two thousand million": (
        "CIFAR pickle",
        "batch",
        lambda: b"\x80\x02}r\xff\xff\xff\x7f.",
        REFUSED,
        "not a whole CIFAR-10 batch",
    ),
    "bytes that do not follow": (
        "CIFAR pickle",
        "batch",
        lambda: b"\x80\x05\x96" + struct.pack("<Q", 2**31) + b"abc.",
        REFUSED,
        "not a whole CIFAR-10 batch",
    ),
    "a number of 2,000 signs": (
        "CIFAR pickle",
        "batch",
        lambda: b"\x80\x02F" + b"\xfc" * 2_000 + b"\n.",
        REFUSED,
        "not a whole CIFAR-10 batch",
    ),
    "no image of 2³² pixels": (
        "idx",
        "x.idx",
        lambda: b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 0),
        REFUSED,
        "the header announces the sizes",
    ),
    "a call before the batch": (
        "CIFAR pickle",
        "batch",
        lambda: b"\x80\x02cos\nsystem\n(U\x04exittR0" + cifar_batch(noise(3, 3072), [1, 2, 3])[2:],
        REFUSED,
        "asks to import os.system",
    ),
    "complex labels": (
        "SVHN .mat",
        "train_32x32.mat",
        lambda: mat_file(X=noise(32, 32, 3, 2), y=np.ones(2) * 1j),
        REFUSED,
        "no numbers 'y'",
    ),
    "texts as labels": (
        "SVHN .mat",
        "train_32x32.mat",
        lambda: mat_file(X=noise(32, 32, 3, 2), y=np.array(["a", 1], object)),
        REFUSED,
        "no numbers 'y'",
    ),
    "a variable that ends too early": (
        "SVHN .mat",
        "train_32x32.mat",
        lambda: mat_file(X=noise(32, 32, 3, 2), y=np.ones(2))[:-9],
        REFUSED,
        "it ends too early",
    ),
    "PostScript": ("images PNG", "a.png", lambda: EPS, REFUSED, "image a.png cannot be read"),
    "169 million pixels": (
        "images PNG",
        "a.png",
        lambda: pictures.png(13_000, 13_000, data=b""),
        REFUSED,
        "exceeds limit of 89478485 pixels",
    ),
    "damaged tags": (
        "images TIFF",
        "a.tif",
        lambda: pictures.encoded(".tif")[:-20],
        REFUSED,
        "image a.tif cannot be read",
    ),
    "65,500 pixels wide": ("images PNG", "a.png", lambda: pictures.png(65_500, 3, colour=2), READ, ""),
    "labels of three values": (
        "CSV",
        "table.csv",
        lambda: b"id,label,a\nx,0,1\ny,1,2\nz,5,3\n",
        REFUSED,
        "pucl.read, table.csv, column 'label': s must be",
    ),
    "names of columns in Latin-1": (
        "CSV",
        "table.csv",
        lambda: b"id,label,gr\xf6\xdfe\nx,0,1\ny,1,2\n",
        REFUSED,
        "table.csv cannot be read: 'utf-8' codec",
    ),
    "ids that are tables": (
        "Arrow",
        "table.arrow",
        lambda: arrow(id=[{"a": 1}, {"a": 2}], a=[1.0, 2.0]),
        REFUSED,
        "pucl.read, table.arrow: id column 'id' must be numbers or text",
    ),
    "a header of Python 2": (
        ".npy",
        "x.npy",
        lambda: arrays.header("{'descr': '<f4', 'fortran_order': False, 'shape': (4L, 3), }\n", bytes(48)),
        READ,
        "",
    ),
    "dates beyond all timestamps": ("Arrow", "table.arrow", lambda: dates(2**31 - 1, -(2**31), 0), READ, ""),
    "a time zone nobody knows": (
        "Arrow",
        "table.arrow",
        no_zone,
        REFUSED,
        "table.arrow cannot be read: Cannot locate ",  # "timezone" or "or parse timezone"
    ),
    "a page of another kind": (
        "Parquet",
        "table.parquet",
        page_of_another_kind,
        REFUSED,
        "table.parquet cannot be read: it holds 0 of the 2 rows that it announces",
    ),
    "texts that are not UTF-8": ("Arrow", "table.arrow", broken_text, REFUSED, "table.arrow cannot be read: "),
    "texts outside the file": ("Arrow", "table.arrow", wrong_offsets, REFUSED, "table.arrow cannot be read: "),
    "an archive of more numbers than there can be": (
        ".npz",
        "x.npz",
        lambda: zipped(
            {
                "x.npy": arrays.header(
                    f"{{'descr': '<f16', 'fortran_order': True, 'shape': ({2**62}, {2**62})}}\n", bytes(99)
                )
            },
            zipfile.ZIP_STORED,
        ),
        REFUSED,
        "x.npz cannot be read: the header of 'x' announces the sizes",
    ),
    "open brackets in a header": (
        ".npy",
        "x.npy",
        lambda: arrays.header("[" * 5_000),
        REFUSED,
        "x.npy cannot be read: ",
    ),
    "a list in Latin-1": (
        "positives files",
        "named.txt",
        lambda: b"r\xf601\n",
        REFUSED,
        "named.txt cannot be read: 'utf-8' codec",
    ),
    "a list of dates": (
        "positives files",
        "known.npy",
        lambda: list_of(np.array(["2024-01-01"], "M8[D]")),
        REFUSED,
        "known.npy: positives must be row numbers",
    ),
    "a list of pairs": (
        "positives files",
        "known.npy",
        lambda: list_of(np.array([(1, 2)], "i4,i4")),
        REFUSED,
        "known.npy: positives must be row numbers",
    ),
    "a row beyond 64 bits": (
        "positives files",
        "known.txt",
        lambda: b"99999999999999999999\n",
        REFUSED,
        "known.txt: positives must be row numbers",
    ),
    "a field of 200,000 signs": (
        "positives files",
        "named.csv",
        lambda: b"id\n" + b"x" * 200_000,
        REFUSED,
        "named.csv cannot be read: field larger",
    ),
    "a thousand million cells": (
        "TOML grid",
        "grid.toml",
        lambda: GRID,
        REFUSED,
        "must be one of at most 100,000 cells",
    ),
    "a key of 20,000 names": (
        "TOML grid",
        "grid.toml",
        lambda: b"x = 1\n" + b".".join([b"a"] * 20_000) + b" = 1",
        REFUSED,
        "at most 100 names in a key; got more at line 2",
    ),
    "an option of 900 letters": ("--config TOML", "fit.toml", lambda: b"x" * 900 + b" = 1", REFUSED, "unknown key of "),
    "options of depth 50,000": (
        "--config TOML",
        "fit.toml",
        lambda: b"x = " + b"[" * 50_000,
        REFUSED,
        "fit.toml cannot be read: ",
    ),
    "published numbers that are none": (
        "published.csv",
        "published.csv",
        lambda: published(b"71.3", b"7x.3"),
        REFUSED,
        "row 2, must be a row with a usable accuracy",
    ),
    "published numbers in Latin-1": (
        "published.csv",
        "published.csv",
        lambda: published(b"uPU", b"\xfcPU"),
        REFUSED,
        "cannot be read: 'utf-8' codec",
    ),
    "published numbers without a number of labels": (
        "published.csv",
        "published.csv",
        lambda: published(b",1000,", b",,"),
        REFUSED,
        "row 2, must be a row with a usable n_labelled",
    ),
    "published numbers without a column": (
        "published.csv",
        "published.csv",
        lambda: published(b"method,", b""),
        REFUSED,
        "row 2, must be a row with a usable method",
    ),
    "weights that announce 2 GB": (
        "weights .pth",
        "weights.pth",
        announced_weights,
        REFUSED,
        "announces 2,000,000,000 bytes",
    ),
    "weights that are a number": (
        "weights .pth",
        "weights.pth",
        lambda: weights(5),
        REFUSED,
        "weights.pth must be a file of tensors by name; got a int",
    ),
    "weights that run": (
        "weights .pth",
        "weights.pth",
        lambda: pickle.dumps(arrays.Runs(), protocol=4),
        REFUSED,
        "weights.pth cannot be read: ",
    ),
    "weights of other shapes": ("weights .pth", "weights.pth", lambda: weights({"a.weight": 1}), REFUSED, "do not fit"),
    "a graph that is none": ("ONNX", "net.onnx", lambda: b"\x08\xff", REFUSED, "encoder 'onnx:net.onnx': "),
}
