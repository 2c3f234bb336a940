"""Texts as rows: a list of strings, or a folder of .txt files. They are a table of one column."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.data.own.batch import OWNER, Batch, Table
from pucl.errors import Described, InputError, bad_argument

COLUMN, TYPE = "text", "text"
SUFFIX = ".txt"


@dataclass(frozen=True)
class TextRows:
    """Texts in memory, None where one is missing, as the table column `name`."""

    texts: NDArray[np.object_]
    name: str = COLUMN
    kind: Kind = "table"

    @property
    def schema(self) -> Mapping[str, str]:
        """The only column."""
        return {self.name: TYPE}

    def __len__(self) -> int:
        return len(self.texts)

    def batches(self, size: int) -> Iterator[Batch]:
        """All texts in order, at most `size` at a time; the ids are row numbers."""
        for start in range(0, len(self), size):
            part = self.texts[start : start + size]
            table = Table(self.schema, {self.name: part}, len(part), start)
            yield Batch(table, np.arange(start, start + len(part)))

    def take(self, index: NDArray[np.intp]) -> "TextRows":
        """The texts of the given numbers."""
        return replace(self, texts=self.texts[index])


@dataclass(frozen=True)
class TextFiles:
    """The .txt files below a folder, in UTF-8, as the table column `name`."""

    folder: Path
    names: tuple[str, ...]
    name: str = COLUMN
    kind: Kind = "table"

    @property
    def schema(self) -> Mapping[str, str]:
        """The only column."""
        return {self.name: TYPE}

    def __len__(self) -> int:
        return len(self.names)

    def batches(self, size: int) -> Iterator[Batch]:
        """All texts in order, at most `size` at a time; the ids are the names of the files."""
        for start in range(0, len(self), size):
            names = self.names[start : start + size]
            texts = np.array([self._text(name) for name in names], dtype=object)
            yield Batch(Table(self.schema, {self.name: texts}, len(texts), start), np.array(names, dtype=object))

    def ids(self) -> NDArray[np.object_]:
        """The names of the files, relative to the folder."""
        return np.array(self.names, dtype=object)

    def take(self, index: NDArray[np.intp]) -> "TextFiles":
        """The files of the given numbers, still on disk."""
        return replace(self, names=tuple(self.names[i] for i in index))

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror or error}", owner=OWNER) from None


def is_texts(source: Any) -> bool:
    """Whether `source` is a sequence of strings, some of which may be missing."""
    if not isinstance(source, list | tuple) and getattr(source, "ndim", 0 if hasattr(source, "columns") else 1) != 1:
        return False
    if isinstance(source, str | bytes | Mapping) or not hasattr(source, "__len__") or not hasattr(source, "__iter__"):
        return False
    kind = getattr(getattr(source, "dtype", None), "kind", "O")
    return kind in "OUT" and any(isinstance(value, str) for value in source) and all(map(_is_text, source))


def text_rows(source: Any) -> TextRows:
    """The texts of a list, an array or a Series of strings."""
    texts = np.empty(len(source), dtype=object)
    texts[:] = [str(value) if isinstance(value, str) else None for value in source]
    return TextRows(texts)


def text_files(folder: Path) -> TextFiles:
    """All .txt files below `folder`, in the order of their names."""
    names = tuple(path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if _is_text_file(path))
    if not names:
        raise bad_argument(OWNER, str(folder), "a folder of .txt files", Described("none in it"))
    return TextFiles(folder, names)


def has_texts(folder: Path) -> bool:
    """Whether there is a .txt file below `folder`."""
    return any(_is_text_file(path) for path in folder.rglob("*"))


def _is_text_file(path: Path) -> bool:
    return path.suffix.lower() == SUFFIX and not path.name.startswith(".") and path.is_file()


def _is_text(value: Any) -> bool:
    missing = value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and math.isnan(value))
    return missing or isinstance(value, str)
