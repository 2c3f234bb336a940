"""ONNX: what onnxruntime says is what the model says, for every kind of rows, encoder and head."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model_examples import N, random_model, table_model, vectors
from pucl.data.own import Table
from pucl.encoders.embedding import embed
from pucl.errors import InputError, RunError
from pucl.models import export
from pucl.models.export import export_onnx
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
    path = export_onnx(model, tmp_path / "model.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    return session, session.get_modelmeta().custom_metadata_map


def check(session: Any, rows: Any, expected: torch.Tensor) -> None:
    """One, two and many rows: the batch is dynamic. The scores are no trivial ones."""
    for n in (1, 2, len(rows)):
        (found,) = session.run(["probability"], {"rows": rows[:n]})
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
def test_tables_with_categories_take_features(tmp_path: Path) -> None:
    model = table_model(tmp_path)
    assert model.schema.transform is not None
    session, about = exported(model, tmp_path)
    assert json.loads(about["features"]) == list(model.schema.transform.features) and "columns" not in about
    features = torch.randn(9, *model.schema.shape)
    with torch.no_grad():
        check(session, features.numpy(), model.head(embed(model.encoder, features)))


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
        export, "expected_scores", lambda _model, _graph, rows: np.full(len(rows), 0.123, dtype=np.float32)
    )
    with pytest.raises(RunError, match="onnxruntime differs from the model"):
        export_onnx(random_model(Schema("vector", (4,)), "raw"), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_nothing_is_said_and_nothing_is_left_but_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    export_onnx(random_model(Schema("vector", (4,)), "raw"), tmp_path / "new" / "model.onnx")
    assert tuple(capfd.readouterr()) == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.onnx"]


def test_bad_places_and_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(Schema("vector", (4,)), "raw")
    with pytest.raises(InputError, match="path must be a file that ends in .onnx; got"):
        export_onnx(model, tmp_path / "model.pt")
    with pytest.raises(InputError, match="must be in a place that can be written to"):
        export_onnx(model, "/proc/nothing/model.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"ONNX needs onnxruntime: pip install 'pucl\[export\]'"):
        export_onnx(model, tmp_path / "model.onnx")
