"""ONNX: all steps from columns, images or vectors to the probability as one graph, checked before it is kept."""

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
from torch import Tensor

from pucl.errors import Described, InputError, RunError, bad_argument, how_to_install, one_line
from pucl.files import replace_file
from pucl.models.graph import Graph, Trial, trial_rows
from pucl.models.model import Model
from pucl.models.onnx_parts import use_ml
from pucl.models.places import check_file

OWNER = "pucl.export"
TOLERANCE = 1e-4
OLDEST_TORCH = "2.7"  # before it, networks with batch norm cannot be exported
TRACED, CHECKED = 3, 7  # rows of the example and of the check, which differ: the batch size is dynamic


def export_onnx(model: Model, path: str | Path) -> Path:
    """Write the model as ONNX with a batch of any size; onnxruntime must agree with it to 1e-4 or nothing is kept.

    The input ``rows`` is what the model takes: images (n, c, h, w) as float32, within [0, 1] or on the scale of the
    floats it was trained on; embeddings (n, d) as float32; or a table of numbers (n, columns) as float64 with NaN where
    a value is missing; booleans are 0 and 1, dates days since 1970, from which
    the graph takes month, weekday and hour itself. A table with categories has two inputs:
    ``numbers`` (n, k), as above, and ``categories`` (n, m) of text, empty where a value is missing. The output is
    ``probability`` (n,). The metadata names the ``columns`` in their order, of a table with categories as
    ``numbers`` and ``categories``, and the ``range`` of images.
    """
    path = Path(path)
    check_file(OWNER, "path", path, (".onnx",))
    if model.front is not None and getattr(model.front.network, "takes_bytes", False):
        problem = f"a model with the encoder {model.front.name} cannot be exported: it is not a network of torch"
        raise InputError(problem, owner=OWNER)
    _refuse_texts(model)
    onnx, _, runtime = (_need(name) for name in ("onnx", "onnxscript", "onnxruntime"))
    if torch.__version__ < OLDEST_TORCH:
        problem = f"ONNX needs torch {OLDEST_TORCH} or newer; this is {torch.__version__} (pip install --upgrade torch)"
        raise InputError(problem, owner=OWNER)
    graph = Graph(model).eval()
    with _quiet(), torch.no_grad():
        example = _traced(model, graph)
        rows = torch.export.Dim("n", min=1, max=2**31 - 1)
        program = torch.onnx.export(
            graph, example, dynamo=True, input_names=graph.inputs, output_names=["probability"],
            dynamic_shapes=tuple({0: rows} for _ in example), verbose=False,
        )  # fmt: skip
    proto = program.model_proto  # type: ignore[union-attr]
    use_ml(onnx, proto, () if graph.columns is None else graph.columns.categories)
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


def _refuse_texts(model: Model) -> None:
    texts = () if model.schema.transform is None else model.schema.transform.texts
    if texts:
        got = Described(f"text in column {texts[0].name!r} (export a model of its embeddings, kind='vector')")
        raise bad_argument(OWNER, "model", "one that takes numbers, categories or images", got)


def _traced(model: Model, graph: Graph) -> tuple[Tensor, ...]:
    """An example of what the graph takes."""
    given = trial_rows(model, graph, TRACED).inputs
    tensors = [torch.from_numpy(given[name]) for name in graph.inputs if name != "codes"]
    if graph.columns is not None and graph.columns.categories:
        tensors.append(torch.zeros(TRACED, len(graph.columns.categories)))
    return tuple(tensors)


def _metadata(model: Model, graph: Graph) -> dict[str, str]:
    metadata = {"kind": model.schema.kind, "pucl": model.record.pucl_version}
    if model.schema.kind == "image":
        return {**metadata, "range": json.dumps([graph.low, graph.low + graph.span])}
    if graph.columns is None:
        return {**metadata, "columns": json.dumps(model.schema.needed)}
    if graph.inputs == ["rows"]:
        return {**metadata, "columns": json.dumps(graph.columns.numbers)}
    categories = [rule.name for rule in graph.columns.categories]
    return {**metadata, "numbers": json.dumps(graph.columns.numbers), "categories": json.dumps(categories)}


def expected_scores(model: Model, trial: Trial) -> NDArray[np.float32]:
    """The probabilities that the model itself gives rows; tables go through its transform."""
    with _quiet():  # about values that training did not have
        rows = model.schema.encode(trial.content)
    return torch.sigmoid(model.logits(rows)).numpy()


def _check(runtime: Any, data: bytes, model: Model, graph: Graph) -> None:
    """Refuse a graph whose probabilities differ from the model's, on new rows and on a single row."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    trial = trial_rows(model, graph, CHECKED)
    try:
        session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        found = [(some, *session.run(None, some.inputs)) for some in (trial, trial.first())]
    except Exception as error:
        reason = one_line(error)
        raise RunError(f"{OWNER}: onnxruntime {runtime.__version__} cannot run the graph: {reason}") from None
    for some, probability in found:
        expected = expected_scores(model, some)
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
        raise InputError(f"ONNX needs {module}: {how_to_install('export')}", owner=OWNER) from None
