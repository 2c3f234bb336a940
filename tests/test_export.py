"""ONNX: what onnxruntime says is what the model says, for every kind of rows, encoder and head."""

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.torch_version import TorchVersion

from model_examples import N, blend_model, mixed_table, needs_export, random_model, table_model, vectors
from pucl.data.own import Table
from pucl.errors import InputError, RunError
from pucl.models import export
from pucl.models.export import export_onnx
from pucl.models.folder import load_model, save_model
from pucl.models.model import Model
from pucl.models.schema import Schema, learn_schema
from pucl.registry import entries

SMALLEST = 32  # pixels that every encoder of images takes
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _needed() -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra 'export' is not installed")


def exported(model: Model, tmp_path: Path) -> tuple[Any, dict[str, str]]:
    """The session of an exported model, and the metadata."""
    needs_export()
    path = export_onnx(model, tmp_path / "model.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    return session, session.get_modelmeta().custom_metadata_map


def check(session: Any, rows: Any, expected: torch.Tensor) -> None:
    """One, two and many rows: the batch is dynamic. The scores are no trivial ones."""
    given = rows if isinstance(rows, dict) else {"rows": rows}
    for n in (1, 2, len(expected)):
        (found,) = session.run(["probability"], {name: part[:n] for name, part in given.items()})
        np.testing.assert_allclose(found, torch.sigmoid(expected[:n]).numpy(), rtol=0, atol=1e-4)
    assert float(torch.sigmoid(expected).std()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("head", ["linear", "kernel", "mlp", "knn"])
def test_tables_with_missing_values(tmp_path: Path, head: str) -> None:
    """Columns as people have them: of very different sizes, some with values missing, one of booleans."""
    rows = RNG.normal(size=(N, 4)) * (1, 1e-4, 1e3, 1) + (0, 5, 1.7e9, 0)
    rows[:, 3] = rows[:, 3] > 0
    rows[::5, 1] = np.nan
    types = {"a": "number", "b": "number", "when": "number", "flag": "bool"}
    table = Table(types, {name: rows[:, j] for j, name in enumerate(types)}, N)
    schema, compact = learn_schema_of(table)
    model = random_model(schema, "mlp", head)
    session, about = exported(model, tmp_path)
    assert json.loads(about["columns"]) == list(types) and about["kind"] == "table"
    assert session.get_inputs()[0].shape[1:] == [4]
    check(session, rows, model.logits(compact))


def learn_schema_of(table: Table) -> tuple[Schema, torch.Tensor]:
    from pucl.data.own import TableTransform

    transform = TableTransform.fit(table)
    rows = torch.from_numpy(transform.compact(table))
    return Schema("table", (len(transform.features),), dict(table.types), transform=transform), rows


@pytest.mark.slow
def test_tables_with_categories_take_numbers_and_text(tmp_path: Path) -> None:
    model = table_model(tmp_path)
    session, about = exported(model, tmp_path)
    assert [json.loads(about[name]) for name in ("numbers", "categories")] == [["age", "height"], ["city"]]
    cities = np.array([["Kiel"], ["Ulm"], ["Bonn"], ["nowhere"], [""]] * 3, dtype=object)
    numbers = np.stack([RNG.normal(45, 5, size=15), RNG.normal(1.7, 0.1, size=15)], axis=1)
    numbers[::4, 1] = np.nan
    known = np.array([city or None for city in cities[:, 0]], dtype=object)
    values = {"age": numbers[:, 0], "city": known, "height": numbers[:, 1]}
    table = Table({name: model.schema.columns[name] for name in values}, values, 15)
    with pytest.warns(UserWarning, match="column 'city'"):
        expected = model.logits(model.schema.encode(table))
    check(session, {"numbers": numbers, "categories": cities}, expected)


@pytest.mark.slow
def test_a_table_of_categories_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = {name: rng.choice(np.array(["a", "b", "c"], dtype=object), size=N) for name in ("first", "second")}
    schema, compact = learn_schema_of(Table({"first": "category", "second": "category"}, texts, N))
    model = random_model(schema, "raw")
    session, about = exported(model, tmp_path)
    assert json.loads(about["numbers"]) == [] and [given.name for given in session.get_inputs()] == ["categories"]
    check(session, {"categories": np.stack(list(texts.values()), axis=1)}, model.logits(compact))


@pytest.mark.slow
def test_trees_on_an_embedding(tmp_path: Path) -> None:
    model = random_model(learn_schema(vectors(), kind="vector")[0], "mlp", "trees")
    session, _ = exported(model, tmp_path)
    check(session, vectors(), model.logits(torch.from_numpy(vectors())))


@pytest.mark.slow
@pytest.mark.parametrize("with_categories", [False, True])
def test_a_blend_of_trees_support_vectors_and_a_linear_head(tmp_path: Path, with_categories: bool) -> None:
    """The whole way from columns to the probability, on rows with gaps, ties and categories that training never saw."""
    model = blend_model(with_categories=with_categories)
    save_model(tmp_path / "folder", model)
    model = load_model(tmp_path / "folder")
    session, _ = exported(model, tmp_path)
    table = mixed_table(400, seed=5, new=True) if with_categories else mixed_table(400, seed=5, without="city")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.logits(model.schema.encode(table))
    numbers = np.stack([table.values[name] for name in ("age", "height", "flag")], axis=1)
    if not with_categories:
        check(session, numbers, expected)
        return
    city = np.array([[text or ""] for text in table.values["city"]], dtype=object)
    assert {"", "Paris", "Rome"} <= set(city[:, 0])
    check(session, {"numbers": numbers, "categories": city}, expected)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["mlp", "raw"])
def test_vectors(tmp_path: Path, encoder: str) -> None:
    rows = vectors()
    model = random_model(learn_schema(rows, kind="vector")[0], encoder)
    session, _ = exported(model, tmp_path)
    check(session, rows, model.logits(torch.from_numpy(rows)))


DEEP = ("resnet34", "resnet50")  # which take long and are made of what resnet18 is made of
IMAGES = [(name, 3) for name, one in entries("encoders").items() if "image" in one.inputs and name not in DEEP]


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "channels"), [*IMAGES, ("small_cnn", 1), ("cnn7bn", 1)])
def test_images_through_every_encoder(tmp_path: Path, encoder: str, channels: int) -> None:
    model = random_model(Schema("image", (channels, SMALLEST, SMALLEST)), encoder)
    session, about = exported(model, tmp_path)
    assert json.loads(about["range"]) == [0, 1]
    images = torch.rand(6, *model.schema.shape, generator=torch.Generator().manual_seed(3))
    images *= torch.linspace(0, 1, 6)[:, None, None, None]  # from dark to bright
    check(session, images.numpy(), model.logits(images))


def test_images_of_floats_come_on_the_scale_of_training(tmp_path: Path) -> None:
    images = RNG.uniform(-1, 3, size=(8, 3, 8, 8)).astype(np.float32)
    schema, rows = learn_schema(images)
    model = random_model(schema, "small_cnn")
    session, about = exported(model, tmp_path)
    assert json.loads(about["range"]) == pytest.approx([images.min(), images.max()])
    check(session, images, model.logits(rows))


@pytest.mark.slow
def test_what_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        export, "expected_scores", lambda _model, trial: np.full(len(trial.content), 0.123, dtype=np.float32)
    )
    needs_export()
    with pytest.raises(RunError, match="onnxruntime differs from the model"):
        export_onnx(random_model(Schema("vector", (4,)), "raw"), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_runtime_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_export()
    runtime = pytest.importorskip("onnxruntime")

    def refuse(*_args: object, **_options: object) -> None:
        raise RuntimeError("no implementation\nof TreeEnsemble(5)")

    monkeypatch.setattr(runtime, "InferenceSession", refuse)
    with pytest.raises(RunError, match=r"^pucl.export: onnxruntime \S+ cannot run the graph: no implementation of T"):
        export_onnx(random_model(Schema("vector", (4,)), "raw"), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_nothing_is_said_and_nothing_is_left_but_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    needs_export()
    export_onnx(random_model(Schema("vector", (4,)), "raw"), tmp_path / "new" / "model.onnx")
    assert tuple(capfd.readouterr()) == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.onnx"]


def test_a_torch_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.6.0+cu124"))
    with pytest.raises(
        InputError, match=r"^pucl.export: ONNX needs torch 2.7 or newer; this is 2.6.0\+cu124 \(pip ins"
    ):
        export_onnx(random_model(Schema("vector", (4,)), "raw"), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_bad_places_and_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(Schema("vector", (4,)), "raw")
    with pytest.raises(InputError, match="path must be a file that ends in .onnx; got"):
        export_onnx(model, tmp_path / "model.pt")
    with pytest.raises(InputError, match="must be in a place that can be written to"):
        export_onnx(model, "/proc/nothing/model.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"ONNX needs onnxruntime: pip install onnx onnxscript onnxruntime"):
        export_onnx(model, tmp_path / "model.onnx")
