"""Cells: keys, names, and their way to files and back, from files of older versions too."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.grid.cells import Cell, Pipeline, cell_from, units
from pucl.bench.grid.decode import resolved
from pucl.bench.grid.grid import read_grid
from pucl.bench.grid.identity import key_of
from pucl.bench.grid.recipes import PretrainRecipe
from pucl.bench.results.line import ResultLine
from pucl.bench.results.revisions import revisions_of
from pucl.bench.results.store import read_results
from pucl.bench.results.upgrade import upgraded
from pucl.errors import InputError
from pucl.ranking import DEFAULT_RANKER

from bench_examples import RECIPE, SMALL, TAUGHT, baseline, cells_in, cells_of, cells_with, line_of
from conftest import ROOT


def test_every_number_is_in_the_cell_and_decides_its_key() -> None:
    (cell,) = cells_of()
    assert cell.recipe.training.momentum == 0.9 and cell.recipe.view_options["rotation"] == 15.0
    assert cell.readout.labeller_options["max_iter"] == 300 and cell.readout.head_options["soft"] is True
    assert cell.recipe.training.learning_rate == 4.0
    (same,) = cells_in({**SMALL, "recipe": {"quick": {**RECIPE, "learning_rate": 4}}})
    assert same.key == cell.key  # 4 is 4.0
    for change in ({"epochs": 2}, {"view_options": {"noise": 0.1}}, {"task": {"digits": {"momentum": 0.8}}}):
        (other,) = cells_in({**SMALL, "recipe": {"quick": {**RECIPE, **change}}})
        assert other.key != cell.key and other.encoder_cell.key != cell.encoder_cell.key
    # A changed default is a changed cell; an option added later and switched off is not.
    assert resolved("x", {"a": 1}, {}) != resolved("x", {"a": 2}, {})
    assert resolved("x", {"a": 1, "new": None, "more": 0.0}, {}) == {"a": 1}
    assert resolved("x", {"renew": True}, {"renew": False}) == {"renew": False}


def test_names_are_for_people() -> None:
    assert cells_of()[0].name == "digits 100 seed 0 pucl+pupl (quick, small_cnn)"
    assert baseline("nnpu", prior="oracle").name == "digits 100 seed 0 nnpu (raw, prior oracle)"
    assert len(baseline().key) == 16


def test_raw_rows_as_other_embeddings_are_another_cell_on_the_same_encoder() -> None:
    plain, with_raw = cells_with("plain", "with_raw")
    assert with_raw.readout.labeller_options == {**plain.readout.labeller_options, "other_embeddings": "raw"}
    renamed = replace(with_raw, readout=replace(with_raw.readout, name="plain"))
    assert plain.key != renamed.key and len(units([plain, with_raw])) == 1


# To files and back


def examples() -> list[Cell]:
    taught = cells_in({**SMALL, "readout": {"taught": TAUGHT}, "block": [{**SMALL["block"][0], "readouts": "taught"}]})
    withheld = cells_in({**SMALL, "recipe": {"quick": {**RECIPE, "withheld": 0.4, "clip": 1.0}}})
    others = cells_of(objectives=["punce"], prior="bbe", readouts=["pupl", "nnpu", "knn", "ceiling", "finetune"])
    return [*taught, *withheld, *others, baseline(), baseline("nnpu", prior="oracle"), baseline("supervised")]


@pytest.mark.parametrize("cell", examples(), ids=lambda cell: cell.name)
def test_a_cell_comes_back_from_json_as_it_was(cell: Cell) -> None:
    table = json.loads(json.dumps(cell.to_dict()))
    back = cell_from(table)
    assert back == cell and back.key == cell.key == key_of(table) and back.name == cell.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "place: seed must be a whole number; got '0'"),
        ({"n_labelled": None}, "place: n_labelled must be a whole number; got None"),
        ({"encoder": None}, "a cell: encoder must be a name; got None"),
        ({"encoder_prior": 0.5}, "a cell: encoder_prior must be a name; got 0.5"),
        ({"top": "pupl"}, "a cell: unknown key 'top'"),
        ({"recipe": 3}, "a cell: recipe must be a table; got 3"),
        ({"recipe": {"momentum": "x"}}, "must be given; got None"),
        ({"readout": []}, "a cell: readout must be a table; got []"),
        ({"readout": {"name": "pupl"}}, "labeller_options must be a table; got None"),
    ],
)
def test_what_is_no_cell_is_one_error(change: dict[str, Any], message: str) -> None:
    table = cells_of()[0].to_dict()
    with pytest.raises(InputError, match=re.escape(message)):
        cell_from({**table, **change})


def test_a_recipe_of_wrong_content() -> None:
    table = cells_of()[0].recipe.to_dict()
    for change, message in (
        ({"momentum": "x"}, "momentum must be a finite number; got 'x'"),
        ({"moment": 0.9}, "unknown option of recipe 'moment': did you mean 'momentum'?"),
        ({"view": 3}, "view must be a name; got 3"),
        ({"epochs": 0}, "epochs must be a whole number ≥ 1; got 0"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            PretrainRecipe.from_dict({**table, **change})
    with pytest.raises(InputError, match="momentum of its recipe must be given; got None"):
        PretrainRecipe.from_dict({name: value for name, value in table.items() if name != "momentum"})


# Version 0.1


OLD: dict[str, Any] = {
    "key": "4d8b83f7b4dc83ff",
    "config": {
        "task": "digits", "setting": "case-control", "n_labelled": 100, "seed": 0, "encoder": "small_cnn",
        "objective": "pucl", "recipe_name": "quick",
        "recipe": {
            "epochs": 2, "batch_size": 256, "optimiser": "lars", "learning_rate": 4.0, "final_learning_rate": 1e-05,
            "warmup_epochs": 10, "momentum": 0.9, "weight_decay": 0.0001, "projection": [512, 128],
            "precision": "auto", "temperature": 0.5, "view": "small_image",
            "view_options": {
                "rotation": 15.0, "scale": 0.15, "shear": 0.15, "shift": 0.12, "contrast": 0.4, "noise": 0.05,
            },
        },
        "encoder_prior": None, "top": "auto", "labeller": "kernel_cvir",
        "labeller_options": {
            "rounds": 10, "folds": 5, "spread": 20.0, "width": 0.5, "landmarks": 400, "centred": True, "most": 20000,
            "repeats": 1,
        },
        "head": "linear", "head_options": {"l2": 0.001, "soft": True}, "top_prior": None, "prior": None,
    },
    "metrics": {"accuracy": 90.0, "told_prior": 0.5}, "seconds": 1.48, "encoder_seconds": 1.4,
    "time": "2026-11-16T16:03:18.181+00:00", "code": "8ad3818612c5", "versions": {"pucl": "0.1.0"},
    "hardware": "CPU, 1 thread", "commit": "073ad27", "warnings": ["slow"],
}  # fmt: skip


def test_a_line_of_version_0_1_is_of_the_cell_that_a_grid_has_today(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps(OLD) + "\n", encoding="utf-8")
    (line,) = read_results(path)
    grid = {cell.key: cell for cell in read_grid(ROOT / "paper" / "smoke.toml")}
    assert grid[line.key] == line.cell and line.cell.name == "digits 100 seed 0 pucl+kernel_cvir (quick, small_cnn)"
    assert line.metrics == {"accuracy": 90.0, "given_prior": 0.5} and line.origin.commit == "073ad27"
    assert line.revisions == dict.fromkeys(revisions_of(line.cell), 1)
    assert line.warnings == ("slow",) and line.encoder_seconds == 1.4
    pupil = {**OLD["config"], "top": "own", "labeller": "teacher", "labeller_options": {}}
    place = ("task", "setting", "n_labelled", "seed")
    teacher = {key: value for key, value in OLD["config"].items() if key not in place}
    taught = {**pupil, "teacher": {**teacher, "labeller_options": {"beside": "raw", "even": 0.5}}}
    (more,) = [ResultLine.from_dict(upgraded({**OLD, "config": taught, "key": key_of(taught)}))]
    assert isinstance(more.cell, Pipeline) and more.cell.readout.teacher is not None
    assert more.cell.readout.teacher.readout.labeller_options == {"other_embeddings": "raw", "whitening": 0.5}
    path.write_text(json.dumps({**OLD, "config": {**OLD["config"], "seed": 1}}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1, must be .* got a configuration that does not match its key"):
        read_results(path)


@pytest.mark.parametrize(("old", "new"), [("auto", "kernel_cvir"), ("finetune", "kernel_cvir_finetune")])
def test_lines_of_the_former_auto_are_read_under_the_name_of_what_was_run(tmp_path: Path, old: str, new: str) -> None:
    (cell,) = cells_of(readouts=[new])
    former = replace(cell, readout=replace(cell.readout, name=old))
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(line_of(former, accuracy=77.0).to_dict()) + "\n", encoding="utf-8")
    (line,) = read_results(path)
    assert line.cell == cell and line.key == cell.key and line.accuracy == 77
    tampered = {**line_of(former).to_dict(), "key": cell.key}
    path.write_text(json.dumps(tampered) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="got a configuration that does not match its key"):
        read_results(path)
    (pupil,) = cells_in(
        {**SMALL, "readout": {"taught": TAUGHT}, "block": [{**SMALL["block"][0], "readouts": "taught"}]}
    )
    teacher = pupil.readout.teacher
    assert teacher is not None and teacher.readout.name == "kernel_cvir"
    renamed = replace(teacher, readout=replace(teacher.readout, name="auto"))
    path.write_text(
        json.dumps(line_of(replace(pupil, readout=replace(pupil.readout, teacher=renamed))).to_dict()) + "\n"
    )
    assert [line.cell for line in read_results(path)] == [pupil]


def test_auto_is_the_labeller_of_users_under_its_own_name() -> None:
    named, tuned = cells_of(readouts=["auto", "finetune"])
    assert (named.readout.name, named.readout.labeller) == (DEFAULT_RANKER, DEFAULT_RANKER)
    assert (tuned.readout.name, tuned.readout.labeller) == (f"{DEFAULT_RANKER}_finetune", DEFAULT_RANKER)
    assert len(cells_of(readouts=["auto", DEFAULT_RANKER])) == 1, "one cell, not two of the same"
    own = {"auto": {"labeller": "pupl", "head": "linear"}}
    with pytest.raises(InputError, match=r"readout.auto must be called something else: the name stands for 'stacked'"):
        cells_in({**SMALL, "readout": own})


@pytest.mark.slow
def test_stored_results_are_cells_of_the_grids_of_the_paper() -> None:
    lines = read_results(ROOT / "results" / "benchmark.jsonl")
    names = ("benchmark1", "heads", "weak", "benchmark2", "baselines1", "baselines2", "encoders")
    keys = {cell.key for name in names for cell in read_grid(ROOT / "paper" / f"{name}.toml")}
    known = [line for line in lines if line.key in keys]
    assert len(lines) >= 659 and len(known) >= 598  # the others have numbers that grids had once
    stacked = [
        line.cell for line in known if isinstance(line.cell, Pipeline) and line.cell.readout.labeller == "stacked"
    ]
    assert {"raw", None} == {cell.readout.labeller_options.get("other_embeddings") for cell in stacked}
