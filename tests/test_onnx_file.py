"""What an ONNX file holds: numbers in other files are found wherever they are, and nothing of such a file is read."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from frozen_examples import write_onnx
from fuzz.mutators import mutated
from pucl.encoders.frozen.from_onnx import load
from pucl.encoders.frozen.onnx_file import INSIDE, TENSOR, takes_other_files
from pucl.errors import InputError

onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")
SECRET = np.array([3, 1, 4, 1], np.float32)


def elsewhere(place: str, name: str = "w") -> Any:
    """Four numbers in another file."""
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    return tensor


def sparse(place: str) -> Any:
    indices = onnx.numpy_helper.from_array(np.arange(4))
    return onnx.SparseTensorProto(values=elsewhere(place), indices=indices, dims=[4])


def graph(weights: Any = (), nodes: Any = (), thin: Any = ()) -> Any:
    helper = onnx.helper
    rows, sums = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xz")
    made = helper.make_graph([*nodes, helper.make_node("Add", ["x", "w"], ["z"])], "g", [rows], [sums], list(weights))
    made.sparse_initializer.extend(thin)
    return made


def constant(**value: Any) -> Any:
    node = onnx.helper.make_node("Constant", [], ["w"])
    ((name, content),) = value.items()
    kind = {"t": "TENSOR", "tensors": "TENSORS", "sparse_tensor": "SPARSE_TENSOR", "g": "GRAPH"}[name]
    node.attribute.append(onnx.AttributeProto(name="value", type=kind, **value))
    assert content is not None
    return node


def model(main: Any, **more: Any) -> bytes:
    content: bytes = onnx.helper.make_model(
        main, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8, **more
    ).SerializeToString()
    return content


def in_function(place: str) -> bytes:
    opset = [onnx.helper.make_opsetid("", 17)]
    function = onnx.helper.make_function("own", "F", [], ["w"], [constant(t=elsewhere(place))], opset)
    return model(graph(), functions=[function])


def in_training(place: str) -> bytes:
    made = onnx.ModelProto.FromString(model(graph()))
    made.training_info.add(algorithm=graph([elsewhere(place)]))
    content: bytes = made.SerializeToString()
    return content


PLACES: dict[str, Callable[[str], bytes]] = {
    "weights": lambda place: model(graph([elsewhere(place)])),
    "sparse weights": lambda place: model(graph(thin=[sparse(place)])),
    "a constant": lambda place: model(graph(nodes=[constant(t=elsewhere(place))])),
    "a sparse constant": lambda place: model(graph(nodes=[constant(sparse_tensor=sparse(place))])),
    "a list": lambda place: model(graph(nodes=[constant(tensors=[elsewhere(place)])])),
    "a graph in a graph": lambda place: model(graph(nodes=[constant(g=graph([elsewhere(place)]))])),
    "a function": in_function,
    "training": in_training,
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("absolute", [False, True])
def test_a_graph_cannot_read_other_files(
    kind: str, absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    SECRET.tofile("secret")
    content = PLACES[kind](os.fspath(tmp_path / "secret") if absolute else "secret")
    Path("net.onnx").write_bytes(content)
    with pytest.raises(
        InputError, match=r"^encoder .onnx:net.onnx.: the graph must be one that needs no other file; got one with"
    ):
        load("net.onnx", (4,), owner="pucl.fit", download=False)


def test_numbers_in_the_file_itself_are_taken(tmp_path: Path) -> None:
    inside = onnx.numpy_helper.from_array(SECRET, "w")
    inside.data_location = onnx.TensorProto.DEFAULT
    assert not takes_other_files(model(graph([inside])))
    assert not takes_other_files(write_onnx(tmp_path / "means.onnx").read_bytes())
    assert not takes_other_files(b"")


def test_every_way_to_a_tensor_is_known() -> None:
    """By the definitions of the package onnx."""
    names = {"ModelProto": "model", "TrainingInfoProto": "training", "FunctionProto": "function"}
    names |= {"GraphProto": "graph", "NodeProto": "node", "AttributeProto": "attribute", "SparseTensorProto": "sparse"}
    names |= {"TensorProto": TENSOR}
    for message, name in names.items():
        fields = getattr(onnx, message).DESCRIPTOR.fields
        ways = {
            field.number: names[field.message_type.name]
            for field in fields
            if field.message_type is not None and field.message_type.name in names
        }
        assert name == TENSOR or ways == INSIDE[name], message
        others = {field.message_type for field in fields if field.message_type is not None}
        others = {kind for kind in others if kind.name not in names}
        assert not [kind.name for kind in others if leads_to(kind, set(names))], message


def leads_to(kind: Any, names: set[str], seen: tuple[str, ...] = ()) -> bool:
    inner = [field.message_type for field in kind.fields if field.message_type is not None]
    return any(
        each.name in names or (each.name not in seen and leads_to(each, names, (*seen, each.name))) for each in inner
    )


@pytest.mark.parametrize(
    "content", [b"\x08\xff", b"\x3a\x05ab", b"\x3b", b"\xff" * 11, b"\x3a\x02\x0a\x7f"], ids=bytes.hex
)
def test_what_is_no_protobuf_is_refused(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(ValueError, match="a number does not end|longer than the file|not known"):
        takes_other_files(content)
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(InputError, match="the file cannot be read as ONNX") as caught:
        load(str(tmp_path / "net.onnx"), (4,), owner="pucl.fit", download=False)
    assert "\n" not in str(caught.value)


def test_a_number_of_a_field_is_read_as_protobuf_reads_it() -> None:
    """The tag of the graph, 7 << 3 | 2, with bits above the 32nd, which protobuf drops."""
    content = model(graph([elsewhere("secret")]))
    fields = onnx.ModelProto.FromString(content)
    body = fields.graph.SerializeToString()
    tag = bytes([0x3A | 0x80, 0x80, 0x80, 0x80, 0x10])
    size = bytes([len(body) & 0x7F | 0x80, len(body) >> 7])
    assert takes_other_files(tag + size + body)


def test_a_place_in_33_bits_is_what_protobuf_takes_it_for() -> None:
    """Numbers that stand for one of a list lose their upper bits, also where a stranger has set them."""
    inside = onnx.numpy_helper.from_array(SECRET, "w")
    inside.data_location = onnx.TensorProto.EXTERNAL
    content = model(graph([inside]))
    short, long = bytes([14 << 3, 1]), bytes([14 << 3, 0x81, 0x80, 0x80, 0x80, 0x10])
    tensor = inside.SerializeToString()
    at = content.index(tensor)
    body = tensor.replace(short, b"") + long
    grown = len(body) - len(tensor)
    graph_at = content.rindex(bytes([7 << 3 | 2]), 0, at)
    wider = bytearray(content[:at] + body + content[at + len(tensor) :])
    for place in (graph_at + 1, at - 1):  # the sizes of the graph and of the tensor
        assert wider[place] + grown < 128
        wider[place] += grown
    weight = onnx.ModelProto.FromString(bytes(wider)).graph.initializer[0]
    assert weight.data_location == onnx.TensorProto.EXTERNAL and takes_other_files(bytes(wider))


@pytest.mark.slow
def test_damaged_graphs_are_seen_as_the_parser_of_onnx_sees_them() -> None:
    """Whatever onnx can read and finds to be outside, the reader here finds, too."""
    seeds = [place("secret") for place in PLACES.values()]
    outside = 0
    for number in range(4_000):
        rng = Random(number)  # noqa: S311
        data = mutated(rng, rng.choice(seeds), rng.choice(seeds))
        try:
            read = onnx.ModelProto.FromString(data)
        except Exception:  # noqa: S112
            continue
        if any(each.data_location == onnx.TensorProto.EXTERNAL for each in tensors_in(read)):
            outside += 1
            try:
                assert takes_other_files(data), number
            except ValueError:
                continue  # refused
    assert outside > 300


def tensors_in(message: Any) -> Iterator[Any]:
    """Every tensor inside a message of protobuf."""
    if isinstance(message, onnx.TensorProto):
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if hasattr(value, "extend") else [value]:
                yield from tensors_in(each)
