"""Small models and the data they are made from, for the tests of model folders, scoring, export and the command."""

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import frozen_examples
from pucl import PUClassifier
from pucl.data.own import ReadOptions, Table, TableTransform
from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.inputs import Encoder, Standardise
from pucl.fitting.from_files import fit_files
from pucl.fitting.plan import FitOptions
from pucl.heads import LinearHead
from pucl.heads.calibration import Calibrated
from pucl.heads.kernel import KernelHead
from pucl.heads.knn import knn
from pucl.heads.mlp import MLPHead
from pucl.heads.trees import trees
from pucl.models.export import OLDEST_TORCH
from pucl.models.model import Model
from pucl.models.record import Choices, FitRecord, RowCounts
from pucl.models.schema import Schema
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.categories import CategoryValues
from text_examples import mails
from tree_examples import blend

N, LABELLED = 60, 20
QUICK: dict[str, Any] = {"encoder": "raw", "head": "linear", "labeller": "pupl", "prior": 0.3}
HEADER = ["id", "age", "city", "height", "known"]
POSITIVE = np.arange(N) < 30
S = np.arange(N) < LABELLED


def needs_export() -> None:
    """Skip a test where no model can be written as ONNX."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra 'export' is not installed")
    if torch.__version__ < OLDEST_TORCH:
        pytest.skip(f"ONNX needs torch {OLDEST_TORCH} or newer")


def table_rows() -> list[list[Any]]:
    """id, age, city, height (some missing) and known of every row; positives are older."""
    rng = np.random.default_rng(0)
    age, height = 40 + 10 * POSITIVE + rng.normal(size=N), 1.7 + 0.1 * rng.normal(size=N)
    city = np.array(["Bonn", "Kiel", "Ulm"])[rng.integers(3, size=N)]
    return [
        [f"r{i:02d}", round(age[i], 3), city[i], "" if i % 9 == 4 else round(height[i], 3), int(S[i])] for i in range(N)
    ]


def write_table(path: Path, rows: list[list[Any]] | None = None, header: list[str] = HEADER) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *(table_rows() if rows is None else rows)])
    return path


def changed(column: str, value: Any, *rows: int) -> list[list[Any]]:
    """The table with another value in one column, in some rows or in all of them."""
    found, at = table_rows(), HEADER.index(column)
    for i in rows or range(N):
        found[i][at] = value
    return found


def vectors(width: int = 4) -> np.ndarray[Any, np.dtype[np.float32]]:
    rng = np.random.default_rng(1)
    found: np.ndarray[Any, np.dtype[np.float32]] = (rng.normal(size=(N, width)) + 2 * POSITIVE[:, None]).astype("f4")
    return found


def write_images(folder: Path, *, colour: bool = False, side: int = 8, n: int = 24) -> Path:
    """A folder with positive/ and unlabelled/, bright and dark images."""
    import pytest

    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(2)
    shape = (side, side, 3) if colour else (side, side)
    for i in range(n):
        place = folder / ("positive" if i < n // 3 else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        low = 128 if i < n // 2 else 0
        image.fromarray(rng.integers(low, low + 128, size=shape).astype(np.uint8)).save(place / f"{i:02d}.png")
    return folder


def fitted(source: Path | str, reading: dict[str, Any] | None = None, **options: Any) -> Model:
    return fit_files(source, ReadOptions(**(reading or {})), FitOptions(**{**QUICK, **options}), max_rows=1000)


def table_model(tmp_path: Path, **options: Any) -> Model:
    return fitted(write_table(tmp_path / "people.csv"), {"label": "known", "id_column": "id"}, **options)


def random_model(schema: Schema, encoder: str, head: str = "linear") -> Model:
    """A model nobody trained: random weights, with the means and spreads of some rows in its batch norms."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        rows = torch.rand(16, *schema.shape) * 2 - 0.5
        network = Encoder(Standardise.of(rows), make_encoder(encoder, schema.shape))
        for module in network.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.momentum = 1.0
        with torch.no_grad():
            network.train()(rows)
        dim = embedding_dim(network, schema.shape)
        neighbours, labelled = torch.randn(20, dim), torch.arange(20) < 4
        pseudo = PseudoLabels.from_probability(torch.rand(20), labelled, prior=0.3)
        heads: dict[str, nn.Module] = {
            "linear": LinearHead(torch.randn(dim), torch.tensor(0.1)),
            "kernel": KernelHead(torch.randn(5, dim), torch.randn(5), torch.tensor(0.1), width=0.5),
            "mlp": MLPHead(dim, 8, seed=0),
            "knn": knn(neighbours, labelled, pseudo, k=5, temperature=0.5, centred=True, whitening=0.5),
            "trees": trees(neighbours, labelled, pseudo, n_trees=9, min_leaf=1),
        }
        record = FitRecord(
            schema.kind, RowCounts(20, 4, 16), PriorEstimate(0.3, 0.3, 0.3, "given"), Choices(encoder, "pupl", head)
        )
        inner = heads[head].eval().requires_grad_(False)
        calibrated = Calibrated(inner, shift=0.2, temperature=2.0)
        return Model(schema, network.eval().requires_grad_(False), encoder, calibrated, record)


def text_model() -> Model:
    """A model of mails, whose encoder has learnt words."""
    texts, _, s = mails(60)
    return PUClassifier(random_state=0, **QUICK).fit(texts, s).model_


def onnx_model(place: Path) -> Model:
    """A model of images that an ONNX file encodes."""
    _, s = frozen_examples.labels()
    file = frozen_examples.write_onnx(place / "net.onnx")
    given = {**QUICK, "encoder": f"onnx:{file}"}
    return PUClassifier(random_state=0, **given).fit(frozen_examples.images(), s).model_


def mixed_table(n: int, *, seed: int = 0, new: bool = False, without: str | None = None) -> Table:
    """Numbers and booleans with gaps, and cities, some of them missing; `new` adds cities that training never saw."""
    rng = np.random.default_rng(seed)
    age, height = 40 + 10 * rng.normal(size=n), np.round(1.7 + 0.1 * rng.normal(size=n), 2)
    age[rng.random(n) < 0.1] = np.nan
    cities = ["Bonn", "Kiel", "Rome", None, *["Paris", "Oslo"][: 2 * new]]
    columns: dict[str, tuple[str, Any]] = {
        "age": ("number", age),
        "city": ("category", np.array(cities, dtype=object)[rng.integers(len(cities), size=n)]),
        "height": ("number", height),
        "flag": ("bool", (rng.random(n) < 0.4).astype(float)),
    }
    kept = {name: column for name, column in columns.items() if name != without}
    return Table({k: kind for k, (kind, _) in kept.items()}, {k: v for k, (_, v) in kept.items()}, n)


def blend_model(*, with_categories: bool = True) -> Model:
    """A model of a mixed table whose head takes the columns themselves."""
    table = mixed_table(300, without=None if with_categories else "city")
    transform = TableTransform.fit(table)
    rows = torch.from_numpy(transform.compact(table))
    schema = Schema("table", (len(transform.features),), dict(table.types), transform=transform)
    values = None
    if with_categories:
        values = CategoryValues((1,), np.array([[0.2, 0.9, 0.5]], np.float32), np.array([0.4], np.float32))
    goal = (torch.nan_to_num(rows[:, 0]) + rows[:, -2] + rows[:, -1] > 0.3).int().numpy()
    plain = random_model(schema, "raw")
    return replace(plain, head=Calibrated(blend(transform.expand, rows, goal, values), shift=-0.3, temperature=1.3))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def resign(folder: Path, whole: dict[str, Any] | None = None, **content: Any) -> None:
    """Change model.json, whole or in part, as somebody does who knows about its checksums."""
    path = folder / "model.json"
    stored = {**(whole or json.loads(path.read_text(encoding="utf-8"))), **content}
    stored.pop("sha256")
    stored["files"] = {name: sha256((folder / name).read_bytes()) for name in stored["files"]}
    canonical = json.dumps(stored, separators=(",", ":")).encode()
    path.write_text(json.dumps({**stored, "sha256": sha256(canonical)}), encoding="utf-8")
