"""ONNX: encoder, normalisation and head as one graph, checked against the model before it is kept."""

import json
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pucl.data.own.rules import NumberRule
from pucl.data.own.transform import TableTransform
from pucl.errors import InputError, RunError, bad_argument
from pucl.files import replace_file
from pucl.models.model import Model, Scorer

OWNER = "pucl.export"
TOLERANCE = 1e-4
SEEN = 7  # rows of the check; another number than the example's, since the batch is dynamic


class Columns(nn.Module):
    """A table of numbers to features, as its `TableTransform` does: missing to the median, standardised, indicator."""

    fill: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, rules: tuple[NumberRule, ...]) -> None:
        super().__init__()
        for name in ("fill", "centre", "scale"):
            self.register_buffer(name, torch.tensor([getattr(rule, name) for rule in rules], dtype=torch.float32))
        self.indicators = [rule.indicator for rule in rules]

    def forward(self, x: Tensor) -> Tensor:
        """(n, columns) with NaN where a value is missing → (n, features)."""
        missing = torch.isnan(x)
        number = (torch.where(missing, self.fill, x) - self.centre) / self.scale
        parts = []
        for j, indicator in enumerate(self.indicators):
            parts.append(number[:, j : j + 1])
            if indicator:
                parts.append(missing[:, j : j + 1].to(x.dtype))
        return torch.cat(parts, dim=1)


class Graph(nn.Module):
    """What is exported: rows as people have them → the probability of being positive, (n,)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.columns = columns_of(model.schema.transform)
        self.scorer = Scorer(model)

    def forward(self, rows: Tensor) -> Tensor:
        """Probabilities (n,)."""
        found: Tensor = self.scorer(rows if self.columns is None else self.columns(rows))
        return found


def columns_of(transform: TableTransform | None) -> Columns | None:
    """The transform as a module, where all its columns are numbers; None where features must be made outside."""
    if transform is None:
        return None
    rules = tuple(rule for rule in transform.rules if isinstance(rule, NumberRule))
    return Columns(rules) if len(rules) == len(transform.rules) else None


def export_onnx(model: Model, path: str | Path) -> Path:
    """Write the model as ONNX with a batch of any size; onnxruntime must agree with it to 1e-4 or nothing is kept.

    The input ``rows`` is what the model takes: images (n, c, h, w) as float32 within [0, 1], embeddings (n, d), or a
    table: its columns (n, columns) as float32 with NaN where a value is missing, in the order of the metadata's
    ``columns``. A table with categories takes the features its transform makes (``features``); the transform itself is
    in the model folder. The output is ``probability`` (n,).
    """
    path = Path(path)
    if path.suffix.lower() != ".onnx":
        raise bad_argument(OWNER, "path", "a file that ends in .onnx", str(path))
    onnx, runtime = (_need(name) for name in ("onnx", "onnxruntime"))
    _need("onnxscript")
    graph = Graph(model).eval()
    width = len(graph.columns.indicators) if graph.columns is not None else 0
    shape = (width,) if width else model.schema.shape
    example = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        program = torch.onnx.export(
            graph, (example,), dynamo=True, input_names=["rows"], output_names=["probability"],
            dynamic_shapes={"rows": {0: torch.export.Dim("n", min=1)}}, verbose=False,
        )  # fmt: skip
    proto = program.model_proto  # type: ignore[union-attr]
    for key, value in _metadata(model, graph).items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(proto)
    data = proto.SerializeToString()
    _check(runtime, data, graph, shape)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise RunError(f"{OWNER}: cannot write {path}: {error.strerror or error}") from None
    return path


def _metadata(model: Model, graph: Graph) -> dict[str, str]:
    transform = model.schema.transform
    names = () if transform is None else transform.features if graph.columns is None else transform.columns
    key = "features" if transform is not None and graph.columns is None else "columns"
    return {"kind": model.schema.kind, key: json.dumps(names), "pucl": str(model.about["version"])}


def _check(runtime: Any, data: bytes, graph: nn.Module, shape: tuple[int, ...]) -> None:
    """Both give the same probabilities for rows they were not traced with, and for a single one."""
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    rows = torch.rand(SEEN, *shape, generator=torch.Generator().manual_seed(1))
    for some in (rows, rows[:1]):
        (found,) = session.run(None, {"rows": some.numpy()})
        with torch.no_grad():
            expected = graph(some).numpy()
        if found.shape != expected.shape or not np.allclose(found, expected, atol=TOLERANCE):
            raise RunError(f"{OWNER}: onnxruntime differs from the model by {np.abs(found - expected).max():.2g}")


def _need(module: str) -> Any:
    load: Callable[[str], Any] = import_module
    try:
        return load(module)
    except ModuleNotFoundError:
        raise InputError(f"{OWNER}: ONNX needs {module}: pip install 'pucl[export]'") from None
