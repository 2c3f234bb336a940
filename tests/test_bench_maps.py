"""Maps of embeddings: made once for an encoder, stored, read back whole or refused, and drawn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.bench.figures.drawing import draw
from pucl.bench.figures.maps import Maps, StoredMaps, draw_maps
from pucl.bench.grid.cells import EncoderCell, Pipeline
from pucl.bench.grid.grid import read_grid
from pucl.bench.results.maps import EmbeddingMap, add_maps, read_maps
from pucl.bench.results.revisions import revisions_of
from pucl.data import load
from pucl.errors import InputError
from pucl.registry import entries

from conftest import ROOT, Command

GRID = ROOT / "paper" / "figures.toml"
CELLS = read_grid(GRID)
SMALL = """
tasks = "digits"
n_labelled = 100
seeds = 0
encoder = "small_cnn"
recipes = "quick"
readouts = ["knn", "ceiling"]
[recipe.quick]
epochs = 1
batch_size = 256
learning_rate = 4.0
view = "small_image"
[[block]]
objectives = ["pucl", "sscl"]
"""


def made_up(cell: EncoderCell, **changes: Any) -> EmbeddingMap:
    values = {
        "key": cell.key, "config": cell.to_dict(), "x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 4.0], "positive": "011",
        "knn": 81.25, "time": "2026-11-19T00:00:00+00:00", "revisions": revisions_of(cell), "versions": {},
        "hardware": "1 thread", "commit": "abc",
    }  # fmt: skip
    return EmbeddingMap(**{**values, **changes})


def described(name: str) -> Maps:
    figure = entries("figures")[name].function()
    assert isinstance(figure, Maps)
    return figure


def stored(name: str, *, only: int | None = None) -> StoredMaps:
    """Made-up maps for the encoders of a figure, or for some of them."""
    empty = StoredMaps.of(described(name), GRID, CELLS, {})
    maps = {cell.encoder_cell.key: made_up(cell.encoder_cell) for cell in empty.cells[:only]}
    return StoredMaps.of(described(name), GRID, CELLS, maps)


@pytest.mark.slow
def test_an_encoder_is_mapped_once(command: Command, tmp_path: Path) -> None:
    grid, out = tmp_path / "small.toml", tmp_path / "maps.jsonl"
    grid.write_text(SMALL, encoding="utf-8")
    words = ("bench", "maps", grid, "--out", out, "--points", "60", "--device", "cpu")
    assert "(2 new, 0 already there)" in command(*words).out
    assert "(0 new, 2 already there)" in command(*words).out
    maps = read_maps(out)
    cells = {cell.encoder_cell.key: cell for cell in read_grid(grid) if isinstance(cell, Pipeline)}
    assert maps.keys() == cells.keys()
    first, second = maps.values()
    assert first.positive == second.positive, "the same rows for every encoder"
    share = float(load("digits", seed=0).y_test.mean())
    assert abs(first.positive.count("1") / 60 - share) < 0.2 and len(first.x) == len(first.y) == 60
    assert np.std(first.x) > 1 and 50 < first.knn <= 100, "places differ, and it is no constant"
    assert (tmp_path / "encoders").is_dir()


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    cell = stored("tsne_punce").cells[0].encoder_cell
    path = tmp_path / "maps.jsonl"
    add_maps(path, [made_up(cell), made_up(cell, knn=90.0)])
    assert read_maps(path) == {cell.key: made_up(cell, knn=90.0)}, "the last one counts"
    assert not made_up(cell).outdated(revisions_of(cell))
    assert made_up(cell).outdated({name: number + 1 for name, number in revisions_of(cell).items()})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": [0.0]}, "x, y and positive that do not have a value for every point"),
        ({"positive": "01x"}, "x, y and positive"),
        ({"key": "0"}, "a configuration that does not match its key"),
        ({"knn": "high"}, "knn must be a finite number"),
        ({"other": 1}, "unknown key 'other'"),
    ],
)
def test_a_damaged_map_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    table = made_up(stored("tsne_punce").cells[0].encoder_cell).to_dict() | changes
    (tmp_path / "maps.jsonl").write_text(json.dumps(table) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1, must be a result of 'pucl bench maps'") as error:
        read_maps(tmp_path / "maps.jsonl")
    assert message in str(error.value)


def test_panels_stand_in_the_order_of_supervision() -> None:
    made = draw_maps("tsne_pucl", stored("tsne_pucl"))
    names = ["ssCL", "puCL, γ = 0.05", "puCL, γ = 0.18", "puCL, γ = 0.67", "sCL"]
    assert [panel.title for panel in made.panels] == [f"{name}; kNN 81.2 %" for name in names]
    negative, positive = made.panels[0].clouds
    assert (negative.x, negative.y) == ((0.0,), (0.0,)) and (positive.x, positive.y) == ((1.0, 2.0), (1.0, 4.0))
    assert "CIFAR-hard" in made.conditions and "perplexity 30" in made.conditions
    figure = draw(made)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["negative", "positive"]
    assert [panel.title.partition(";")[0] for panel in draw_maps("tsne_punce", stored("tsne_punce")).panels] == [
        "ssCL", "puCL, γ = 0.18", "puNCE, γ = 0.18", "sCL"
    ]  # fmt: skip


def test_missing_maps_are_said() -> None:
    assert "2 of 4 maps are there" in draw_maps("tsne_punce", stored("tsne_punce", only=2)).conditions
    with pytest.raises(
        InputError, match=r"no maps are stored; run: pucl bench maps .*figures.toml --only .*4 encoders"
    ):
        draw_maps("tsne_punce", stored("tsne_punce", only=0))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--points", "3"], "--points must be a whole number ≥ 10; got 3"),
        (["--only", "task=cifr"], "--only must be text or key=value that matches a cell"),
        (["--out", "taken/maps.jsonl"], "--out must be in a place that can be written to"),
        (["--out", "broken.jsonl"], "line 1, must be a result of 'pucl bench maps'; got not JSON"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "broken.jsonl").write_text("mine\nand mine\n")
    shown = command("bench", "maps", GRID, *words)
    assert shown.code == 2 and shown.err.count("\n") == 1 and message in shown.err and not shown.out
