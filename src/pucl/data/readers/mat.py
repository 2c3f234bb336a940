"""The MATLAB files of SVHN: pixels X (32, 32, 3, n) and labels y, where 10 stands for the digit 0."""

import struct
import zlib
from pathlib import Path

import numpy as np

from pucl.data.sources import damaged
from pucl.data.tasks import Split
from pucl.errors import InputError

LARGEST = 1 << 29  # bytes of a variable once it is unpacked; those of the training part are 225 million
COMPRESSED = 15  # the type of a part that holds a packed variable
PIECE = 1 << 20


def read_svhn(path: Path) -> Split:
    """Images (n, 3, 32, 32) and the digit of each."""
    try:
        from scipy.io import loadmat  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise InputError(f"{path}: reading it needs scipy: pip install scipy") from error
    try:
        _check_sizes(path)
        content = loadmat(path, variable_names=("X", "y"))
        x, digit = content["X"], content["y"].ravel()
    except Exception as error:  # scipy answers a damaged file in many ways
        raise damaged(path, f"not a whole SVHN file ({error or type(error).__name__})") from error
    if digit.dtype.kind not in "uif":
        raise damaged(path, f"labels of type {digit.dtype}")
    if x.dtype != np.uint8 or x.shape != (32, 32, 3, len(digit)):
        raise damaged(path, f"{len(digit):,} labels for {x.dtype} pixels of shape {x.shape}")
    if ((digit < 1) | (digit > 10)).any():
        raise damaged(path, "labels are 1 to 10, found others")
    return Split(np.ascontiguousarray(x.transpose(3, 2, 0, 1)), digit.astype(np.int64) % 10)


def _check_sizes(path: Path) -> None:
    """Refuse variables that unpack to more than would fit: a few MB can hold many GB of zeros."""
    with path.open("rb") as file:
        order = ">" if file.read(128)[126:] == b"MI" else "<"
        while len(head := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", head)
            end = file.tell() + size
            if kind == COMPRESSED:
                unpacked, packer = 0, zlib.decompressobj()
                while unpacked <= LARGEST and (
                    piece := packer.unconsumed_tail or file.read(min(PIECE, end - file.tell()))
                ):
                    unpacked += len(packer.decompress(piece, PIECE))
                if unpacked > LARGEST:
                    raise ValueError(f"a variable has more than {LARGEST:,} bytes")
            file.seek(end)
