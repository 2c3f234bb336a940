"""The python batches of CIFAR-10, read without running anything they contain.

A pickle may name any function to be called. These files name three, all of numpy; stand-ins that only keep what they
are given take their place, and any other name is refused. So not even numpy's own unpickling code is reached. The
unpickler is the one written in Python: that in C makes a table as long as the largest number in the file.
"""

import io
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pucl.data.sources import damaged
from pucl.data.tasks import Split
from pucl.errors import InputError


class _Kept:
    """Keeps the arguments it was made with and the state it was given; stands for numpy's array and type."""

    def __init__(self, *args: Any) -> None:
        self.args = args
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle._Unpickler):
    """An unpickler that knows plain values and numpy arrays only."""

    # An array of bytes is made in the size that the file announces, whether so many follow or not.
    dispatch: ClassVar[dict[int, Any]] = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]
    }

    def __init__(self, raw: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(raw), encoding="bytes")  # the official files were written by Python 2
        self.path = path

    def find_class(self, module: str, name: str) -> type[_Kept]:
        """The stand-in for a name these files need; any other is an error."""
        numpy_array = module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct"
        if numpy_array or (module == "numpy" and name in ("ndarray", "dtype")):
            return _Kept
        raise InputError(f"{self.path}: refused, the file asks to import {module}.{name}, which no CIFAR-10 batch does")


def read_cifar_batch(path: Path) -> Split:
    """Images (n, 3, 32, 32) and classes of one batch; a row of the file is the red, then green, then blue plane."""
    try:
        content = _Reader(path.read_bytes(), path).load()
        pixels = _pixels(_entry(content, "data"))
        classes = _classes(_entry(content, "labels"))
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise damaged(path, f"not a whole CIFAR-10 batch ({error or type(error).__name__})") from error
    if pixels.shape != (len(classes), 3 * 32 * 32):
        raise damaged(path, f"{len(classes):,} labels for pixels of shape {pixels.shape}")
    if ((classes < 0) | (classes > 9)).any():
        raise damaged(path, "classes are 0 to 9, found others")
    return Split(pixels.reshape(-1, 3, 32, 32), classes)


def _entry(content: Any, key: str) -> Any:
    return content[key.encode()] if key.encode() in content else content[key]


def _classes(labels: Any) -> NDArray[np.int64]:
    """A plain list of whole numbers; lists inside lists could stand for more numbers than fit into memory."""
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError("the labels are not a list of whole numbers")
    return np.array(labels, dtype=np.int64)


def _pixels(array: Any) -> NDArray[np.uint8]:
    """The array numpy would have made of this state: (version, shape, type, column-major, bytes)."""
    _, shape, kind, column_major, raw = array.state
    if kind.args[0] not in (b"u1", "u1") or column_major:
        raise ValueError("the pixels are not row-major bytes")
    return np.frombuffer(raw, np.uint8).reshape(shape)
