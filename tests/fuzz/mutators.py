"""What is done to the bytes of a file: bits, cuts, numbers, repeated and exchanged parts."""

import struct
from random import Random

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
WORDS = (
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b'"',
    b"'",
    b",",
    b";",
    b"\t",
    b"|",
    b"\xff",
    b"\xfe\xff",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\x80",
    b"nan",
    b"-inf",
    b"1e999",
    b"-1",
    b"0x10",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"[[",
    b"9" * 400,
    b"../../x",
    b"%s%n",
    b"\x1b[31m",
    "é🎲\u202e".encode(),
    b"__class__",
    b"=cmd|' /C calc'!A0",
)


def mutated(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """The bytes after one to four changes; `other` is what parts are taken from."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(CHANGES)(rng, data, other)
    return data


def _flip(rng: Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _i in range(min(len(data), rng.choice((1, 1, 2, 8, 64)))):
        changed[_place(rng, data)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _byte(rng: Random, data: bytes, _: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + bytes([rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))]) + data[at + 1 :]


def _cut(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.choice((0, 1, rng.randrange(len(data) + 1), len(data) - 1, len(data) // 2))]


def _without(rng: Random, data: bytes, _: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 2, 4, 8, 64, 1024)) :]


def _repeat(rng: Random, data: bytes, _: bytes) -> bytes:
    at, n = _place(rng, data), rng.choice((1, 2, 4, 16, 256))
    return data[: at + n] + data[at : at + n] * rng.choice((1, 2, 16)) + data[at + n :]


def _number(rng: Random, data: bytes, _: bytes) -> bytes:
    """A number in place of what is there, of one to eight bytes, in either order."""
    width = rng.choice("bhiq")
    bits = 8 * struct.calcsize(width)
    value = (rng.choice(NUMBERS) + rng.choice((0, 0, -1, 1))) & (2**bits - 1)
    number = struct.pack(rng.choice("<>") + width.upper(), value)
    at = _place(rng, data)
    return data[:at] + number + data[at + len(number) :]


def _word(rng: Random, data: bytes, _: bytes) -> bytes:
    at, word = _place(rng, data), rng.choice(WORDS)
    return data[:at] + word + data[at + rng.choice((0, 0, len(word))) :]


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(rng, data)] + (other or data)[_place(rng, other or data) :]


def _swap(rng: Random, data: bytes, _: bytes) -> bytes:
    """Two parts change their places."""
    a, b = sorted((_place(rng, data), _place(rng, data)))
    n = min(b - a, rng.choice((1, 4, 32)))
    return data[:a] + data[b : b + n] + data[a + n : b] + data[a : a + n] + data[b + n :]


def _digits(rng: Random, data: bytes, _: bytes) -> bytes:
    """Another number in place of one that is written in digits."""
    places = [i for i, byte in enumerate(data[:4096]) if 48 <= byte <= 57]
    if not places:
        return data
    at = rng.choice(places)
    text = rng.choice((str(rng.choice(NUMBERS)), "-1", "1e400", "0.5", "NaN", "9" * 30, "true", '"x"', "")).encode()
    return data[:at] + text + data[at + 1 :]


def _place(rng: Random, data: bytes) -> int:
    """Where to change something: headers and ends are at the ends."""
    size = len(data)
    if size == 0:
        return 0
    return min(
        size - 1,
        rng.choice((rng.randrange(size), rng.randrange(min(size, 64)), size - 1 - rng.randrange(min(size, 64)))),
    )


CHANGES = (_flip, _flip, _byte, _cut, _without, _repeat, _number, _number, _word, _splice, _swap, _digits)
