"""The identity of a configuration: one canonical text, and a key made from it."""

import hashlib
import json
from collections.abc import Mapping

from pucl.bench.grid.decode import Option, Options


def canonical(value: Option) -> str:
    """JSON that is the same text for the same configuration: keys sorted, 1.0 as 1, tuples as lists."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key_of(table: Options) -> str:
    """The identity of a configuration: the first 16 hexadecimal digits of the SHA-256 of its canonical form."""
    return hashlib.sha256(canonical(table).encode()).hexdigest()[:16]


def _plain(value: Option) -> Option:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
