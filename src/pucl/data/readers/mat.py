"""The MATLAB files of SVHN: pixels X (32, 32, 3, n) and labels y, where 10 stands for the digit 0.

Numbers in files of level 5 are all that is read, in a few lines: scipy's reader ended the process on damaged files.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.sources import damaged
from pucl.data.tasks import Split
from pucl.errors import one_line

LARGEST = 1 << 29  # bytes of a variable once it is unpacked; those of the training part are 225 million
START = 128  # bytes of a text, the level and the order of bytes
MATRIX, PACKED = 14, 15  # parts that hold a variable, and those that hold another part
NUMERIC = range(6, 16)  # the classes of variables that are numbers
COMPLEX = 0x800
TYPES: Mapping[int, str] = MappingProxyType(
    {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
)


def read_svhn(path: Path) -> Split:
    """Images (n, 3, 32, 32) and the digit of each."""
    try:
        content = dict(_variables(memoryview(path.read_bytes())))
        x, digit = content["X"], content["y"].ravel()
    except KeyError as error:
        raise damaged(path, f"not a whole SVHN file (no numbers {error})") from error
    except (ValueError, struct.error, zlib.error) as error:
        raise damaged(path, f"not a whole SVHN file ({one_line(error)})") from error
    if x.dtype != np.uint8 or x.shape != (32, 32, 3, len(digit)):
        raise damaged(path, f"{len(digit):,} labels for {x.dtype} pixels of shape {x.shape}")
    if not ((digit >= 1) & (digit <= 10)).all():
        raise damaged(path, "labels are 1 to 10, found others")
    return Split(np.ascontiguousarray(x.transpose(3, 2, 0, 1)), digit.astype(np.int64) % 10)


def _variables(data: memoryview) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every variable of numbers, by name."""
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[START - 2 : START]))
    if order is None:
        raise ValueError("not a MATLAB file of level 5")
    at = START
    while at + 8 <= len(data):
        kind, part, at = _part(data, at, order)
        if kind == PACKED:
            unpacked = zlib.decompressobj().decompress(part, LARGEST + 1)
            if len(unpacked) > LARGEST:
                raise ValueError(f"a variable has more than {LARGEST:,} bytes")
            kind, part, _ = _part(memoryview(unpacked), 0, order)
        if kind == MATRIX:
            yield from _numbers(part, order)


def _numbers(part: memoryview, order: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """The name and the values of a variable of real numbers; nothing for any other."""
    _, flags, at = _part(part, 0, order)
    _, dims, at = _part(part, at, order)
    _, name, at = _part(part, at, order)
    kind, values, _ = _part(part, at, order)
    known = struct.unpack_from(f"{order}I", flags)[0]
    if kind in TYPES and known & 0xFF in NUMERIC and not known & COMPLEX:
        shape = np.frombuffer(dims, f"{order}i4").tolist()
        array = np.frombuffer(values, np.dtype(f"{order}{TYPES[kind]}")).reshape(shape, order="F")
        yield bytes(name).decode("latin-1"), array


def _part(data: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """The kind of a part, what is in it, and where the next one begins."""
    kind, size = struct.unpack_from(f"{order}II", data, at)
    if kind >> 16:  # a small one, of up to four bytes, has its size beside its kind
        return kind & 0xFFFF, data[at + 4 : at + 4 + min(kind >> 16, 4)], at + 8
    end = at + 8 + size
    if end > len(data):
        raise ValueError("it ends too early")
    return kind, data[at + 8 : end], end if kind == PACKED else end + -size % 8
