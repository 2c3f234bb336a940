"""Arrays as rows: numpy arrays, torch tensors, and memory-mapped .npy and .npz files."""

import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.data.own.batch import OWNER, PASS, Batch, Table, finite
from pucl.errors import Described, InputError, bad_argument, one_line, unknown_name

MOST_COMPRESSED = 256 << 20  # bytes of a compressed array, which cannot be mapped, that are taken into memory
MOST_DENSE = 1 << 28  # values of a sparse matrix that is taken as a dense one
KINDS = (None, None, "vector", "image", "image")  # by the number of dimensions


@dataclass(frozen=True)
class ArrayRows:
    """Rows of an array that `open` gives: vectors (n, d), a table (n, d) of numbers, or images (n, c, h, w).

    A mapped file is mapped anew for every batch, so that the pages already read do not pile up in memory.
    """

    open: Callable[[], NDArray[Any]]
    kind: Kind
    shape: tuple[int, ...]
    ids: NDArray[Any] | None = None  # row numbers when there are none
    name: str = "the array"  # or the file

    @property
    def schema(self) -> Mapping[str, str]:
        """Columns ``x0``, ``x1``, … of a matrix that is a table; nothing otherwise."""
        return {f"x{j}": "number" for j in range(self.shape[1])} if self.kind == "table" else {}

    def __len__(self) -> int:
        return self.shape[0]

    def batches(self, size: int) -> Iterator[Batch]:
        """All rows in order, at most `size` at a time."""
        for start in range(0, len(self), size):
            block = np.array(self.open()[start : start + size])
            ids = np.arange(start, start + len(block)) if self.ids is None else self.ids[start : start + len(block)]
            yield Batch(self._rows(block, start), ids)

    def take(self, index: NDArray[np.intp]) -> "ArrayRows":
        """The rows of the given ascending numbers, in memory."""
        rows = np.empty((len(index), *self.shape[1:]), dtype=self.open().dtype)
        for start in range(0, len(self), PASS):
            low, high = np.searchsorted(index, (start, start + PASS))
            rows[low:high] = self.open()[index[low:high]]
        ids = None if self.ids is None else self.ids[index]
        return replace(self, open=lambda: rows, shape=rows.shape, ids=ids)

    def _rows(self, block: NDArray[Any], start: int) -> Any:
        if self.kind == "table":
            values = {name: block[:, j].astype(np.float64) for j, name in enumerate(self.schema)}
            return Table(self.schema, values, len(block), start)
        if self.kind == "vector":
            return finite(block, start, self.name)
        if block.ndim == 3:
            block = block[:, None]
        elif block.shape[1] not in (1, 3, 4) and block.shape[3] in (1, 3, 4):  # channels last
            block = block.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(block) if block.dtype == np.uint8 else finite(block, start, self.name)


def array_rows(
    open_: Callable[[], NDArray[Any]], *, kind: Kind | None, name: str = "source", file: str = ""
) -> ArrayRows:
    """Rows of a numeric array of two (vectors, tables), three or four (images) dimensions, maybe out of a file."""
    name = file or name
    array = open_()
    by_shape = KINDS[array.ndim] if array.ndim < len(KINDS) else None
    if array.dtype.kind not in "buif" or by_shape is None:
        got = Described(f"an array of shape {array.shape} and type {array.dtype}")
        raise bad_argument(OWNER, name, "numbers of shape (n, d), (n, h, w) or (n, c, h, w)", got)
    if kind not in (None, by_shape) and not (kind == "table" and by_shape == "vector"):
        raise bad_argument(OWNER, "kind", f"{by_shape!r} for an array of shape {array.shape}", kind)
    if 0 in array.shape:
        raise bad_argument(OWNER, name, "an array with rows", Described(f"an empty one of shape {array.shape}"))
    chosen: Kind = kind or ("vector" if by_shape == "vector" else "image")
    return ArrayRows(open_, chosen, array.shape, name=file or "the array")


def dense(owner: str, argument: str, values: Any) -> Any:
    """A sparse matrix of scipy as an array, refused where that would not fit; anything else as it is."""
    if not hasattr(values, "tocsr"):
        return values
    n, d = values.shape
    if n * d > MOST_DENSE:
        got = Described(f"a sparse one of {n:,} × {d:,}; reduce it first, for example by sklearn's TruncatedSVD")
        raise bad_argument(owner, argument, f"a matrix of at most {MOST_DENSE:,} values", got)
    return values.toarray()


def as_array(values: Any) -> NDArray[Any]:
    """A numpy array of a numpy array, torch tensor, sparse matrix or sequence."""
    values = dense(OWNER, "an array", values)
    if hasattr(values, "detach"):  # a torch tensor, which need not be on the CPU or of a type numpy knows
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    try:
        return np.asarray(values)
    except ValueError:
        raise bad_argument(OWNER, "an array", "rows of equal length", Described("rows of different lengths")) from None


def in_memory(values: Any) -> Callable[[], NDArray[Any]]:
    """How to open an array, tensor or sequence that is in memory already."""
    array = as_array(values)
    return lambda: array


def mapped(path: Path, key: str | None = None) -> Callable[[], NDArray[Any]]:
    """How to map the array of a .npy file, or the one under `key` in a .npz file, without reading it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that are odd
            return _opener(path, key)
    except InputError:
        raise
    except Exception as error:  # damaged headers and archives can fail in any way
        raise InputError(f"{path.name} cannot be read: {one_line(error)}", owner=OWNER) from None


def keys_of(path: Path) -> tuple[str, ...]:
    """The names of the arrays in a .npz file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(name.removesuffix(".npy") for name in archive.namelist())
    except Exception as error:  # as above
        raise InputError(f"{path.name} cannot be read: {one_line(error)}", owner=OWNER) from None


def _opener(path: Path, key: str | None) -> Callable[[], NDArray[Any]]:
    if path.suffix.lower() == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.memmap):
            raise ValueError("it is no array but an archive of some")  # under the name of one
        shape, dtype, offset = array.shape, array.dtype, array.offset
        order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
        return lambda: np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)
    if key not in keys_of(path):
        raise unknown_name(f"array of {path.name}", key, keys_of(path))
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{key}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            return _unpacked(archive, member, path)
        with archive.open(member) as file:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = header(file)
            inside = file.tell()
        with path.open("rb") as file:  # the data follow the local header: 30 bytes, the name and an extra field
            file.seek(member.header_offset + 26)
            lengths = np.frombuffer(file.read(4), dtype="<u2")
    if dtype.hasobject:
        raise bad_argument(OWNER, f"{path.name}[{key}]", "an array of numbers", Described("pickled objects"))
    if min(shape, default=0) < 0 or inside + math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"the header of {key!r} announces the sizes {shape}, and there is less")
    offset = member.header_offset + 30 + int(lengths.sum()) + inside
    order = "F" if fortran else "C"
    return lambda: np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> Callable[[], NDArray[Any]]:
    if member.file_size > MOST_COMPRESSED:
        got = Described(f"a compressed array of {member.file_size >> 20} MB; write it with np.savez or np.save")
        raise bad_argument(OWNER, path.name, "a file that can be memory-mapped", got)
    with archive.open(member) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return lambda: array
