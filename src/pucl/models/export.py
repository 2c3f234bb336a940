"""ONNX: encoder, normalisation and head as one graph, checked against the model before it is kept."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.data.own import Table, TableTransform
from pucl.data.own.rules import NumberRule
from pucl.encoders.embedding import embed
from pucl.errors import InputError, RunError
from pucl.files import replace_file
from pucl.models.model import Model, RowsToProbability
from pucl.models.places import check_file

OWNER = "pucl.export"
TOLERANCE = 1e-4
TRACED, CHECKED = 3, 7  # rows of the example and of the check, which differ: the batch size is dynamic


class Columns(nn.Module):
    """A table of numbers to features, as its `TableTransform` does: missing to the median, standardised, indicator."""

    fill: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, rules: tuple[NumberRule, ...]) -> None:
        super().__init__()
        for name in ("fill", "centre", "scale"):
            self.register_buffer(name, torch.tensor([getattr(rule, name) for rule in rules], dtype=torch.float64))
        self.indicators = [rule.indicator for rule in rules]

    def forward(self, x: Tensor) -> Tensor:
        """(n, columns) in float64 with NaN where a value is missing → (n, features) in float32."""
        missing = torch.isnan(x)
        number = ((torch.where(missing, self.fill, x) - self.centre) / self.scale).to(torch.float32)
        parts = []
        for j, indicator in enumerate(self.indicators):
            parts.append(number[:, j : j + 1])
            if indicator:
                parts.append(missing[:, j : j + 1].to(number.dtype))
        return torch.cat(parts, dim=1)


class Graph(nn.Module):
    """What is exported: rows as users have them → the probability of being positive, (n,)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.columns = columns_of(model.schema.transform)
        self.scorer = RowsToProbability(model)
        self.low, self.span = model.schema.low, model.schema.span

    def forward(self, rows: Tensor) -> Tensor:
        """Probabilities (n,)."""
        if self.columns is not None:
            rows = self.columns(rows)
        elif (self.low, self.span) != (0.0, 1.0):
            rows = (rows - self.low) / self.span
        probability: Tensor = self.scorer(rows)
        return probability


def columns_of(transform: TableTransform | None) -> Columns | None:
    """The transform as a module, where all its columns are numbers; None where features must be made outside."""
    if transform is None:
        return None
    rules = tuple(rule for rule in transform.rules if isinstance(rule, NumberRule))
    return Columns(rules) if len(rules) == len(transform.rules) else None


def export_onnx(model: Model, path: str | Path) -> Path:
    """Write the model as ONNX with a batch of any size; onnxruntime must agree with it to 1e-4 or nothing is kept.

    The input ``rows`` is what the model takes: images (n, c, h, w) as float32, within [0, 1] or on the scale of the
    floats it was trained on; embeddings (n, d) as float32; or a table of numbers (n, columns) as float64 with NaN where
    a value is missing. A table with categories takes the features that its transform makes, as float32; the transform
    itself is in the model folder. The output is ``probability`` (n,). The metadata names the ``columns`` or
    ``features`` in their order, and the ``range`` of images.
    """
    path = Path(path)
    check_file(OWNER, "path", path, (".onnx",))
    onnx, _, runtime = (_need(name) for name in ("onnx", "onnxscript", "onnxruntime"))
    graph = Graph(model).eval()
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph, (torch.from_numpy(_rows(model, graph, TRACED)),), dynamo=True, input_names=["rows"],
            output_names=["probability"], dynamic_shapes={"rows": {0: torch.export.Dim("n", min=1)}}, verbose=False,
        )  # fmt: skip
    proto = program.model_proto  # type: ignore[union-attr]
    for key, value in _metadata(model, graph).items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(proto)
    data = proto.SerializeToString()
    _check(runtime, data, model, graph)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise RunError(f"{OWNER}: cannot write {path}: {error.strerror or error}") from None
    return path


def _metadata(model: Model, graph: Graph) -> dict[str, str]:
    metadata = {"kind": model.schema.kind, "pucl": model.record.pucl_version}
    transform = model.schema.transform
    if graph.columns is None and transform is not None:
        return {**metadata, "features": json.dumps(transform.features)}
    if model.schema.kind == "image":
        return {**metadata, "range": json.dumps([graph.low, graph.low + graph.span])}
    return {**metadata, "columns": json.dumps(model.schema.needed)}


def _rows(model: Model, graph: Graph, n: int) -> NDArray[Any]:
    """Rows (n, …) like those of training, as the graph takes them; some values are missing where they may be."""
    draw = torch.Generator().manual_seed(n)
    if graph.columns is None:
        scaling = model.encoder.standardise
        rows = scaling.mean + scaling.scale * torch.randn(n, *model.schema.shape, generator=draw)
        if model.schema.kind == "image":
            rows = rows.clamp(0, 1) * graph.span + graph.low
        return rows.numpy()
    columns = graph.columns
    noise = torch.randn(n, len(columns.indicators), generator=draw, dtype=torch.float64)
    values = columns.centre + columns.scale * noise
    for j, rule in enumerate(model.schema.transform.rules):  # type: ignore[union-attr]
        if isinstance(rule, NumberRule) and rule.boolean:
            values[:, j] = (noise[:, j] > 0).double()
        if isinstance(rule, NumberRule) and rule.indicator:
            values[j % n, j] = torch.nan
    return values.numpy()


def expected_scores(model: Model, graph: Graph, rows: NDArray[Any]) -> NDArray[np.float32]:
    """The probabilities that the model itself gives the rows; tables go through its transform."""
    if graph.columns is None:
        content: Tensor = torch.from_numpy(rows)
        if model.schema.transform is not None:  # these are features
            with torch.no_grad():
                return torch.sigmoid(model.head(embed(model.encoder, content))).numpy()
        content = model.schema.encode(rows)
    else:
        names = model.schema.needed
        types = {name: model.schema.columns[name] for name in names}
        content = model.schema.encode(Table(types, {name: rows[:, j] for j, name in enumerate(names)}, len(rows)))
    return torch.sigmoid(model.logits(content)).numpy()


def _check(runtime: Any, data: bytes, model: Model, graph: Graph) -> None:
    """Refuse a graph whose probabilities differ from the model's, on new rows and on a single row."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    rows = _rows(model, graph, CHECKED)
    for some in (rows, rows[:1]):
        (probability,) = session.run(None, {"rows": some})
        expected = expected_scores(model, graph, some)
        if probability.shape != expected.shape:
            raise RunError(f"{OWNER}: onnxruntime gives shape {probability.shape}, the model {expected.shape}")
        difference = float(np.abs(probability - expected).max())
        if not difference <= TOLERANCE:
            raise RunError(
                f"{OWNER}: onnxruntime differs from the model by {difference:.2g}; up to {TOLERANCE:g} is allowed"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's own messages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _need(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise InputError(f"ONNX needs {module}: pip install 'pucl[export]'", owner=OWNER) from None
