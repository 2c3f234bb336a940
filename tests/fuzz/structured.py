"""JSON, TOML, CSV and safetensors with values that nobody expects in places where others stand."""

import json
import math
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

from fuzz.mutators import mutated
from fuzz.reader import Files

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3.5,
    -0.0,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    2**31,
    2**63,
    10**40,
    "",
    "x",
    "NaN",
    "1",
    "../x",
    "\x00",
    "\n",
    "\u202e",
    "é" * 50,
    "x" * 3_000,
    [],
    [None],
    [[]],
    [0],
    [1, 2, 3],
    ["a", "a"],
    {},
    {"x": 1},
    {"": None},
    [1e400],
    "linear",
    "number",
    "category",
    "text",
    "image",
    "cpu",
    "hf-hub:a/b",
    [[[[1]]]],
    {"a": {"a": {"a": 1}}},
    "\ud800",
)
# As floats: NaN, infinity, a huge and a tiny number, −1; as whole numbers: −1 and the largest.
NUMBERS = (*(struct.pack("<f", x) for x in (math.nan, math.inf, -1e38, 1e-42, -1.0)), b"\xff" * 4, b"\xff\xff\xff\x7f")
TYPES = ("F32", "F64", "I64", "I32", "U8", "BOOL", "BF16", "F16", "F8_E4M3", "X", "")


def odd_json(rng: Random, data: bytes, *, changes: int = 1) -> bytes:
    """The content with other values in some places, keys that are gone, twice there or new, or a depth of thousands."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return mutated(rng, data)
    for _ in range(changes):
        content = odd(rng, content)
    text = json.dumps(content)
    if rng.random() < 0.03:
        depth = rng.choice((500, 5_000, 200_000))
        text = text.replace(": ", f': {"[" * depth}{"]" * depth}, "more": ', 1)
    if rng.random() < 0.03:
        text = text.replace("{", '{"format": 1, "format": 2, ', 1)
    if rng.random() < 0.02:
        text = text.replace(": ", ": " + "9" * 5_000 + ', "more": ', 1)
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig")), "replace")


def odd(rng: Random, content: Any) -> Any:
    """The content with one change at a random place, and what is near the top likelier."""
    place = content
    while True:
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        if not keys:
            return content
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
            place = place[key]
            continue
        change = rng.randrange(8)
        if change == 0:
            del place[key]
        elif change == 1 and isinstance(place, dict):
            place[rng.choice(("", "x", "kind", "options", "format", "é"))] = place.pop(key)
        elif change == 2 and isinstance(place, dict):
            place["more"] = rng.choice(ODD)
        elif change == 3 and isinstance(place, list):
            place.extend(place[:9] * rng.choice((1, 100)))
        elif change == 4 and isinstance(place[key], int | float) and not isinstance(place[key], bool):
            place[key] = rng.choice(
                (-place[key], place[key] + 1, place[key] * 10**9, float(place[key]), str(place[key]))
            )
        else:
            place[key] = rng.choice(ODD)
        return content


def odd_tensors(rng: Random, data: bytes) -> bytes:
    """A safetensors file whose header says something else: types, shapes, places, names; or with other numbers."""
    if rng.random() < 0.25:
        return special_numbers(rng, data)
    try:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
    except (ValueError, struct.error):
        return mutated(rng, data)
    body = data[8 + size :]
    name = rng.choice(sorted(header))
    entry = header[name]
    kind = rng.randrange(8)
    if kind == 0:
        entry["dtype"] = rng.choice(TYPES)
    elif kind == 1:
        entry["shape"] = rng.choice(
            ([], [0], [1], [2**40, 2**40], [-1], [1, *entry.get("shape", ())], entry.get("shape", [1])[::-1])
        )
    elif kind == 2:
        ends = entry.get("data_offsets", [0, 0])
        entry["data_offsets"] = rng.choice(
            ([0, 2**63], ends[::-1], [0, ends[1]], [ends[0] + 4, ends[1]], [ends[0], ends[1] + 4], [-1, 4], [])
        )
    elif kind == 3:
        del header[name]
    elif kind == 4:
        header[rng.choice(("x", "", "__metadata__", "é" * 99, "standardise.mean"))] = header.pop(name)
    elif kind == 5:
        return resized(rng, header, body, name)
    elif kind == 6:
        header = odd(rng, header)
    else:
        return struct.pack("<Q", rng.choice((0, 1, size - 1, size + 1, 2**40, 2**63, 2**64 - 1))) + data[8:]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def resized(rng: Random, header: dict[str, Any], body: bytes, name: str) -> bytes:
    """A tensor of another shape or type, in a file that is whole."""
    parts, at, fresh = [], 0, {}
    sizes = {"F32": 4, "F64": 8, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1, "BF16": 2, "F16": 2}
    for each, stored in header.items():
        if each == "__metadata__":
            continue
        entry = dict(stored)
        data = body[slice(*entry["data_offsets"])]
        if each == name:
            entry["dtype"] = rng.choice([entry["dtype"], *sizes])
            shape = entry["shape"]
            entry["shape"] = rng.choice(
                (shape, [0], [], [1], [3], [2, 2], [*shape, 1], [n + 1 for n in shape], [n // 2 for n in shape])
            )
            n = math.prod(entry["shape"]) * sizes[entry["dtype"]]
            data = (data * (n // max(1, len(data)) + 1) + bytes(n))[:n]
        fresh[each] = {**entry, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(fresh).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def special_numbers(rng: Random, data: bytes) -> bytes:
    """NaN, infinity, huge and negative numbers in place of some."""
    start = 8 + struct.unpack("<Q", data[:8].ljust(8, b"\0"))[0]
    if start >= len(data) - 8:
        return mutated(rng, data)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 30))):
        at = start + 4 * rng.randrange(max(1, (len(data) - start) // 4))
        value = rng.choice(NUMBERS)
        changed[at : at + 4] = value
    return bytes(changed[: len(data)])


def by_ending(rng: Random, seeds: Sequence[Files]) -> Files:
    """One file of a folder changed as its ending says."""
    files = dict(rng.choice(seeds))
    name = rng.choice(sorted(name for name in files if name.endswith((".json", ".safetensors"))))
    change = odd_json if name.endswith(".json") else odd_tensors
    files[name] = change(rng, files[name])
    return files


TOML_VALUES = (
    "1",
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    '"x"',
    '""',
    "true",
    "[]",
    "[1]",
    '["a"]',
    "{}",
    "{a=1}",
    "1979-05-27",
    "[[1]]",
    "0x1F",
    "99999999999999999999999",
    '"\\u0000"',
    '"auto"',
    "0.5",
    "'''\na\n'''",
    "[" * 200 + "]" * 200,
    "{ a = { b = 1 } }",
    "1_000",
    "[1, 'a']",
)


def odd_toml(rng: Random, data: bytes) -> bytes:
    """Another value, a line more, less or twice, another key, an unclosed bracket, another encoding."""
    lines = data.decode("utf-8", "replace").split("\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(lines))
        key, sign, _value = lines[at].partition("=")
        kind = rng.randrange(8)
        if kind < 4 and sign:
            lines[at] = f"{key}= {rng.choice(TOML_VALUES)}"
        elif kind == 4:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 5 and len(lines) > 1:
            del lines[at]
        elif kind == 6:
            lines.insert(
                at, f"{rng.choice(('x', 'é', 'a.b', 'tasks', 'seeds', chr(34) * 2))} = {rng.choice(TOML_VALUES)}"
            )
        else:
            lines[at] = rng.choice(
                ("[[block]]", "[recipe]", "[recipe.x]", "[", "]", "x", "= 1", "[a.b.c]", '"', "\x00", lines[at][:-1])
            )
    text = "\n".join(lines)
    if rng.random() < 0.02:
        text = "x = " + "[" * rng.choice((900, 50_000)) + "\n" + text
    if rng.random() < 0.02:
        text = ".".join("a" * rng.choice((900, 20_000))) + " = 1\n" + text
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig", "latin-1")), "replace")
