"""What tests of the benchmark share: a small grid, cells and lines of results made by hand."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pucl.bench.grid.cells import Baseline, Cell, Pipeline
from pucl.bench.grid.grid import Grid
from pucl.bench.results.line import Origin, ResultLine
from pucl.bench.results.revisions import revisions_of
from pucl.bench.run.work import Bench, Outcome

from conftest import Command

GRID = """
tasks = ["digits"]
n_labelled = [100]
seeds = [0, 1]

[[block]]
methods = ["labelled_centroid", "naive"]
encoder = "raw"
"""
N_CELLS = 4  # of this grid
RECIPE = {"epochs": 1, "batch_size": 256, "learning_rate": 4.0, "view": "small_image"}
SMALL: dict[str, Any] = {
    "tasks": ["digits"], "n_labelled": [100], "seeds": [0], "recipe": {"quick": RECIPE},
    "block": [{"objectives": ["pucl"], "encoder": "small_cnn", "recipes": ["quick"], "readouts": ["pupl"]}],
}  # fmt: skip
QUICK_READOUTS = {
    "quick_cvir": {"labeller": "kernel_cvir", "labeller_options": {"repeats": 1}, "head": "linear"},
    "quick_tune": {"labeller": "pupl", "head": "finetune", "head_options": {"epochs": 1}},
    "plain": {"labeller": "stacked", "labeller_options": {"repeats": 1}, "head": "linear"},
    "with_raw": {
        "labeller": "stacked", "labeller_options": {"repeats": 1, "other_embeddings": "raw"}, "head": "linear",
    },
}  # fmt: skip
TAUGHT: dict[str, Any] = {
    "labeller": "teacher", "head": "finetune",
    "teacher": {"encoder": "small_cnn", "recipe": "quick", "readout": "kernel_cvir"},
    "head_options": {"renew": False, "soft": True, "epochs": 2},
}  # fmt: skip


def cells_in(content: dict[str, Any]) -> list[Pipeline]:
    """The cells of a grid that has pipelines only."""
    cells = Grid("small", content).cells()
    pipelines = [cell for cell in cells if isinstance(cell, Pipeline)]
    assert len(pipelines) == len(cells)
    return pipelines


def cells_of(**changes: Any) -> list[Pipeline]:
    """The cells of a small grid, with changes in its only block."""
    return cells_in({**SMALL, "block": [{**SMALL["block"][0], **changes}]})


def cells_with(*readouts: str) -> list[Pipeline]:
    """Cells of some of the quick readouts, on one encoder."""
    block = {**SMALL["block"][0], "readouts": [*readouts]}
    return cells_in({**SMALL, "readout": QUICK_READOUTS, "block": [block]})


def baseline(method: str = "naive", **place: Any) -> Baseline:
    """The cell of a baseline on raw digits."""
    content = {key: SMALL[key] for key in ("tasks", "n_labelled", "seeds")}
    block = {"methods": [method], "encoder": "raw", **place}
    (cell,) = Grid("small", {**content, "block": [block]}).cells()
    assert isinstance(cell, Baseline)
    return cell


def two_baselines() -> list[Cell]:
    """The cells of `GRID`."""
    return Grid("g", tomllib.loads(GRID)).cells()


def line_of(
    cell: Cell, *, time: str = "2026-01-01T00:00:00+00:00", outdated: bool = False, **metrics: float
) -> ResultLine:
    """A made-up result of a cell."""
    revisions = revisions_of(cell)
    made_with = dict.fromkeys(revisions, 0) if outdated else revisions
    return ResultLine(cell, {"accuracy": 90.0, **metrics}, 1.0, time, made_with, Origin({}, "1 thread", "abc"))


def run_unit(unit: Iterable[Cell], folder: Path) -> list[Outcome]:
    """What comes of cells that share an encoder."""
    return list(Bench(folder, "cpu", "here").run(list(unit)))


def done(outcome: Outcome) -> ResultLine:
    """The line of a cell that has not failed."""
    assert outcome.line is not None, outcome.failed or outcome.skipped
    return outcome.line


def results() -> list[ResultLine]:
    """Made up: puCL with puPL and stacked on some seeds of fmnist1, a ceiling, nnPU, and an older recipe."""
    paper: dict[str, Any] = {**SMALL, "tasks": ["fmnist1"], "n_labelled": [1000]}

    def cells(recipe: str, readouts: list[str], seeds: list[int], **changes: Any) -> list[Pipeline]:
        numbers = {**RECIPE, "view": "simclr", "epochs": changes.pop("epochs", 300)}
        block = {"objectives": ["pucl"], "encoder": "lenet5", "readouts": readouts, "seeds": seeds, "recipes": [recipe]}
        return cells_in({**paper, "recipe": {recipe: numbers}, "block": [{**block, **changes}]})

    lines = [line_of(c, accuracy=v) for c, v in zip(cells("paper", ["pupl"], [0, 1, 2]), (50, 52, 57), strict=True)]
    lines += [line_of(c, accuracy=v) for c, v in zip(cells("improved", ["auto"], [0, 1]), (92.0, 93.0), strict=True)]
    lines += [line_of(c, accuracy=60.0, time="2025-01-01") for c in cells("improved", ["auto"], [0], epochs=10)]
    lines += [line_of(c, accuracy=95.0) for c in cells("improved", ["ceiling"], [0])]
    lines += [line_of(c, accuracy=94.0) for c in cells("improved", ["auto"], [4], encoder="cnn7bn")]
    nnpu = baseline("nnpu", tasks=["fmnist1"], n_labelled=1000, encoder="lenet5", prior="oracle")
    return [*lines, line_of(nnpu, accuracy=88.0, outdated=True)]


def said(command: Command, *words: Any) -> str:
    """The one line that a refused command says."""
    code, out, err = command(*words)
    assert (code, out) == (2, "") and err.count("\n") == 1, err
    return err.removeprefix("pucl bench run: ").rstrip("\n")
