"""The cache of embeddings: vectors on disk, by the content of a row or text and the identity of the encoder."""

import hashlib
import os
import sqlite3
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import RunError, RunWarning, one_line, users_line

VARIABLE, OFF = "PUCL_CACHE", "off"  # a folder, or no cache at all
FILE = "embeddings.sqlite"
LARGEST = 2 << 30  # bytes; beyond, the rows that were written first go
KEPT = 0.8  # of that, when some have to go
AT_ONCE = 500  # rows asked for in one query
UNREADABLE = (sqlite3.Error, OSError, UnicodeDecodeError)  # the last where sqlite quotes a damaged file
WAIT = 30.0  # seconds for another process to finish writing

SCHEMA = """
CREATE TABLE IF NOT EXISTS encoders (id INTEGER PRIMARY KEY, identity TEXT UNIQUE, name TEXT);
CREATE TABLE IF NOT EXISTS vectors (n INTEGER PRIMARY KEY, encoder INTEGER, row BLOB, vector BLOB);
CREATE UNIQUE INDEX IF NOT EXISTS by_row ON vectors (encoder, row);
"""
SELECT = "SELECT row, vector FROM vectors JOIN encoders ON encoder = id WHERE identity = ?"


@dataclass(frozen=True)
class Held:
    """How many rows of an encoder the cache holds."""

    name: str
    identity: str
    rows: int


def cache_path() -> Path | None:
    """The file of the cache: in the folder PUCL_CACHE, else in ``pucl`` of the user's cache folder; None if off."""
    named = os.environ.get(VARIABLE)
    if named == OFF:
        return None
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pucl"
    return (Path(named) if named else default) / FILE


def row_keys(rows: NDArray[Any]) -> list[bytes]:
    """A hash of the content of every row, its type and its shape."""
    array = np.ascontiguousarray(rows)
    start = hashlib.blake2b(f"{array.dtype.str}{array.shape[1:]}".encode(), digest_size=16)
    keys = []
    for row in array:
        digest = start.copy()
        digest.update(row.data)
        keys.append(digest.digest())
    return keys


def text_keys(texts: Sequence[str]) -> list[bytes]:
    """A hash of every text."""
    return [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]


def look_up(identity: str, keys: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that are held, by key; none where there is no cache, or it cannot be read."""
    path = cache_path()
    if path is None or not path.is_file():
        return {}
    found: dict[bytes, NDArray[np.float32]] = {}
    with _told_if_unusable(path), _opened(path) as base:
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"{SELECT} AND row IN ({marks})"
            for key, data in base.execute(query, (identity, *some)):
                vector = unpacked(data)
                if vector is not None:
                    found[key] = vector
    return found


def keep(identity: str, name: str, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
    """Add vectors, all or none of them; the oldest ones go where there would be too many."""
    path = cache_path()
    if path is None or not len(keys):
        return
    with _told_if_unusable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(path) as base:
            base.execute("INSERT OR IGNORE INTO encoders (identity, name) VALUES (?, ?)", (identity, name))
            ((number,),) = base.execute("SELECT id FROM encoders WHERE identity = ?", (identity,))
            rows = ((number, key, packed(v)) for key, v in zip(keys, vectors, strict=True))
            base.executemany("INSERT OR REPLACE INTO vectors (encoder, row, vector) VALUES (?, ?, ?)", rows)
            _shrink(base)


def held() -> list[Held]:
    """What the cache holds, by encoder."""
    path = cache_path()
    if path is None or not path.is_file():
        return []
    query = (
        "SELECT name, identity, COUNT(*) FROM vectors JOIN encoders ON encoder = id GROUP BY encoder ORDER BY name, id"
    )
    try:
        with _opened(path) as base:
            return [Held(*row) for row in base.execute(query)]
    except UNREADABLE as error:
        raise RunError(
            f"pucl cache: {path} cannot be read ({one_line(error)}); remove it with 'pucl cache --clear'"
        ) from None


def clear() -> int:
    """Remove the cache; returns how many bytes it had."""
    path = cache_path()
    if path is None or not path.is_file():
        return 0
    size = path.stat().st_size
    try:
        path.unlink()
        path.with_name(f"{FILE}-journal").unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"pucl cache: {path} cannot be removed: {error.strerror or error}") from None
    return size


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The cache inside one transaction, which is written whole or not at all."""
    base = sqlite3.connect(path, timeout=WAIT)
    try:
        base.execute("PRAGMA auto_vacuum = FULL")  # counts for a new file only
        base.executescript(SCHEMA)
        with base:
            yield base
    finally:
        base.close()


@contextmanager
def _told_if_unusable(path: Path) -> Iterator[None]:
    """Go on without the cache, with a warning, where it cannot be used."""
    try:
        yield
    except UNREADABLE as error:
        text = f"The cache of embeddings {path} cannot be used ({one_line(error)}); they are computed."
        text += " 'pucl cache --clear' helps."
        warnings.warn(text, RunWarning, stacklevel=users_line())


def _shrink(base: sqlite3.Connection) -> None:
    ((used,),) = base.execute("SELECT COALESCE(SUM(LENGTH(vector) + LENGTH(row)), 0) FROM vectors")
    if used <= LARGEST:
        return
    ((count,),) = base.execute("SELECT COUNT(*) FROM vectors")
    too_many = count - int(count * KEPT * LARGEST / used)
    base.execute("DELETE FROM vectors WHERE n IN (SELECT n FROM vectors ORDER BY n LIMIT ?)", (too_many,))
    base.execute("DELETE FROM encoders WHERE id NOT IN (SELECT encoder FROM vectors)")


def packed(vector: NDArray[np.float32]) -> bytes:
    """The vector as it is stored, with its checksum."""
    data = vector.astype("<f4").tobytes()
    return data + zlib.crc32(data).to_bytes(4, "little")


def unpacked(data: object) -> NDArray[np.float32] | None:
    """The vector; None if a byte of it has changed."""
    if not isinstance(data, bytes):
        return None
    body, check = data[:-4], data[-4:]
    if zlib.crc32(body).to_bytes(4, "little") != check:
        return None
    return np.frombuffer(body, dtype="<f4").astype(np.float32)
