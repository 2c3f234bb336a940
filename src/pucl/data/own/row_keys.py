"""Keys of rows, which look random and depend on the seed and on what a row is called, not on where it is read."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, need
from pucl.errors import Described, bad_argument
from pucl.seeds import seed_of

Keys = NDArray[np.uint64]
STEP = 0x9E3779B97F4A7C15  # of the counter in splitmix64
BYTE_VALUES = 256


def keys_of_rows(file: str, start: int, n: int, seed: int) -> Keys:
    """The keys of n rows of a file, of which the first has the number `start`: the stream of splitmix64.

        key_i = m(h + STEP · i),   h = hash of (seed, file)

    where m is `mixed`.
    """
    numbers = np.arange(start, start + n, dtype=np.uint64)
    return mixed(np.uint64(seed_of(seed, f"rows of {file}", 0)) + np.uint64(STEP) * numbers)


def keys_of_ids(ids: Any, name: str, seed: int) -> Keys:
    """The keys of an Arrow array of ids without gaps; those of 17 and "17" are equal.

        key = m(Σ_j m(h + 256 j + b_j))

    where b_j is byte j of the id as text, h a hash of the seed and m `mixed`: tabulation hashing.
    """
    pa = need("pyarrow", "ids")
    try:
        plain = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
        text = plain.cast(pa.large_string())
    except pa.ArrowException:
        raise bad_argument(OWNER, f"id column {name!r}", "numbers or text", Described(f"type {ids.type}")) from None
    _, offsets, content = text.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(content or b"", dtype=np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    ends = ends - ends[0]
    place = np.arange(len(data)) - np.repeat(ends[:-1], np.diff(ends))
    base = np.uint64(seed_of(seed, "ids", 0))
    sums = np.zeros(len(data) + 1, dtype=np.uint64)  # modulo 2⁶⁴, so that differences are exact
    np.cumsum(mixed(base + np.uint64(BYTE_VALUES) * place.astype(np.uint64) + data), out=sums[1:])
    return mixed(base + sums[ends[1:]] - sums[ends[:-1]])


def mixed(x: Keys) -> Keys:
    """Numbers of 64 bits whose every bit depends on all bits of x: the finaliser of splitmix64 (Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
