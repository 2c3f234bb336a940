"""What an ONNX file holds, read from its bytes: whether its graph takes numbers from other files.

onnxruntime reads such files: 1.21 from any place, 1.31 from the working directory. A graph of a stranger could so put
the content of a file of yours into the embeddings that it gives.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

TENSOR = "tensor"
# The parts of onnx.proto that lead to tensors, by the number of the field.
INSIDE: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "model": {7: "graph", 20: "training", 25: "function"},
        "training": {1: "graph", 2: "graph"},
        "function": {7: "node", 11: "attribute"},
        "graph": {1: "node", 5: TENSOR, 15: "sparse"},
        "node": {5: "attribute"},
        "attribute": {5: TENSOR, 6: "graph", 10: TENSOR, 11: "graph", 22: "sparse", 23: "sparse"},
        "sparse": {1: TENSOR, 2: TENSOR},
    }
)
EXTERNAL_DATA, DATA_LOCATION = 13, 14  # fields of a tensor: where its numbers are, and whether that is a file
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def takes_other_files(data: bytes) -> bool:
    """Whether a tensor, in whatever part of the graph, is in another file; a ValueError for what is no protobuf."""
    parts = [("model", memoryview(data))]
    while parts:
        kind, content = parts.pop()
        for number, value in _fields(content):
            if kind == TENSOR:
                if (number == EXTERNAL_DATA and not isinstance(value, int)) or (
                    number == DATA_LOCATION and _as_enum(value) == 1
                ):
                    return True
            elif number in INSIDE[kind] and not isinstance(value, int):
                parts.append((INSIDE[kind][number], value))
    return False


def _as_enum(value: memoryview | int) -> int:
    """As protobuf takes a whole number for one of a list: it keeps 32 bits."""
    return value & 0xFFFFFFFF if isinstance(value, int) else 0


def _fields(content: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """The number of every field of a message, with its bytes or its whole number; others are passed over."""
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        number, kind = (tag & 0xFFFFFFFF) >> 3, tag & 7  # as protobuf, which keeps 32 bits
        if kind == VARINT:
            value, at = _varint(content, at)
            yield number, value
        elif kind == BYTES:
            size, at = _varint(content, at)
            if size > len(content) - at:
                raise ValueError("a field is longer than the file")
            yield number, content[at : at + size]
            at += size
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"fields of kind {kind} are not known")


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    """A whole number in base 128, and where it ends."""
    value = 0
    for place in range(10):
        if at >= len(content):
            break
        byte = content[at]
        value, at = value | (byte & 0x7F) << 7 * place, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number does not end")
