"""The benchmark harness: grids, cells, what a method may see, stored results, tables."""

import ast
import csv
import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel

from pucl.bench.grid.cells import Config, encoder_of, is_reference, key_of, name_of, units
from pucl.bench.grid.grid import Grid, read_grid
from pucl.bench.grid.options import resolved
from pucl.bench.grid.recipes import train_config
from pucl.bench.pages.baselines_page import baselines_page, read_notes
from pucl.bench.pages.layouts import write
from pucl.bench.pages.leaderboard import leaderboard
from pucl.bench.pages.reach import Goal, read_goals
from pucl.bench.pages.tables import make_table, paired_p
from pucl.bench.results import store
from pucl.bench.results.published import ENCODERS, METHODS, TABLES, published
from pucl.bench.results.store import merge, newest, read_results, write_results, writing
from pucl.bench.run import pool as crew
from pucl.bench.run import problem, stages, work
from pucl.bench.run.encoding import Kept
from pucl.bench.run.fingerprint import SILENT, Sources, bare
from pucl.bench.run.problem import Exam, pose
from pucl.bench.run.runner import Plan, plan, say_other, select, sweep
from pucl.bench.run.stages import Frozen, fit_top
from pucl.bench.run.work import Bench, Outcome
from pucl.data import Dataset, load
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder, Standardise, as_rows
from pucl.encoders.plain import raw_encoder
from pucl.errors import InputError, RunError
from pucl.pseudo_labels import pseudo_label
from pucl.ranking.prior import estimate_prior
from pucl.registry import entries
from pucl.training.pretraining import pretrain

from conftest import ROOT, SRC

RECIPE = {"epochs": 1, "batch_size": 256, "learning_rate": 4.0, "view": "small_image"}
SMALL: dict[str, Any] = {
    "tasks": ["digits"], "n_labelled": [100], "seeds": [0], "recipe": {"quick": RECIPE},
    "block": [{"objectives": ["pucl"], "encoder": "small_cnn", "recipes": ["quick"], "tops": ["pupl"]}],
}  # fmt: skip


def cells_of(**changes: Any) -> list[Config]:
    """The cells of a small grid, with changes in its only block."""
    return Grid("small", {**SMALL, "block": [{**SMALL["block"][0], **changes}]}).cells()


def baseline(method: str = "naive", **place: Any) -> Config:
    content = {key: SMALL[key] for key in ("tasks", "n_labelled", "seeds")}
    block = {"methods": [method], "encoder": "raw", **place}
    (cell,) = Grid("small", {**content, "block": [block]}).cells()
    return cell


def line_of(config: Config, *, time: str = "2026-01-01T00:00:00+00:00", code: str = "c0de", **metrics: float) -> Config:
    found = {"accuracy": 90.0, **metrics}
    about = {"commit": "abc", "hardware": "1 threads", "versions": {}}
    return {
        "key": key_of(config), "config": config, "metrics": found, "seconds": 1.0, "time": time, "code": code, **about,
    }  # fmt: skip


# Grids and cells


def test_a_grid_is_the_product_of_its_lists() -> None:
    cells = cells_of(objectives=["sscl", "punce"], seeds=[0, 1, 2], n_labelled=[50, 100], tops=["pupl", "nnpu"])
    assert len(cells) == 2 * 3 * 2 * 2 == len({key_of(cell) for cell in cells})
    assert len(units(cells)) == 2 * 3 * 2  # an encoder for every objective, seed and number of labels
    assert {len(unit) for unit in units(cells)} == {2}
    assert len(cells_of(seeds=[0, 0])) == 1


def test_only_what_needs_a_prior_is_told_one() -> None:
    cells = cells_of(objectives=["pucl", "punce"], tops=["pupl", "nnpu"], prior="auto")
    told = {(c["objective"], c["top"]): (c["encoder_prior"], c["top_prior"], c["prior"]) for c in cells}
    assert told == {
        ("pucl", "pupl"): (None, None, None),
        ("pucl", "nnpu"): (None, "oracle", "oracle"),
        ("punce", "pupl"): ("auto", None, "auto"),
        ("punce", "nnpu"): ("auto", "oracle", "oracle"),
    }
    assert [c["prior"] for c in cells_of(objectives=["punce"], prior={"punce": "oracle"})] == ["oracle"]
    assert baseline(prior="oracle")["prior"] is None and baseline("nnpu", prior="oracle")["prior"] == "oracle"


def test_every_number_is_in_the_cell_and_decides_its_key() -> None:
    (cell,) = cells_of()
    assert cell["recipe"]["momentum"] == 0.9 and cell["recipe"]["view_options"]["rotation"] == 15.0
    assert cell["labeller_options"]["max_iter"] == 300 and cell["head_options"]["soft"] is True
    assert train_config(cell["recipe"], seed=3).learning_rate == 4.0
    (same,) = Grid("other", {**SMALL, "recipe": {"quick": {**RECIPE, "learning_rate": 4}}}).cells()
    assert key_of(same) == key_of(cell)  # 4 is 4.0
    for change in ({"epochs": 2}, {"view_options": {"noise": 0.1}}, {"task": {"digits": {"momentum": 0.8}}}):
        (other,) = Grid("other", {**SMALL, "recipe": {"quick": {**RECIPE, **change}}}).cells()
        assert key_of(other) != key_of(cell) and key_of(encoder_of(other)) != key_of(encoder_of(cell))
    # A changed default is a changed cell; an option added later and switched off is not.
    assert resolved("x", {"a": 1}, {}) != resolved("x", {"a": 2}, {})
    assert resolved("x", {"a": 1, "new": None, "more": 0.0}, {}) == {"a": 1}
    assert resolved("x", {"renew": True}, {"renew": False}) == {"renew": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = ['digits']", "g.toml: unknown key 'task': did you mean 'tasks'? known: "),
        ("[[block]]\nobjective = ['pucl']", "g.toml: a [[block]]: unknown key 'objective': did you mean 'objectives'?"),
        ("[[block]]\nmethods = ['naive']\ntops = ['pupl']", "g.toml: a [[block]]: unknown key 'tops'"),
        ("[[block]]\nseeds = [0]", "a [[block]] must be one with 'objectives' or 'methods'; got neither"),
        ("seeds = [0]", "g.toml: [[block]] must be given at least once; got none"),
        ("[recipe.r]\nepoch = 3", "unknown option of recipe 'r' 'epoch': did you mean 'epochs'?"),
        ("[recipe.r]\nepochs = 3", "recipe 'r': view must be the name of a view"),
        ("[recipe.r]\nview = 'simclr'\nepochs = 0", "epochs must be a whole number ≥ 1; got 0"),
        ("[recipe.r]\nview = 'simclr'\nseed = 0", "unknown option of recipe 'r' 'seed'"),
        ("[recipe.r]\nview = 'simclr'\nview_options = {scal = 1}", "unknown option of view 'simclr' 'scal'"),
        ("[recipe.r]\nview = 'simclr'\ntask = {digit = {}}", "unknown datasets 'digit': did you mean 'digits'?"),
        ("[top.t]\nhead = 'linear'", "top 't': labeller must be given with the head 'linear'; got None"),
        ("[top.t]\nhead = 'linea'\nlabeller = 'auto'", "unknown head 'linea': did you mean 'linear'?"),
        ("[top.t]\nlabel = 'auto'", "g.toml: top 't': unknown key 'label': did you mean 'labeller'?"),
        ("[top.t]\nhead = 'nnpu'\nprior = 'oracl'", "g.toml: top 't': unknown prior 'oracl': did you mean 'oracle'?"),
        ("tasks = ['digts']", "unknown datasets 'digts': did you mean 'digits'?"),
        ("seeds = [-1]", "seeds must be a whole number from 0 to 4294967295; got -1"),
        ("n_labelled = 2.5", "n_labelled must be a whole number ≥ 1; got 2.5"),
        ("setting = 'both'", "g.toml: unknown setting 'both'"),
        ("tops = ['pup']", "unknown top 'pup': did you mean 'pupl'?"),
        ("recipes = ['s']", "g.toml: unknown recipe 's'"),
        ("encoder = {cifar1 = 'cnn7'}", "encoder must be a name, or a table with one for 'digits'"),
        ("encoder = 'cnn8'", "unknown encoders 'cnn8': did you mean 'cnn7'?"),
        ("seeds = ", "g.toml cannot be read: "),
    ],
)
def test_what_is_wrong_in_a_grid_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    defaults = {
        "tasks": "['digits']", "n_labelled": "[100]", "seeds": "[0]", "encoder": "'small_cnn'", "tops": "['pupl']",
        "recipes": "['r']",
    }  # fmt: skip
    if "[top.t]" in text:
        defaults["tops"] = "['t']"
    own = text.partition(" = ")[0]
    above = "\n".join(f"{key} = {value}" for key, value in defaults.items() if key != own)
    table = "" if "[recipe.r]" in text else "\n[recipe.r]\nview = 'simclr'"
    block = "" if "[[block]]" in text or "[[block]]" in message else "\n[[block]]\nobjectives = ['pucl']"
    first, second = (text, "") if not text.startswith("[") else ("", text)
    path = tmp_path / "g.toml"
    path.write_text(f"{first}\n{above}\n{second}{table}{block}\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_grid(path)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["benchmark1", "heads", "weak", "benchmark2", "baselines1", "baselines2", "smoke"])
def test_the_grids_of_the_paper(name: str) -> None:
    path = ROOT / "paper" / f"{name}.toml"
    missing = [m for m in re.findall(r'"(\w+)"', path.read_text()) if m in METHODS and m not in entries("baselines")]
    if missing:
        pytest.skip(f"not there yet: {missing}")
    cells = read_grid(path)
    columns = {column for table in TABLES for _, column in published(table)}
    assert name == "smoke" or {(cell["task"], cell["n_labelled"]) for cell in cells} <= columns
    wanted = {
        "benchmark1": "pu-benchmark-1", "heads": "downstream-head", "weak": "weak-supervision-knn",
        "benchmark2": "pu-benchmark-2", "baselines1": "pu-benchmark-1", "baselines2": "pu-benchmark-2",
    }  # fmt: skip
    if name in wanted:  # every published number of ours, or of the baselines, has cells, with the paper's encoder
        table = wanted[name]
        lines = [line_of(cell) for cell in cells]
        rows = make_table(table, lines).rows
        found = {
            (entry.published.method, column)
            for row in rows
            for column, entry in row.entries.items()
            if entry.published and entry.values and not re.search("cnn|net|mlp", row.label.recipe)
        }
        expected = {key for key in published(table) if (key[0] in METHODS.values()) == name.startswith("baselines")}
        assert found >= expected, expected - found
        assert {cell["seed"] for cell in cells} == set(range(5))
    assert set(METHODS.values()) >= {m for m, _ in published("pu-benchmark-2") if "(" not in m}
    assert {task for _, task in ENCODERS} == {task for table in TABLES for _, (task, _) in published(table)}


def test_heads_are_cells_of_the_first_benchmark() -> None:
    first, heads = (read_grid(ROOT / "paper" / f"{name}.toml") for name in ("benchmark1", "heads"))
    known = {key_of(cell) for cell in first}
    assert {key_of(cell) for cell in heads} <= known


def test_only() -> None:
    cells = cells_of(objectives=["sscl", "pucl"], seeds=[0, 1, 2], tops=["pupl", "auto"])
    assert len(select(cells, [])) == 12
    assert len(select(cells, ["seed=0,2"])) == 8 and len(select(cells, ["seed=1", "pucl+auto"])) == 1
    with pytest.raises(InputError, match="--only must be what fits some cell of the grid; got 'cifar'"):
        select(cells, ["cifar"])
    with pytest.raises(InputError, match="unknown key of --only 'sed': did you mean 'seed'"):
        select(cells, ["sed=1"])


def test_only_takes_numbers_whole() -> None:
    cells = cells_of(objectives=["sscl", "pucl"], seeds=[0, 1, 10, 11, 21], n_labelled=[10, 100, 110])

    def found(*only: str) -> set[tuple[int, int]]:
        return {(cell["seed"], cell["n_labelled"]) for cell in select(cells, list(only))}

    numbers = (10, 100, 110)
    assert found("seed 1") == {(1, n) for n in numbers} and found("seed 1", "10 seed") == {(1, 10)}
    assert found("10 seed 1") == {(1, 10)} and found("digits 10") == {(seed, 10) for seed in (0, 1, 10, 11, 21)}
    assert found("0") == {(0, n) for n in numbers} and found("seed 10") == {(10, n) for n in numbers}
    assert found("10") == {(seed, n) for seed, n in found() if 10 in (seed, n)}
    # All else is a part of the name as it is written: of words, before letters, with signs.
    assert len(select(cells, ["igit"])) == len(select(cells, ["small_cnn)"])) == len(select(cells, [""])) == 30
    assert len(select(cells, ["seed 1 p"])) == 3 and len(select(cells, ["seed 1", "pucl+"])) == 3
    for nothing in ("pucl.", "seed 2", "seed  1", "1 see", "SEED 1"):
        with pytest.raises(InputError, match=f"--only must be what fits some cell of the grid; got {nothing!r}"):
            select(cells, [nothing])
    fashion = Grid("small", {**SMALL, "tasks": ["fmnist1", "fmnist2"]}).cells()
    assert len(select(fashion, ["fmnist"])) == 2 and len(select(fashion, ["fmnist1"])) == 1


# What a method may see


def test_all_methods_see_the_same_labelled_rows() -> None:
    (one,), (other,) = cells_of(), cells_of(objectives=["sscl"], tops=["auto"])
    sets = [pose(cell)[0] for cell in (one, other, baseline())]
    for seen in sets[1:]:
        assert np.array_equal(seen.x, sets[0].x) and np.array_equal(seen.s, sets[0].s)
    again = pose({**one, "seed": 1})[0]
    assert again.x.shape != sets[0].x.shape or not np.array_equal(again.x[again.s], sets[0].x[sets[0].s])
    assert {field.name for field in fields(problem.Problem)} == {"x", "s", "seed"}


class Sealed:
    """Test labels that nobody may touch before they are unsealed."""

    def __init__(self, values: Any) -> None:
        self.values, self.open = values, False

    def __array__(self, *args: Any, **options: Any) -> Any:
        if not self.open:
            raise RuntimeError("a test label was read too early")
        return np.asarray(self.values, *args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array"):  # what numpy asks before it calls __array__
            raise AttributeError(name)
        raise RuntimeError(f"a test label was read too early: {name}")


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Every data set has sealed test labels; `Exam.grade` alone opens them. Gives what happened."""
    opened: list[bool] = []
    seals: list[Sealed] = []

    def load_sealed(name: str, *, seed: int) -> Dataset:
        data = load(name, seed=seed)
        seals.append(Sealed(data.y_test))
        return replace(data, y_test=seals[-1])  # type: ignore[arg-type]

    def grade(self: Exam, *args: Any, **options: Any) -> Config:
        opened.append(True)
        for seal in seals:
            seal.open = True
        data = self._data
        self._data = replace(data, y_test=np.asarray(data.y_test))
        return graded(self, *args, **options)

    graded = Exam.grade
    monkeypatch.setattr(problem, "load", load_sealed)
    monkeypatch.setattr(Exam, "grade", grade)
    return opened


def run_unit(unit: list[Config], folder: Path) -> list[Outcome]:
    return list(Bench(folder, "cpu", "here").run(unit))


def test_no_test_label_reaches_what_is_fitted(
    sealed: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unit in (cells_of(tops=["pupl"]), [baseline()], cells_of(tops=["ceiling"])):
        (outcome,) = run_unit(unit, tmp_path)
        assert outcome.failed is None and outcome.line is not None and 30 < outcome.line["metrics"]["accuracy"] <= 100
    assert len(sealed) == 3

    def peek(_config: Config, _frozen: stages.Frozen, exam: Exam) -> Any:
        return float(np.asarray(exam._data.y_test).mean())

    monkeypatch.setattr(work, "fit_top", peek)
    (outcome,) = run_unit(cells_of(tops=["pupl"]), tmp_path)
    assert outcome.failed is not None and "a test label was read too early" in outcome.failed


# Running


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Config]]:
    """One encoder by puNCE with an estimated prior, every kind of top on it."""
    folder = tmp_path_factory.mktemp("encoders")
    top = {"quick": {"labeller": "auto", "head": "finetune", "head_options": {"epochs": 1, "view": "shift"}}}
    true = {"true": {"labeller": "truth", "head": "finetune", "head_options": {"epochs": 1, "renew": False}}}
    tops = ["pupl", "auto", "nnpu", "knn", "ceiling", "quick", "true"]
    block = {**SMALL["block"][0], "objectives": ["punce"], "prior": "bbe", "tops": tops}
    unit = Grid("small", {**SMALL, "top": {**top, **true}, "block": [block]}).cells()
    found = {}
    for outcome in run_unit(unit, folder):
        assert outcome.failed is None and outcome.line is not None, outcome
        found[outcome.line["config"]["top"]] = outcome.line
    return folder, found


def test_every_top_is_measured(outcomes: tuple[Path, dict[str, Config]]) -> None:
    _, lines = outcomes
    assert list(lines) == ["pupl", "auto", "nnpu", "knn", "ceiling", "quick", "true"]
    metrics = {top: line["metrics"] for top, line in lines.items()}
    shared = {"accuracy", "knn", "linear_probe", "loss", "encoder_told_prior"}
    graded = {*shared, "f1", "auc"}
    assert set(metrics["knn"]) == shared and metrics["knn"]["accuracy"] == metrics["knn"]["knn"]
    assert set(metrics["ceiling"]) == graded and set(metrics["nnpu"]) == {*graded, "told_prior"}
    for top in ("pupl", "auto", "quick"):
        assert set(metrics[top]) == {*graded, "pseudo_label_accuracy", "estimated_prior"}
    assert len({(m["knn"], m["linear_probe"], m["loss"]) for m in metrics.values()}) == 1  # one encoder
    assert metrics["nnpu"]["told_prior"] == pytest.approx(0.504, abs=0.01)  # the true one
    assert metrics["nnpu"]["encoder_told_prior"] != metrics["nnpu"]["told_prior"]
    assert metrics["ceiling"]["accuracy"] > metrics["pupl"]["accuracy"]
    line = lines["auto"]
    assert line["key"] == key_of(line["config"]) and line["commit"] == "here" and line["code"]
    assert line["config"]["labeller"] == "kernel_cvir" and line["encoder_seconds"] > 0
    assert {"python", "torch", "pucl"} <= line["versions"].keys() and line["time"].endswith("+00:00")


def test_on_a_collapsed_encoder_every_row_is_called_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "embed", lambda _encoder, x, **_: torch.ones(len(x), 4))
    cells = cells_of(tops=["pupl", "auto", "ceiling"], prior="oracle")
    pupl, auto, ceiling = (outcome.line for outcome in run_unit(cells, tmp_path))
    assert pupl is not None and auto is not None and ceiling is not None
    for line in (pupl, auto):
        assert line["metrics"]["auc"] == 50 and line["metrics"]["accuracy"] == pytest.approx(50, abs=3)  # odd digits
        assert any("every row is called positive" in text for text in line["warnings"])
    assert "warnings" not in ceiling and ceiling["metrics"]["auc"] == 50


def test_an_encoder_is_trained_once_and_checked(
    outcomes: tuple[Path, dict[str, Config]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lines = outcomes
    assert len(list(folder.glob("*/encoder.json"))) == 2  # and the one by ssCL that the prior was estimated on
    from pucl.bench.run import encoding

    def refuse(*_: Any, **__: Any) -> Any:
        raise RunError("trained again")

    monkeypatch.setattr(encoding, "pretrain", refuse)
    cell = lines["pupl"]["config"]
    (outcome,) = run_unit([cell], folder)
    assert outcome.line is not None and outcome.line["metrics"] == lines["pupl"]["metrics"]
    (place,) = folder.glob("digits-punce-*/encoder.json")
    about = json.loads(place.read_text())
    kept = place.read_text()
    for change in ({"config": {**about["extra"]["config"], "seed": 9}}, {"code": "older"}):
        place.write_text(json.dumps({**about, "extra": {**about["extra"], **change}}))
        assert run_unit([cell], folder)[0].failed == "trained again"
    place.write_text(kept)
    (forced,) = list(Bench(folder, "cpu", "here", anew=True).run([cell]))
    assert forced.failed == "trained again"


def test_cells_that_cannot_be_run_are_skipped_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "nowhere"))
    cells = [*cells_of(objectives=["punce"]), *cells_of(tasks=["cifar1"]), *cells_of(tasks=["gaussians"]),
             baseline("nnpu")]  # fmt: skip
    reasons = [reason for _, reason in plan(cells, []).skipped]
    assert len(reasons) == 4
    for reason, words in zip(
        reasons,
        ("punce: needs a prior, 'oracle' or the name of an estimator, and the grid gives none",
         "cifar10: data_batch_1 is missing", "small_cnn: takes image data; gaussians has table data",
         "nnpu: needs a prior, 'oracle' or the name of an estimator, and the grid gives none"),
        strict=True,
    ):  # fmt: skip
        assert words in reason
    # What is only known once the data are loaded: nobody knows the prior of STL-10.
    data = replace(load("digits", seed=0), x_unlabelled=load("digits", seed=0).x_test)
    monkeypatch.setattr(problem, "load", lambda *_, **__: data)
    cell = cells_of(objectives=["punce"], prior="oracle", setting="single-set")
    (outcome,) = run_unit(cell, tmp_path)
    assert outcome.skipped == "nobody knows the true prior inside U of digits"
    (outcome,) = run_unit(cells_of(setting="single-set", tops=["ceiling"]), tmp_path)
    assert outcome.line is not None and outcome.line["metrics"]["accuracy"] > 60


def test_a_failed_cell_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(config: Config, *rest: Any) -> Any:
        if config["seed"] == 0:
            raise ZeroDivisionError("on\npurpose")
        return stages.fit_method(config, *rest)

    monkeypatch.setattr(work, "fit_method", fit)
    said: list[str] = []
    cells = [baseline(), baseline(seeds=[1])]
    summary = sweep(cells, tmp_path / "r.jsonl", device="cpu", tell=said.append)
    assert (summary.ran, len(summary.failed)) == (1, 1) and "1 ran in " in said[2]
    assert re.fullmatch(r"failed: .*naive \(raw\): ZeroDivisionError: on purpose \(test_bench.py:\d+\)", said[-1])
    assert [line["config"]["seed"] for line in read_results(tmp_path / "r.jsonl")] == [1]
    monkeypatch.undo()
    summary = sweep(cells, tmp_path / "r.jsonl", device="cpu", tell=said.append)
    assert (summary.ran, summary.there, summary.failed) == (1, 1, [])


def test_lines_by_other_code_are_kept_with_a_word(tmp_path: Path) -> None:
    path, cells = tmp_path / "r.jsonl", [baseline(), *cells_of()]
    sweep([baseline()], path, device="cpu", tell=lambda _: None)
    write_results(path, [*read_results(path), line_of(cells[1])])
    found = plan(cells, read_results(path))
    assert found.missing == [] and found.there == 2 and found.other == ["abc"]
    said: list[str] = []
    say_other(found, said.append)
    assert said == ["1 of 2 cells were made by other code (commit abc); kept; --stale runs them again"]
    say_other(Plan([], 2, [], []), said.append)
    assert len(said) == 1
    before = read_results(path)
    assert sweep([baseline()], path, force=True, device="cpu", tell=said.append).ran == 1
    after = read_results(path)
    assert len(after) == 3 and newest(after)[before[0]["key"]] == after[-1]  # a new line, which counts


def executed(work: Callable[[], object]) -> set[str]:
    """The source files of the package in which some line runs while `work` does."""
    found: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    root = (SRC / "pucl").as_posix() + "/"
    return {Path(name).as_posix().removeprefix(root) for name in found if Path(name).as_posix().startswith(root)}


QUICK_TOPS = {
    "auto": {"labeller": "auto", "labeller_options": {"repeats": 1}, "head": "linear"},
    "finetune": {"labeller": "pupl", "head": "finetune", "head_options": {"epochs": 1}},
    "plain": {"labeller": "stacked", "labeller_options": {"repeats": 1}, "head": "linear"},
    "beside": {"labeller": "stacked", "labeller_options": {"repeats": 1, "other_embeddings": "raw"}, "head": "linear"},
}


def cells_with(*tops: str) -> list[Config]:
    """Cells of some of the quick tops, on one encoder."""
    return Grid("small", {**SMALL, "top": QUICK_TOPS, "block": [{**SMALL["block"][0], "tops": [*tops]}]}).cells()


@pytest.mark.parametrize("kind", ["auto", "estimated", "finetune", "beside", "baseline"])
def test_the_fingerprint_covers_what_runs(kind: str, tmp_path: Path) -> None:
    if kind == "baseline":
        cell = baseline("nnpu", prior="bbe")
    elif kind == "estimated":
        (cell,) = cells_of(objectives=["punce"], prior="bbe", tops=["nnpu"])
    else:
        (cell,) = cells_with(kind)
    bench = Bench(tmp_path, "cpu")
    outcomes: list[Outcome] = []
    ran = executed(lambda: outcomes.extend(bench.run([cell])))
    assert outcomes[0].line is not None, outcomes[0].failed
    assert ran - set(SILENT) <= set(bench.sources.files_of(cell))
    assert {"bench/run/stages.py", "data/digits.py"} <= ran
    if kind == "beside":
        assert {"encoders/raw.py", "ranking/stacking.py", "ranking/label_spreading.py"} <= ran
    if kind != "baseline":
        about = encoder_of(cell)
        kept, (problem, exam) = Kept(tmp_path / "anew", "cpu", bench.sources), pose(cell)
        trained = executed(lambda: kept.encoder(about, problem, exam))
        assert trained - set(SILENT) <= set(bench.sources.encoder_files_of(about))
        assert "training/pretraining.py" in trained


# Raw rows beside an encoder's


def test_raw_rows_beside_are_another_cell_on_the_same_encoder() -> None:
    plain, beside = cells_with("plain", "beside")
    assert beside["labeller_options"] == {**plain["labeller_options"], "beside": "raw"}
    assert key_of(plain) != key_of({**beside, "top": "plain"}) and len(units([plain, beside])) == 1
    first, second = (read_grid(ROOT / "paper" / f"benchmark{number}.toml") for number in (1, 2))
    keys = {key_of(cell): cell for cell in (*first, *second)}
    lines = [line for line in read_results(ROOT / "results" / "benchmark.jsonl") if line["config"].get("top")]
    stored = {line["key"] for line in lines if line["config"]["labeller"] == "stacked"}
    # What a grid says today has the key that it had when labellers saw one embedding only.
    assert {"f6a0e07a596796dd", "8dc2dbb6e337ad55", "7b702b0a4e792c6c", "424d07318b54e579"} <= stored & keys.keys()
    assert "beside" not in keys["f6a0e07a596796dd"]["labeller_options"]
    assert {cell["labeller_options"].get("beside") for cell in first if cell["top"] == "beside"} == {"raw"}


def test_raw_rows_beside_a_hasty_encoder_make_labels_better(tmp_path: Path) -> None:
    plain, beside = (outcome.line for outcome in run_unit(cells_with("plain", "beside"), tmp_path))
    assert plain is not None and beside is not None
    found, more = plain["metrics"], beside["metrics"]
    assert found["knn"] == more["knn"] and found["loss"] == more["loss"]  # one encoder
    assert more["pseudo_label_accuracy"] > max(95, found["pseudo_label_accuracy"] + 2)
    assert more["estimated_prior"] == pytest.approx(0.504, abs=0.03)


@pytest.mark.parametrize("withheld", [0, 0.5])
def test_the_labeller_sees_the_raw_rows_of_the_problem(withheld: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, beside = cells_with("plain", "beside")
    problem, exam = pose(beside)
    rows = as_rows(problem.x, owner="test")
    poor = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.AvgPool1d(16))  # how bright four stripes are
    frozen = Frozen(Encoder(Standardise.of(rows), poor), problem, "cpu", withheld=withheld)
    calls: list[Config] = []

    def label(z: Any, s: Any, **how: Any) -> Any:
        calls.append({"z": z, **how})
        return pseudo_label(z, s, **how)

    monkeypatch.setattr(stages, "pseudo_label", label)
    first, again, other = (frozen.pseudo(cell, None) for cell in (beside, beside, plain))
    assert len(calls) == 2 and again is first and not torch.equal(other.probability, first.probability)
    assert "other_embeddings" not in calls[1] and all(
        (call["seen_by_encoder"] is None) == (withheld == 0) for call in calls
    )
    (raw,) = calls[0]["other_embeddings"]
    assert raw.shape == (len(problem.s), 65) and calls[0]["z"] is frozen.z
    assert torch.equal(raw, embed(raw_encoder(rows), rows))
    how: Config = {"seen_by_encoder": frozen.told, "other_embeddings": [raw]}
    by_hand = pseudo_label(frozen.z, problem.s, seed=problem.seed, repeats=1, **how)
    assert torch.equal(first.probability, by_hand.probability)
    known, truth = exam.training_truth()
    right = [((found.labels.numpy()[known] == truth)[~problem.s[known]]).mean() for found in (other, first)]
    assert right[1] > right[0] + 0.1, "stripes show little of the digits"


def test_what_changes_a_fingerprint(package_copy: Path) -> None:
    root = package_copy / "pucl"
    cells = [cells_of()[0], cells_of(objectives=["punce"], prior="bbe")[0], baseline("nnpu", prior="oracle")]

    def codes() -> list[str]:
        sources = Sources(root)
        return [*map(sources.code_of, cells), *(sources.encoder_code_of(encoder_of(cell)) for cell in cells[:2])]

    before = codes()
    for part, changed in (  # pupl on puCL, puPL on puNCE with BBE, nnPU; the encoders of the two
        ("cli.py", [0, 0, 0, 0, 0]),
        ("bench/pages/tables.py", [0, 0, 0, 0, 0]),
        ("losses/mine.py", [0, 0, 0, 0, 0]),
        ("losses/dcl.py", [0, 0, 0, 0, 0]),
        ("losses/pucl.py", [1, 0, 0, 1, 0]),
        ("losses/partition.py", [1, 1, 1, 1, 1]),
        ("bench/run/stages.py", [1, 1, 1, 0, 0]),
        ("bench/run/problem.py", [1, 1, 1, 1, 1]),
        ("priors/bbe.py", [1, 1, 1, 0, 1]),
        ("ranking/prior.py", [0, 1, 0, 0, 1]),
        ("heads/finetune.py", [0, 0, 0, 0, 0]),
        ("baselines/nnpu.py", [0, 0, 1, 0, 0]),
        ("baselines/upu.py", [0, 0, 1, 0, 0]),  # which nnPU imports
        ("baselines/vpu.py", [0, 0, 0, 0, 0]),
    ):
        with (root / part).open("a") as file:
            file.write("changed = True\n")
        after = codes()
        assert [int(a != b) for a, b in zip(after, before, strict=True)] == changed, part
        before = after


def test_words_about_code_are_no_code() -> None:
    source = '''"""A file."""

import os  # for a name


class A:
    """A."""

    text = """kept

    # as it is"""

    def f(self, b: int) -> str:
        r"""Of b.

        More of it.
        """
        # none of this
        return f"{b} # {os.name}"

    def g(self): """In a line."""; return 1
'''
    expected = '''import os
class A:
    text = """kept

    # as it is"""
    def f(self, b: int) -> str:
        return f"{b} # {os.name}"
    def g(self): """In a line."""; return 1'''
    assert bare(source) == expected
    ast.parse(bare(source))


FAKE = """
import json, os, sys
how = json.loads(sys.stdin.readline())
for row in sys.stdin:
    for cell in json.loads(row):
        if cell["die"]:
            os._exit(3)
        print(json.dumps({"key": cell["key"], "line": {"n": cell["n"], "threads": os.environ["OMP_NUM_THREADS"]}}))
    print(flush=True)
"""


def test_a_worker_that_dies_fails_its_cells_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake_worker.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # somebody's own number would be kept
    monkeypatch.setattr(crew, "MODULE", "fake_worker")
    for module in (crew, work):
        monkeypatch.setattr(module, "key_of", lambda cell: cell["key"])
    todo: list[list[Config]] = [[{"key": f"{n}{part}", "n": n, "die": n == 2} for part in "ab"] for n in range(6)]
    team = crew.Crew(2, {})
    found = list(team.run(todo))
    assert sorted(o.key for o in found) == sorted(cell["key"] for unit in todo for cell in unit)
    assert {o.key: o.failed for o in found if o.failed} == dict.fromkeys(
        ["2a", "2b"], "the worker ended with code 3 in the middle of it"
    )
    assert {o.line["threads"] for o in found if o.line} == {"1"}
    assert all(process.poll() is not None for process in team._alive)


# Stored results


def test_half_a_line_is_dropped_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = [line_of(baseline()), line_of(baseline(seeds=[1]))]
    write_results(path, lines)
    whole = path.read_bytes()
    for rest in (b'{"key": "ab', b'{"key": "ab\n', b"\x00\xff"):
        path.write_bytes(whole + rest)
        assert read_results(path) == lines
        with writing(path) as writer:
            writer.add(line_of(baseline(seeds=[2])))
        assert [line["config"]["seed"] for line in read_results(path)] == [0, 1, 2]
        path.write_bytes(whole)
    path.write_bytes(whole[:-1])  # cut at the very end: the line is whole
    with writing(path) as writer:
        writer.add(line_of(baseline(seeds=[2])))
    assert len(read_results(path)) == 3


def test_damage_elsewhere_is_an_error(tmp_path: Path) -> None:
    path, line = tmp_path / "r.jsonl", line_of(baseline())
    text = json.dumps(line)
    tampered = json.dumps({**line, "config": {**line["config"], "seed": 7}})
    for content, words in (
        (f"{text[:40]}\n{text}\n", "line 1, must be a result of 'pucl bench run'; got not JSON"),
        (f"{text}\n{{}}\n", "line 2, must be a result of 'pucl bench run'; got no line of"),
        (f"{tampered}\n", "got a configuration that its key does not belong to"),
        (
            f"{text}\n{json.dumps({**line, 'time': 3})}\n",
            "line 2, must be a result of 'pucl bench run'; got no line of",
        ),
        (f"{text}\n{json.dumps({**line, 'metrics': {}})}\n", "got metrics without an accuracy"),
        (f"{text}\n{json.dumps({**line, 'metrics': {'accuracy': float('nan')}})}\n{text}\n", "got not JSON"),
        (f"{json.dumps({**line, 'config': {}, 'key': key_of({})})}\n", "got a configuration that is no cell's"),
        ("some words\n", "line 1, must be a result of 'pucl bench run'; got not JSON"),
        ("[block]\nseeds = 1\n", "line 1, must be a result of 'pucl bench run'; got not JSON"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=re.escape(words)):
            read_results(path)
        with pytest.raises(InputError, match=re.escape(words)), writing(path):
            pass
        assert path.read_text() == content, "what is refused stays as it is"


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with writing(path), pytest.raises(RunError, match="another process is writing to"), writing(path):
        pass
    assert not path.exists(), "an empty file is left"


def test_a_file_that_is_replaced_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, first, lock = tmp_path / "r.jsonl", line_of(baseline()), store._lock

    def late(path: Path, handle: int) -> None:
        monkeypatch.setattr(store, "_lock", lock)
        write_results(path, [first])  # a merge that ends between opening and locking
        lock(path, handle)

    monkeypatch.setattr(store, "_lock", late)
    with writing(path) as writer:
        writer.add(line_of(baseline(seeds=[1])))
    assert [line["config"]["seed"] for line in read_results(path)] == [0, 1]


def test_a_merge_writes_through_a_link(tmp_path: Path) -> None:
    link, behind = tmp_path / "link.jsonl", tmp_path / "behind.jsonl"
    link.symlink_to(behind)
    write_results(link, [line_of(baseline())])
    assert link.is_symlink() and len(read_results(behind)) == 1


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "r.jsonl"
    write_results(path, [line_of(baseline())])
    with writing(path) as writer:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(RunError, match=r"cannot write to .*r\.jsonl: No space left on device; choose another file"):
            writer.add(line_of(baseline(seeds=[1])))
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        write_results(path, [])
    assert len(read_results(path)) == 1


def test_merging_two_machines() -> None:
    a, b, c = (baseline(seeds=[seed]) for seed in range(3))
    here = [line_of(a), line_of(b, time="2026-01-03T00:00:00+00:00", accuracy=80.0)]
    there = [
        line_of(b, time="2026-01-02T00:00:00+00:00", accuracy=81.0),  # the same code, other numbers
        line_of(c, time="2026-01-04T00:00:00+00:00"),
        line_of(a, time="2026-01-05T00:00:00+00:00", code="newer", accuracy=70.0),
    ]
    first, second = merge([here, there]), merge([there, here])
    assert first == second and len(first.lines) == 3 and first.dropped == 2
    assert {line["config"]["seed"]: line["metrics"]["accuracy"] for line in first.lines} == {0: 70.0, 1: 80.0, 2: 90.0}
    assert first.conflicts == [key_of(b)]
    again = merge([first.lines, here])
    assert again.lines == first.lines and again.dropped == 2


# Tables


def results() -> list[Config]:
    """Made up: puCL(puPL) and puCL(auto) on two seeds of fmnist1 and cifar1, a ceiling, nnPU, and an older recipe."""
    paper: dict[str, Any] = {**SMALL, "tasks": ["fmnist1"], "n_labelled": [1000]}

    def cells(recipe: str, tops: list[str], seeds: list[int], **changes: Any) -> list[Config]:
        numbers = {**RECIPE, "view": "simclr", "epochs": changes.pop("epochs", 300)}
        block = {"objectives": ["pucl"], "encoder": "lenet5", "tops": tops, "seeds": seeds, "recipes": [recipe]}
        return Grid("t", {**paper, "recipe": {recipe: numbers}, "block": [{**block, **changes}]}).cells()

    lines = [line_of(c, accuracy=v) for c, v in zip(cells("paper", ["pupl"], [0, 1, 2]), (50, 52, 57), strict=True)]
    lines += [line_of(c, accuracy=v) for c, v in zip(cells("improved", ["auto"], [0, 1]), (92.0, 93.0), strict=True)]
    lines += [line_of(c, accuracy=60.0, time="2025-01-01") for c in cells("improved", ["auto"], [0], epochs=10)]
    lines += [line_of(c, accuracy=95.0) for c in cells("improved", ["ceiling"], [0])]
    lines += [line_of(c, accuracy=94.0) for c in cells("improved", ["auto"], [4], encoder="cnn7bn")]
    (nnpu,) = Grid(
        "t",
        {"tasks": ["fmnist1"], "n_labelled": 1000, "seeds": 0,
         "block": [{"methods": "nnpu", "encoder": "lenet5", "prior": "oracle"}]},
    ).cells()  # fmt: skip
    return [*lines, line_of(nnpu, accuracy=88.0, code="other")]


def test_a_table_computed_by_hand() -> None:
    table = make_table("pu-benchmark-1", results(), lambda _: "c0de")
    assert table.older == 1 and table.commits == ("abc",) and len(table.columns) == 12
    rows = {(row.label.method, row.label.recipe): row for row in table.rows}
    column = ("fmnist1", 1000)
    literal = rows["puCL(puPL)", "paper"].entries[column]
    assert literal.mean == pytest.approx(53.0) and literal.std == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert literal.published is not None and literal.published.accuracy == 91.8
    assert literal.difference == pytest.approx(53 - 91.8)
    improved = rows["puCL(auto)", "improved"].entries[column]
    assert improved.values == {0: 92.0, 1: 93.0} and improved.difference == pytest.approx(92.5 - 91.8)
    other = rows["puCL(auto)", "improved, cnn7bn"].entries[column]
    assert other.best and other.mean == 94.0 and other.std is None and other.p_value is None
    # The best row has one seed, so that others are compared with the best of those that have more.
    assert improved.p_value is None and literal.p_value == pytest.approx(2 / np.pi * np.arctan(1 / 83), rel=1e-6)
    nnpu = rows["nnPU", "–"]
    assert nnpu.label.prior == "oracle" and nnpu.entries[column].difference == pytest.approx(88 - 89.7)
    assert nnpu.entries[column].other_code and not literal.other_code
    assert nnpu.entries["cifar1", 1000].values == {} and nnpu.entries["cifar1", 1000].published is not None
    assert rows["uPU", "published"].label.prior == "oracle" and rows["PAN", "published"].label.prior == "none"
    ceiling = rows["puCL(ceiling)", "improved"]
    assert ceiling.reference and not ceiling.entries[column].best and table.rows[-1] is ceiling
    assert [row.label.method for row in table.rows][:2] == ["uPU", "nnPU"]


def test_the_paired_test() -> None:
    lines = [line for line in results() if line["config"].get("encoder") != "cnn7bn"]
    table = make_table("pu-benchmark-1", lines)
    rows = {row.label.method: row.entries.get(("fmnist1", 1000)) for row in table.rows}
    best, literal = rows["puCL(auto)"], rows["puCL(puPL)"]
    assert best is not None and best.best and best.p_value is None and literal is not None
    # Differences 42 and 41 over seeds 0 and 1: t = 41.5 / (√½ / √2) = 83 with one degree of freedom.
    assert literal.p_value == pytest.approx(2 / np.pi * np.arctan(1 / 83), rel=1e-6)
    assert paired_p({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}) == 0.0 and paired_p({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}) == 1.0
    assert paired_p({0: 1.0, 1: 2.0}, {1: 1.0, 2: 2.0}) is None
    assert best.held_to and not literal.held_to
    a, b = {0: 1.0, 1: 2.0, 2: 4.0, 3: 0.0}, {0: 0.5, 1: 2.5, 2: 3.0, 4: 9.0}
    assert paired_p(a, b) == pytest.approx(ttest_rel([1.0, 2.0, 4.0], [0.5, 2.5, 3.0]).pvalue)


def test_the_forms_of_a_table() -> None:
    table = make_table("pu-benchmark-1", results(), lambda _: "c0de")
    text = write(table, "text")
    assert "53.00 ± 3.61 (3)" in text and "[91.8 -38.80]" in text and "88.00 (1)*" in text and "[89.7† -1.70]" in text
    assert "92.50 ± 0.71 (2)‡" in text and "93.50 ± 0.71 (2)‡" not in text and "against ‡" in text
    assert "* Made by other code" in text and "1 results of older configurations" in text
    markdown = write(table, "markdown")
    assert "| puCL(auto) | improved, cnn7bn | none | **94.00 (1)**<br>[91.8 +2.20] | –<br>[89.2] |" in markdown
    widths = {line.count("|") for line in markdown.splitlines() if line.startswith("|")}
    assert widths == {10}
    rows = list(csv.DictReader(io.StringIO(write(table, "csv"))))
    (found,) = (
        row for row in rows if row["method"] == "puCL(puPL)" and (row["task"], row["n_labelled"]) == ("fmnist1", "1000")
    )
    assert (found["mean"], found["std"], found["seeds"], found["published"]) == ("53.0", "3.6056", "3", "91.8")
    assert (
        found["difference"] == "-38.8"
        and found["prior"] == "none"
        and float(found["p_value"]) == pytest.approx(0.00766975)
    )
    latex = write(table, "latex")
    assert latex.count(r"\begin{tabular}{lllrrrrrr}") == latex.count(r"\end{tabular}") == 2
    assert r"53.00 $\pm$ 3.61 (3); [91.8 -38.80]" in latex and r"\textbf{94.00 (1); [91.8 +2.20]}" in latex
    assert not re.search("[±†–]", latex.split("% Accuracy")[0])
    for form in ("text", "markdown", "latex"):
        assert "–" in write(make_table("weak-supervision-knn", []), form).replace("--", "–")
    with pytest.raises(InputError, match="unknown format 'html'"):
        write(table, "html")


def test_the_other_tables() -> None:
    cells = cells_of(tasks=["mnist1"], n_labelled=[1000], encoder="mlp", tops=["knn"], seeds=[0, 1])
    table = make_table("weak-supervision-knn", [line_of(cell, accuracy=95.24) for cell in cells])
    (row,) = (row for row in table.rows if row.label.method == "puCL")
    assert row.entries["mnist1", 1000].difference == pytest.approx(1.0) and row.entries["mnist1", 1000].best
    cells = cells_of(objectives=["scl_pu"], tasks=["cifar1"], n_labelled=[1000], encoder="cnn7", tops=["nnpu", "auto"])
    table = make_table("downstream-head", [line_of(cell) for cell in cells])
    found = {row.label.method: row.entries.get(("cifar1", 1000)) for row in table.rows}
    numbers = {name: entry.published.accuracy for name, entry in found.items() if entry and entry.published}
    assert numbers["pu-sCL/nnPU"] == 88.4 and numbers["pu-sCL/auto"] == 90.1 and numbers["puCL/puPL"] == 92.3
    assert make_table("pu-benchmark-2", results()).older == 0
    with pytest.raises(InputError, match="unknown table 'pu-benchmark': did you mean"):
        make_table("pu-benchmark", [])


def test_published_numbers_are_the_reference() -> None:
    assert sum(len(published(table)) for table in TABLES) == 260
    assert published("pu-benchmark-1")["puNCE(puPL)", ("cifar2", 1000)].accuracy == 93.8


# The leaderboard


def test_the_leaderboard_is_what_the_results_say() -> None:
    path = ROOT / "results" / "benchmark.jsonl"
    page = leaderboard(read_results(path, missing_ok=True), read_goals(ROOT / "paper" / "reach.toml"))
    assert (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8") == page, "run 'pucl bench leaderboard'"


def test_a_ranking_without_priors() -> None:
    page = leaderboard(results())
    assert page == leaderboard(list(reversed(results())))
    ranking = page.split("### fmnist1, 1,000 labelled")[1]
    assert ranking.split("\n")[4:7] == [
        "| 1 | puCL(auto) | improved, cnn7bn | pipeline | 94.00 (1) |",
        "| 2 | puCL(auto) | improved, lenet5 | pipeline | 92.50 ± 0.71 (2) |",
        "| 3 | puCL(puPL) | paper, lenet5 | pipeline | 53.00 ± 3.61 (3) |",
    ]
    assert "nnPU" not in ranking and "ceiling" not in ranking
    assert "No results are stored yet." in leaderboard([])


def test_who_learns_from_the_truth_competes_with_nobody() -> None:
    (config,) = [line["config"] for line in results() if line["config"]["encoder"] == "cnn7bn"]
    told = {**config, "top": "mine", "head": "knn_probe"}
    taught = {**config, "top": "student", "labeller": "teacher", "teacher": {"labeller": "truth", "encoder": "cnn7"}}
    fair = {**config, "top": "pupil", "labeller": "teacher", "teacher": {"labeller": "auto", "encoder": "cnn7"}}
    assert is_reference(told) and is_reference(taught) and not is_reference(fair)
    page = leaderboard([line_of(cell, accuracy=99.0) for cell in (told, taught, fair)])
    ranking = page.split("### fmnist1, 1,000 labelled")[1]
    assert "puCL(pupil) | improved, cnn7bn, taught by cnn7 |" in ranking
    assert "mine" not in ranking and "student" not in ranking


def test_a_baseline_that_is_not_registered_here() -> None:
    config = {**baseline("naive"), "method": "theirs"}
    page = leaderboard([line_of(config, accuracy=77.0), line_of({**config, "task": "fmnist1", "n_labelled": 1000})])
    assert "| 1 | theirs |" in page and "| theirs | raw | none |" in page


def test_a_part_of_a_table_has_our_rows_and_one_for_other_published_methods() -> None:
    parts = write(make_table("pu-benchmark-1", results()), "markdown").split("\n\n")
    first, second = (re.findall(r"^\| (puCL\S*|puNCE\S*) \| ([^|]*) \|", part, re.M) for part in parts[:2])
    assert first == [("puCL(puPL)", "paper"), ("puCL(auto)", "improved"), ("puCL(auto)", "improved, cnn7bn"),
                     ("puNCE(puPL)", "published"), ("puCL(ceiling)", "improved")]  # fmt: skip
    assert second == [("puCL(puPL)", "paper"), ("puNCE(puPL)", "published")]


def test_names_of_rows_do_not_break_a_form() -> None:
    lines = [line_of({**line["config"], "recipe_name": "a&b_50%|#{x"}) for line in results()]
    table = make_table("pu-benchmark-1", lines)
    assert r"a\&b\_50\%|\#\{x" in write(table, "latex") and r"a&b_50%\|#{x" in write(table, "markdown")


def test_goals_beside_their_ceilings(tmp_path: Path) -> None:
    path = tmp_path / "reach.toml"
    block = '[[goal]]\ntasks = ["fmnist1"]\nn_labelled = 1000\nrecipe = "improved"\n'
    path.write_text(
        f'{block}encoder = "lenet5"\ntop = "auto"\nceiling = "ceiling"\n{block}encoder = "cnn7bn"\ntop = "auto"\n'
        f'goal = 93.5\n{block}encoder = "lenet5"\ntop = "finetune"\nceiling = "ceiling"\n'
    )
    rows = leaderboard(results(), read_goals(path)).split("told every label | gap |")[1].split("\n")[2:5]
    assert rows == [  # the paper's puNCE has 92.1 there
        "| fmnist1 | 1,000 | lenet5 | improved, auto | 92.50 ± 0.71 (2) | 92.1 | +0.40 | 95.00 (1) | -2.50 |",
        "| fmnist1 | 1,000 | cnn7bn | improved, auto | 94.00 (1) | 93.5 | +0.50 | – | – |",
        "| fmnist1 | 1,000 | lenet5 | improved, finetune | – | 92.1 | – | 95.00 (1) | – |",
    ]
    path.write_text('[[goal]]\ntasks = "digits"\nn_labelled = 100\nmethod = "naive"\ngoal = 50\n')
    blind = {**baseline("naive"), "prior": None}
    lines = [line_of({**blind, "seed": seed}, accuracy=60.0 + seed) for seed in (0, 1)]
    lines.append(line_of({**blind, "prior": "oracle"}, accuracy=99.0))  # is told π: none of these
    page = leaderboard(lines, read_goals(path))
    assert "| digits | 100 | – | naive | 60.50 ± 0.71 (2) | 50 | +10.50 | – | – |" in page
    knn = Goal("mnist1", 1000, "mlp", "improved", "knn")
    assert knn.accuracy == published("weak-supervision-knn")["puNCE", ("mnist1", 1000)].accuracy
    cifar3 = Goal("cifar3", 1000, "cnn13", "improved", "auto")  # in two tables of the paper
    assert cifar3.accuracy == published("pu-benchmark-2")["puNCE(puPL)", ("cifar3", 1000)].accuracy
    assert Goal("digits", 100, "mlp", "improved", "knn").accuracy is None
    path.write_text(f'{block}top = "auto"\nceilings = "ceiling"\n')
    with pytest.raises(InputError, match="--goals.*ceilings, encoder missing or unknown"):
        read_goals(path)
    with pytest.raises(InputError, match=r"nothing\.toml"):
        read_goals(tmp_path / "nothing.toml")


def test_names_are_for_people() -> None:
    assert name_of(cells_of()[0]) == "digits 100 seed 0 pucl+pupl (quick, small_cnn)"
    assert name_of(baseline("nnpu", prior="oracle")) == "digits 100 seed 0 nnpu (raw, prior oracle)"
    assert sys.getsizeof(key_of(baseline())) and len(key_of(baseline())) == 16


def test_the_page_of_the_baselines_is_what_the_results_say() -> None:
    lines = read_results(ROOT / "results" / "benchmark.jsonl", missing_ok=True)
    page = baselines_page(lines, read_notes(ROOT / "paper" / "notes.toml"))
    assert (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8") == page, "run 'pucl bench baselines'"
    assert "not explained yet" not in page
    for name in entries("baselines"):
        assert f"\n### {name}\n\n" in page and f"| `{name}` |" in page


def test_the_page_of_the_baselines_marks_what_is_not_near_the_paper() -> None:
    made = [line for line in results() if line["config"].get("method") == "nnpu"]
    assert made, "the invented results have a baseline"
    config = {**baseline("nnpu", tasks=["cifar1"], n_labelled=1000, prior="oracle", encoder="cnn7"), "seed": 0}
    far = {**made[0], "config": config, "key": key_of(config), "metrics": {"accuracy": 80.0}, "seconds": 7.4}
    near = {**far, "metrics": {"accuracy": 83.0}}
    assert "| 84.7 ± 2.4 | 80.00 (1) [1] | 7 |" in baselines_page([far], {"cifar1": {"nnpu": "because"}})
    assert "1. **nnPU, CIFAR-I**: because" in baselines_page([far], {"cifar1": {"nnpu": "because"}})
    assert "1. **nnPU, CIFAR-I**: not explained yet" in baselines_page([far], {})
    assert "| 84.7 ± 2.4 | 83.00 (1) | 7 |" in baselines_page([near], {})
    shorter = {**config, "settings": {**config["settings"], "epochs": 7, "gamma": 0.5}}
    other = {**near, "config": shorter, "key": key_of(shorter), "time": "2027-01-01T00:00:00+00:00"}
    page = baselines_page([other], {})
    assert "| 84.7 ± 2.4 | 83.00 (1) [1] | 7 |" in page
    assert "1. **nnPU, CIFAR-I**: Run with epochs = 7 instead of 100, gamma = 0.5 instead of 1.0.\n" in page
    assert "Run with" not in baselines_page([near, other], {})  # the preset goes before what was run later
    for change in ({"prior": "bbe"}, {"encoder": "cnn13"}, {"setting": "single-set"}):  # later, but not as published
        elsewhere = {**config, **change}
        late = {**far, "config": elsewhere, "key": key_of(elsewhere), "time": "2027-01-01T00:00:00+00:00"}
        assert baselines_page([near, late], {}) == baselines_page([near], {})
    far_off = {**other, "metrics": {"accuracy": 50.0}}
    for lines in ([near, far_off], [far_off, near]):
        rows = {row.label.method: row for row in make_table("pu-benchmark-1", lines).rows}
        assert rows["nnPU"].entries["cifar1", 1000].mean == near["metrics"]["accuracy"]


def test_notes_name_tasks_and_methods_that_exist(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    path.write_text('[cifar1]\nnnpuu = "x"\n', encoding="utf-8")
    with pytest.raises(InputError, match="cifar1: unknown baselines 'nnpuu': did you mean 'nnpu'"):
        read_notes(path)


def test_supervised_is_naive_with_the_truth(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "cpu", "abc")
    cells = [baseline("supervised"), baseline("naive")]
    (told,), (blind,) = (list(bench.run([cell])) for cell in cells)
    assert is_reference(cells[0]) and not is_reference(cells[1])
    assert told.line is not None and blind.line is not None
    assert told.line["metrics"]["accuracy"] > blind.line["metrics"]["accuracy"] + 20
    line = line_of({**cells[0], "task": "fmnist1", "n_labelled": 1000})
    rows = {row.label.method: row for row in make_table("pu-benchmark-1", [line]).rows}
    row = rows["supervised"]
    assert row.reference and not row.entries["fmnist1", 1000].best


TAUGHT: dict[str, Any] = {
    "labeller": "teacher", "head": "finetune", "teacher": {"encoder": "small_cnn", "recipe": "quick", "top": "auto"},
    "head_options": {"renew": False, "soft": True, "epochs": 2},
}  # fmt: skip


@pytest.mark.usefixtures("one_draw")
def test_a_cell_learns_from_a_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {**SMALL, "top": {"taught": TAUGHT}}
    block = {"objectives": ["pucl"], "encoder": "mlp", "recipes": ["quick"], "tops": ["taught"]}
    (cell,) = Grid("small", {**content, "block": [block]}).cells()
    assert cell["encoder"] == "mlp" and cell["teacher"]["encoder"] == "small_cnn" and cell["prior"] is None
    assert cell["teacher"]["recipe"]["epochs"] == 1 and cell["head_options"]["soft"] is True
    (told,) = Bench(tmp_path, "cpu", "here").run([cell])
    assert told.line is not None, told.failed
    assert told.line["metrics"]["accuracy"] > 55 and "pseudo_label_accuracy" in told.line["metrics"]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2, "both encoders are kept"
    other = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "top": "pupl"}}
    (changed,) = Grid("small", {**content, "top": {"taught": other}, "block": [block]}).cells()
    assert key_of(changed) != key_of(cell)
    named = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "encoder": {"digits": "small_cnn"}}}
    (same,) = Grid("small", {**content, "top": {"taught": named}, "block": [block]}).cells()
    assert key_of(same) == key_of(cell), "an encoder may be named by task"
    matched = {**TAUGHT, "head_options": {**TAUGHT["head_options"], "match": True, "mixup": 1.0}}
    (asked,) = Grid("small", {**content, "top": {"taught": matched}, "block": [block]}).cells()
    (closer,) = Bench(tmp_path, "cpu", "here").run([asked])
    assert closer.line is not None, closer.failed
    assert closer.line["metrics"]["accuracy"] != told.line["metrics"]["accuracy"], "asked about views"
    own = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "encoder": "mlp"}}
    both = Grid("small", {**content, "top": {"taught": own}, "block": [{**block, "tops": ["auto", "taught"]}]}).cells()
    (unit,) = units(both)
    with monkeypatch.context() as patched:
        tops: list[str] = []

        def watched(cell: Config, *given: Any) -> Any:
            tops.append(cell["top"])
            return fit_top(cell, *given)

        patched.setattr("pucl.bench.run.work.fit_top", watched)
        again = list(Bench(tmp_path, "cpu", "here").run(unit))
    assert all(one.line is not None for one in again) and tops == ["auto", "taught"], "its teacher is there already"
    oracle = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "top": "nnpu"}}
    (spoilt,) = Grid("small", {**content, "top": {"taught": oracle}, "block": [block]}).cells()
    assert spoilt["prior"] == "oracle", "what the teacher was told, the pupil was told"


def test_an_encoder_is_not_told_of_withheld_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def watched(x: Any, s: Any, **how: Any) -> Any:
        seen.append(np.asarray(s))
        return pretrain(x, s, **how)

    def labelled(z: Any, s: Any, **how: Any) -> Any:
        seen.append(how["told"])
        return pseudo_label(z, s, **how)

    monkeypatch.setattr("pucl.bench.run.encoding.pretrain", watched)
    monkeypatch.setattr("pucl.bench.run.stages.pseudo_label", labelled)
    recipe = {**RECIPE, "withheld": 0.4}
    cells = Grid("small", {**SMALL, "recipe": {"quick": recipe}}).cells()
    (done,) = Bench(tmp_path, "cpu", "here").run(cells)
    assert done.line is not None, done.failed
    posed, _ = pose(cells[0])
    assert len(seen) == 2 and (seen[0] == seen[1]).all() and seen[0].sum() == 60
    assert not (seen[0] & ~posed.s).any()
    (plain,) = Grid("small", SMALL).cells()
    assert "withheld" not in plain["recipe"] and key_of(plain) != key_of(cells[0])
    with pytest.raises(InputError, match=re.escape("withheld must be a number strictly between 0 and 1; got 1")):
        Grid("small", {**SMALL, "recipe": {"quick": {**RECIPE, "withheld": 1}}}).cells()


@pytest.mark.usefixtures("one_draw")
def test_heads_by_a_risk_take_withheld_rows_for_positives() -> None:
    (cell,) = cells_of(tops=["nnpu_auto"])
    posed, exam = pose(cell)
    frozen = Frozen(raw_encoder(torch.as_tensor(posed.x)), posed, "cpu", withheld=0.5)
    own, z = frozen.sample()
    assert own.s.sum() == 50 and len(own.x) == len(posed.x) - 50 == len(z)
    fitted = fit_top(cell, frozen, exam)
    assert fitted.told == pytest.approx(estimate_prior(z, own.s, seed=0).value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": {"encoder": "mlp"}}, "teacher must be a table with encoder, recipe, top"),
        ({"teacher": {**TAUGHT["teacher"], "tops": "x"}}, "did you mean 'top'"),
        ({"teacher": {**TAUGHT["teacher"], "recipe": "slow"}}, "small: unknown recipe 'slow'"),
        ({"teacher": {**TAUGHT["teacher"], "encoder": {"cifar1": "cnn7"}}}, "a name, or a table with one for 'digits'"),
        ({"labeller": "auto"}, "teacher must be a table, with the labeller 'teacher' only"),
        (
            {"labeller": "auto", "teacher": None, "head_options": {"match": True}},
            "match must be given with the labeller 'teacher' only; got True",
        ),
    ],
)
def test_bad_teachers(change: dict[str, Any], message: str) -> None:
    block = {"objectives": ["pucl"], "encoder": "mlp", "recipes": ["quick"], "tops": ["taught"]}
    taught = {key: value for key, value in {**TAUGHT, **change}.items() if value is not None}
    with pytest.raises(InputError, match=re.escape(message)):
        Grid("small", {**SMALL, "top": {"taught": taught}, "block": [block]}).cells()
