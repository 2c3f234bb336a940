"""What pucl has written (models, checkpoints, the cache), and weights and graphs of others."""

import hashlib
import io
import json
import pickle
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import torch

from checkpoint_examples import RUN, keep
from frozen_examples import write_onnx
from fuzz.arrays import Runs
from fuzz.reader import MB, Files, Reader, files_in, zipped
from fuzz.structured import by_ending, odd_json
from model_examples import blend_model, onnx_model, random_model, table_model, text_model
from pucl.encoders.frozen import published
from pucl.encoders.frozen.from_onnx import load as load_onnx
from pucl.encoders.saved import load_encoder, save_encoder
from pucl.fitting.plan import FitOptions
from pucl.fitting.resuming import Resumable, Unfinished, open_unfinished
from pucl.models.folder import load_model, read_card, save_model
from pucl.models.schema import Schema
from pucl.models.scoring import scores
from pucl.report import lay_out, write_report
from pucl.training.checkpoints import load

VECTOR = Schema("vector", (4,))


def model_seeds(place: Path) -> Sequence[Files]:
    """Models of a table and of texts with their evidence, of vectors with every head, of images, and an average."""
    table = table_model(place, encoder="raw")
    models = [replace(table, evidence=lay_out(table.evidence)) if table.evidence else table]
    models += [random_model(VECTOR, "raw", head) for head in ("linear", "kernel", "mlp", "knn", "trees")]
    models += [random_model(VECTOR, "mlp"), random_model(Schema("image", (1, 8, 8)), "small_cnn"), blend_model()]
    models += [text_model(), onnx_model(place)]
    return [files_in(save_model(place / str(i), model)) for i, model in enumerate(models)]


def _rows(kind: str, columns: Sequence[str], channels: int) -> Any:
    if kind == "table":
        known = {"age": np.array([40.0, np.nan]), "height": np.array([1.7, 1e30]), "flag": np.array([0.0, 1.0])}
        values = {name: known.get(name, np.array(["Bonn", None], object)) for name in columns}
        import pandas as pd

        return pd.DataFrame(values)
    return np.zeros((2, 4), "f4") if kind == "vector" else np.zeros((2, channels, 8, 8), np.uint8)


def _read_model(folder: Path) -> object:
    """The model, its card, the scores of two rows and its report."""
    read_card(folder)
    model = load_model(folder)
    rows = _rows(model.schema.kind, model.schema.given, 3 if model.schema.shape[0] == 3 else 1)
    found = [part.probability for part in scores(model, rows)]
    if model.evidence is not None:
        write_report(folder / "report.html", model)
    return found


def signed_model(files: Files) -> Files:
    """With the checksums that belong to what the files are now."""
    files = signed_encoder(files)
    try:
        content = json.loads(files["model.json"])
        content["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in content["files"] if name in files}
        content.pop("sha256", None)
        canonical = json.dumps(content, separators=(",", ":")).encode()
        files["model.json"] = json.dumps({**content, "sha256": hashlib.sha256(canonical).hexdigest()}).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return files


def signed_encoder(files: Files) -> Files:
    files = dict(files)
    for stem in ("encoder", "front"):
        try:
            content = json.loads(files[f"{stem}.json"])
            content["sha256"] = hashlib.sha256(files[f"{stem}.safetensors"]).hexdigest()
            files[f"{stem}.json"] = json.dumps(content).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
    return files


def _odd_model(rng: Random, seeds: Sequence[Files]) -> Files:
    files = by_ending(rng, seeds)
    if rng.random() < 0.5:
        files["model.json"] = odd_json(rng, files["model.json"])
    return signed_model(files)


def _extra(rng: Random, seeds: Sequence[Files]) -> Files:
    """A pickle beside the files of a model, or in the place of one."""
    files, pickled = dict(rng.choice(seeds)), pickle.dumps(Runs())
    name = rng.choice(
        (
            "x.pkl",
            "model.joblib",
            "notes",
            "head.safetensors",
            "encoder.safetensors",
            "model.json",
            ".fit/x.pt",
            "x.npz",
        )
    )
    return signed_model({**files, name: pickled})


def encoder_seeds(place: Path) -> Sequence[Files]:
    found = []
    for name, shape in (
        ("mlp", (4,)),
        ("small_cnn", (1, 8, 8)),
        ("resnet18", (3, 8, 8)),
        ("raw", (4,)),
        ("lenet5", (1, 28, 28)),
    ):
        encoder = random_model(Schema("vector" if len(shape) == 1 else "image", shape), name).encoder
        options: dict[str, Any] = {}
        found.append(
            files_in(save_encoder(place / name, encoder, name=name, input_shape=shape, options=options, extra={}))
        )
    return [files for files in found if sum(map(len, files.values())) < 8 * MB]


def _read_encoder(folder: Path) -> object:
    return load_encoder(folder)


def _odd_encoder(rng: Random, seeds: Sequence[Files]) -> Files:
    return signed_encoder(by_ending(rng, seeds))


def checkpoint_seeds(place: Path) -> Sequence[Files]:
    for step in (1, 2):
        keep(place, step, tensors={"w": torch.arange(20.0), "n": torch.tensor(step)})
    return [files_in(place)]


def _read_checkpoint(folder: Path) -> object:
    return load(folder, run=RUN)


def signed_checkpoint(files: Files) -> Files:
    files = dict(files)
    for name in [name for name in files if name.endswith(".json")]:
        try:
            record, data = json.loads(files[name]), files[name.replace(".json", ".safetensors")]
            record.pop("seal", None)
            record |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            record["seal"] = hashlib.sha256(json.dumps(record).encode()).hexdigest()
            files[name] = json.dumps(record).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
    return files


def _odd_checkpoint(rng: Random, seeds: Sequence[Files]) -> Files:
    return signed_checkpoint(by_ending(rng, seeds))


def unfinished_seeds(place: Path) -> Sequence[Files]:
    unfinished(place).keep("compare", {"z": torch.arange(4.0)}, {"at": 1})
    return [files_in(place)]


def _read_unfinished(folder: Path) -> object:
    return unfinished(folder).load("compare")


def _odd_unfinished(rng: Random, seeds: Sequence[Files]) -> Files:
    return signed_checkpoint(by_ending(rng, seeds))


def _onnx_seeds(place: Path) -> Sequence[Files]:
    return [
        {"net.onnx": write_onnx(place / "a.onnx").read_bytes()},
        {"net.onnx": write_onnx(place / "b.onnx", side=8).read_bytes()},
    ]


def _read_onnx(folder: Path) -> object:
    network, _ = load_onnx(str(folder / "net.onnx"), (3, 8, 8), owner="pucl.fit", download=False)
    with torch.no_grad():
        return network(torch.zeros(2, 3, 8, 8))


def _onnx(rng: Random, _: Sequence[Files]) -> Files:
    """Graphs with outputs of other kinds, with huge constants, weights in other files, and operators nobody knows."""
    import onnx

    helper, proto = onnx.helper, onnx.TensorProto
    shape: Any = rng.choice(
        (
            ["n", 3, "h", "w"],
            [1, 3, 8, 8],
            ["n", 3],
            [],
            ["n", 3, 0, 0],
            [2**40, 3, 8, 8],
            ["n", 5, 8, 8],
            [-1, 3, 8, 8],
        )
    )
    kind = rng.choice((proto.FLOAT, proto.INT64, proto.STRING, proto.FLOAT16, proto.UINT8, proto.DOUBLE, proto.BOOL))
    outside = helper.make_tensor("w", proto.FLOAT, [1], [0.0])
    outside.ClearField("float_data")
    outside.data_location = proto.EXTERNAL
    outside.external_data.add(key="location", value=rng.choice(("../../../etc/passwd", "/etc/passwd", "w.bin")))
    big = helper.make_tensor("v", proto.INT64, [1], [rng.choice((2**40, 2**31, -1))])
    value = helper.make_tensor("value", proto.FLOAT, [1], [1.0])
    nodes = {
        "same": [helper.make_node("Identity", ["x"], ["z"])],
        "outside": [helper.make_node("Add", ["x", "w"], ["z"])],
        "big": [helper.make_node("ConstantOfShape", ["v"], ["z"], value=value)],
        "unknown": [helper.make_node("Run", ["x"], ["z"])],
        "sum": [helper.make_node("ReduceSum", ["x"], ["z"], keepdims=0)],
        "none": [],
        "custom": [helper.make_node("Py", ["x"], ["z"], domain="ai.onnx.contrib")],
        "sequence": [helper.make_node("SequenceConstruct", ["x", "x"], ["z"])],
        "shape": [helper.make_node("Shape", ["x"], ["z"])],
    }
    name = rng.choice(sorted(nodes))
    output = (
        helper.make_tensor_sequence_value_info("z", kind, None)
        if name == "sequence"
        else helper.make_empty_tensor_value_info("z")
    )
    weights = {"outside": [outside], "big": [big]}.get(name, [])
    inputs = [helper.make_tensor_value_info("x", kind, shape)] * rng.choice((1, 1, 1, 0, 2))
    graph = helper.make_graph(nodes[name], "g", inputs, [output], weights)
    return {
        "net.onnx": helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
        ).SerializeToString()
    }


def _weights_seeds(_: Path) -> Sequence[Files]:
    tensors = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.zeros(2)}
    seeds = []
    for old in (False, True):
        file = io.BytesIO()
        torch.save(tensors, file, _use_new_zipfile_serialization=not old)
        seeds.append({"weights.pth": file.getvalue()})
    return seeds


def _read_weights(folder: Path) -> object:
    """Weights of a package, by the checksum of the file: as if its publisher were hostile."""
    path = folder / "weights.pth"
    known = published.WeightFile("package", path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    network = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 2)})
    with (
        mock.patch.object(published, "FILES", {"mine": known}),
        mock.patch.object(published, "weights_path", return_value=path),
    ):
        return published.fill(network, "mine")


def _runs(rng: Random, _: Sequence[Files]) -> Files:
    file = io.BytesIO()
    torch.save({"a.weight": Runs()}, file, _use_new_zipfile_serialization=rng.random() < 0.5)
    plain = pickle.dumps(Runs(), protocol=rng.randrange(6))
    others = (file.getvalue(), plain, zipped({"archive/data.pkl": plain, "archive/version": b"3"}))
    return {"weights.pth": rng.choice(others)}


def _weights(rng: Random, _: Sequence[Files]) -> Files:
    file = io.BytesIO()
    contents: tuple[Any, ...] = (
        {},
        [],
        5,
        None,
        torch.zeros(3),
        {"a.weight": 1},
        {1: torch.zeros(2)},
        {"a.weight": torch.zeros(2, 3), "a.bias": torch.zeros(9)},
    )
    torch.save(rng.choice(contents), file)
    return {"weights.pth": file.getvalue()}


def unfinished(folder: Path) -> Unfinished:
    """A fit of a few rows that saves itself in a folder, or goes on there."""
    labelled = np.arange(20) < 5
    where = Resumable(folder, discard=f"delete {folder}")
    return open_unfinished(where, torch.zeros(20, 3), labelled, None, FitOptions(), torch.device("cpu"))


def _cache_seeds(place: Path) -> Sequence[Files]:
    from pucl import cache

    with_cache(place, partial(cache.keep, "me", "mine", [b"k" * 16, b"l" * 16], np.ones((2, 3), "f4")))
    return [files_in(place)]


def with_cache(folder: Path, call: Any) -> Any:
    """Call with the cache in a folder."""
    import os

    before = os.environ.get("PUCL_CACHE")
    os.environ["PUCL_CACHE"] = str(folder)
    try:
        return call()
    finally:
        os.environ.pop("PUCL_CACHE") if before is None else os.environ.update(PUCL_CACHE=before)


def _read_cache(folder: Path) -> object:
    from pucl import cache

    def use() -> object:
        found = cache.look_up("me", [b"k" * 16, b"l" * 16])
        cache.keep("me", "mine", [b"m" * 16], np.ones((1, 3), "f4"))
        return found, cache.held()

    return with_cache(folder, use)


def _odd_cache(rng: Random, _: Sequence[Files]) -> Files:
    """A data base whose columns hold other types, or whose tables are others."""
    base = sqlite3.connect(":memory:")
    tables = (
        "CREATE TABLE vectors (n INTEGER PRIMARY KEY, encoder INTEGER, row BLOB, vector BLOB)",
        "CREATE TABLE vectors (x)",
        "CREATE VIEW vectors AS SELECT 1",
    )
    base.execute("CREATE TABLE encoders (id INTEGER PRIMARY KEY, identity TEXT UNIQUE, name TEXT)")
    table = rng.choice((0, 0, 0, 1, 2))
    base.execute(tables[table])
    base.execute("INSERT INTO encoders VALUES (1, 'me', ?)", (rng.choice(("mine", None, b"\xff", 5, "\0")),))
    if table == 0:
        value = rng.choice((None, 5, 1.5, "text", b"", b"abc", b"\0" * 7, b"\0" * 4, "ÿ"))
        base.execute("INSERT INTO vectors VALUES (1, 1, ?, ?)", (rng.choice((b"k" * 16, "kkk", None)), value))
    base.commit()
    return {"embeddings.sqlite": base.serialize()}


READERS = (
    Reader(
        "model folder",
        model_seeds,
        _read_model,
        {"values": _odd_model, "pickles": _extra},
        mended=signed_model,
        share=20,
        memory=600 * MB,
        names=("X must", "onnx:net.onnx"),
    ),
    Reader(
        "encoder folder",
        encoder_seeds,
        _read_encoder,
        {"values": _odd_encoder},
        mended=signed_encoder,
        share=30,
        memory=600 * MB,
    ),
    Reader(
        "checkpoint",
        checkpoint_seeds,
        _read_checkpoint,
        {"values": _odd_checkpoint},
        mended=signed_checkpoint,
        share=60,
        memory=64 * MB,
    ),
    Reader(
        "interrupted fit",
        unfinished_seeds,
        _read_unfinished,
        {"values": _odd_unfinished},
        mended=signed_checkpoint,
        share=30,
        memory=64 * MB,
    ),
    Reader("ONNX", _onnx_seeds, _read_onnx, {"graphs": _onnx}, share=20, names=("the graph cannot take",)),
    Reader("weights .pth", _weights_seeds, _read_weights, {"runs": _runs, "others": _weights}, share=40),
    Reader("cache of embeddings", _cache_seeds, _read_cache, {"columns": _odd_cache}, share=12, memory=64 * MB),
)
