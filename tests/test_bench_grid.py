"""Grids: products of lists, what is wrong in them, teachers, and which cells --only keeps."""

import re
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.grid.cells import Cell, units
from pucl.bench.grid.grid import Grid, read_grid
from pucl.bench.pages.tables import make_table
from pucl.bench.results.published import ENCODERS, METHODS, TABLES, published
from pucl.bench.run.runner import select
from pucl.errors import InputError
from pucl.registry import entries

from bench_examples import SMALL, TAUGHT, baseline, cells_of, line_of
from conftest import ROOT


def test_a_grid_is_the_product_of_its_lists() -> None:
    cells = cells_of(objectives=["sscl", "punce"], seeds=[0, 1, 2], n_labelled=[50, 100], readouts=["pupl", "nnpu"])
    assert len(cells) == 2 * 3 * 2 * 2 == len({cell.key for cell in cells})
    assert len(units(cells)) == 2 * 3 * 2  # an encoder for every objective, seed and number of labels
    assert {len(unit) for unit in units(cells)} == {2}
    assert len(cells_of(seeds=[0, 0])) == 1


def test_only_what_needs_a_prior_is_given_one() -> None:
    cells = cells_of(objectives=["pucl", "punce"], readouts=["pupl", "nnpu"], prior="auto")
    given = {(c.objective, c.readout.name): (c.encoder_prior, c.readout.prior, c.prior) for c in cells}
    assert given == {
        ("pucl", "pupl"): (None, None, None),
        ("pucl", "nnpu"): (None, "oracle", "oracle"),
        ("punce", "pupl"): ("auto", None, "auto"),
        ("punce", "nnpu"): ("auto", "oracle", "oracle"),
    }
    assert [c.prior for c in cells_of(objectives=["punce"], prior={"punce": "oracle"})] == ["oracle"]
    assert baseline(prior="oracle").prior is None and baseline("nnpu", prior="oracle").prior == "oracle"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = ['digits']", "g.toml: unknown key 'task': did you mean 'tasks'? known: "),
        ("[[block]]\nobjective = ['pucl']", "g.toml: a [[block]]: unknown key 'objective': did you mean 'objectives'?"),
        ("[[block]]\nmethods = ['naive']\nreadouts = ['pupl']", "g.toml: a [[block]]: unknown key 'readouts'"),
        ("[[block]]\nseeds = [0]", "a [[block]] must be one with 'objectives' or 'methods'; got neither"),
        ("seeds = [0]", "g.toml: [[block]] must be given at least once; got none"),
        ("[recipe.r]\nepoch = 3", "unknown option of recipe 'r' 'epoch': did you mean 'epochs'?"),
        ("[recipe.r]\nepochs = 3", "recipe 'r': view must be the name of a view"),
        ("[recipe.r]\nview = 'simclr'\nepochs = 0", "epochs must be a whole number ≥ 1; got 0"),
        ("[recipe.r]\nview = 'simclr'\nseed = 0", "unknown option of recipe 'r' 'seed'"),
        ("[recipe.r]\nview = 'simclr'\nview_options = {scal = 1}", "unknown option of view 'simclr' 'scal'"),
        ("[recipe.r]\nview = 'simclr'\ntask = {digit = {}}", "unknown data set 'digit': did you mean 'digits'?"),
        ("[readout.t]\nhead = 'linear'", "readout 't': labeller must be given with the head 'linear'; got None"),
        ("[readout.t]\nhead = 'baseline'", "head 'baseline': method must be the name of a baseline; got None"),
        (
            "[readout.t]\nhead = 'baseline'\nhead_options = {method = 'vpuu'}",
            "unknown baseline 'vpuu': did you mean 'vpu'",
        ),
        (
            "[readout.t]\nhead = 'baseline'\nhead_options = {method = 'vpu', wait = 1}",
            "unknown option of head 'baseline' 'wait': did you mean 'weight'?",
        ),
        (
            "[readout.t]\nhead = 'baseline'\nlabeller = 'pupl'\nhead_options = {method = 'vpu'}",
            "readout 't': labeller must be left out with the head 'baseline'",
        ),
        ("[readout.t]\nhead = 'linea'\nlabeller = 'auto'", "unknown head 'linea': did you mean 'linear'?"),
        ("[readout.t]\nlabel = 'auto'", "g.toml: readout 't': unknown key 'label': did you mean 'labeller'?"),
        (
            "[readout.t]\nhead = 'nnpu'\nprior = 'oracl'",
            "g.toml: readout 't': unknown prior 'oracl': did you mean 'oracle'?",
        ),
        ("tasks = ['digts']", "unknown data set 'digts': did you mean 'digits'?"),
        ("seeds = [-1]", "seeds must be a whole number from 0 to 4294967295; got -1"),
        ("n_labelled = 2.5", "n_labelled must be a whole number ≥ 1; got 2.5"),
        ("setting = 'both'", "g.toml: unknown setting 'both'"),
        ("readouts = ['pup']", "unknown readout 'pup': did you mean 'pupl'?"),
        ("recipes = ['s']", "g.toml: unknown recipe 's'"),
        ("encoder = {cifar1 = 'cnn7'}", "encoder must be a name, or a table with one for 'digits'"),
        ("encoder = 'cnn8'", "unknown encoder 'cnn8': did you mean 'cnn7'?"),
        ("seeds = ", "g.toml cannot be read: "),
    ],
)
def test_what_is_wrong_in_a_grid_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    defaults = {
        "tasks": "['digits']", "n_labelled": "[100]", "seeds": "[0]", "encoder": "'small_cnn'", "readouts": "['pupl']",
        "recipes": "['r']",
    }  # fmt: skip
    if "[readout.t]" in text:
        defaults["readouts"] = "['t']"
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["benchmark1", "heads", "weak", "benchmark2", "baselines1", "baselines2", "smoke"])
def test_the_grids_of_the_paper(name: str) -> None:
    path = ROOT / "paper" / f"{name}.toml"
    missing = [m for m in re.findall(r'"(\w+)"', path.read_text()) if m in METHODS and m not in entries("baselines")]
    if missing:
        pytest.skip(f"not there yet: {missing}")
    cells = read_grid(path)
    columns = {column for table in TABLES for _, column in published(table)}
    assert name == "smoke" or {(cell.place.task, cell.place.n_labelled) for cell in cells} <= columns
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
        assert {cell.place.seed for cell in cells} == set(range(5))
    assert set(METHODS.values()) >= {m for m, _ in published("pu-benchmark-2") if "(" not in m}
    assert {task for _, task in ENCODERS} == {task for table in TABLES for _, (task, _) in published(table)}


@pytest.mark.slow
def test_heads_are_cells_of_the_first_benchmark() -> None:
    first, heads = (read_grid(ROOT / "paper" / f"{name}.toml") for name in ("benchmark1", "heads"))
    known = {cell.key for cell in first}
    assert {cell.key for cell in heads} <= known


def test_only() -> None:
    cells: list[Cell] = [*cells_of(objectives=["sscl", "pucl"], seeds=[0, 1, 2], readouts=["pupl", "auto"])]
    assert len(select(cells, [])) == 12
    assert len(select(cells, ["seed=0,2"])) == 8 and len(select(cells, ["seed=1", "pucl+stacked"])) == 1
    assert {cell.name for cell in select(cells, ["readout=auto"])} == {c.name for c in cells if "+stacked" in c.name}
    with pytest.warns(FutureWarning, match="'top' is now called 'readout'"):
        assert select(cells, ["top=auto"]) == select(cells, ["readout=auto"])
    with pytest.raises(
        InputError, match="--only must be text or key=value that matches a cell of the grid; got 'cifar'"
    ):
        select(cells, ["cifar"])
    with pytest.raises(InputError, match="unknown key of --only 'sed': did you mean 'seed'"):
        select(cells, ["sed=1"])


def test_only_takes_numbers_whole() -> None:
    cells: list[Cell] = [*cells_of(objectives=["sscl", "pucl"], seeds=[0, 1, 10, 11, 21], n_labelled=[10, 100, 110])]

    def found(*only: str) -> set[tuple[int, int]]:
        return {(cell.place.seed, cell.place.n_labelled) for cell in select(cells, list(only))}

    numbers = (10, 100, 110)
    assert found("seed 1") == {(1, n) for n in numbers} and found("seed 1", "10 seed") == {(1, 10)}
    assert found("10 seed 1") == {(1, 10)} and found("digits 10") == {(seed, 10) for seed in (0, 1, 10, 11, 21)}
    assert found("0") == {(0, n) for n in numbers} and found("seed 10") == {(10, n) for n in numbers}
    assert found("10") == {(seed, n) for seed, n in found() if 10 in (seed, n)}
    # All else is a part of the name as it is written: of words, before letters, with signs.
    assert len(select(cells, ["igit"])) == len(select(cells, ["small_cnn)"])) == len(select(cells, [""])) == 30
    assert len(select(cells, ["seed 1 p"])) == 3 and len(select(cells, ["seed 1", "pucl+"])) == 3
    for nothing in ("pucl.", "seed 2", "seed  1", "1 see", "SEED 1"):
        with pytest.raises(
            InputError, match=f"--only must be text or key=value that matches a cell of the grid; got {nothing!r}"
        ):
            select(cells, [nothing])
    fashion = Grid("small", {**SMALL, "tasks": ["fmnist1", "fmnist2"]}).cells()
    assert len(select(fashion, ["fmnist"])) == 2 and len(select(fashion, ["fmnist1"])) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": {"encoder": "mlp"}}, "teacher must be a table with encoder, recipe, readout"),
        ({"teacher": {**TAUGHT["teacher"], "readouts": "x"}}, "did you mean 'readout'"),
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
    block = {"objectives": ["pucl"], "encoder": "mlp", "recipes": ["quick"], "readouts": ["taught"]}
    taught = {key: value for key, value in {**TAUGHT, **change}.items() if value is not None}
    with pytest.raises(InputError, match=re.escape(message)):
        Grid("small", {**SMALL, "readout": {"taught": taught}, "block": [block]}).cells()
