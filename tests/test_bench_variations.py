"""What the paper varies: n_U, π inside U, a wrong π, who is labelled, kNN over epochs; on the digits, in seconds."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.bench.grid.cells import Cell, Pipeline, cell_from, units
from pucl.bench.grid.place import Place
from pucl.bench.pages.leaderboard import leaderboard
from pucl.bench.pages.tables import make_table
from pucl.bench.results.store import read_results
from pucl.bench.run.exam import pose
from pucl.bench.run.runner import plan, select, sweep
from pucl.data import load
from pucl.data.observe import observe
from pucl.data.pu_split import make_pu
from pucl.encoders.saved import load_encoder
from pucl.errors import InputError

from bench_examples import RECIPE, SMALL, baseline, cells_in, cells_of, done, line_of, run_unit
from conftest import Command

SWEEPS = """
tasks = ["digits"]
n_labelled = [30, 60]
n_unlabelled = 300
seeds = [0]
encoder = "mlp"
recipes = ["quick"]
readouts = ["knn"]

[recipe.quick]
epochs = 1
batch_size = 256
learning_rate = 4.0
view = "small_image"

[[block]] # λ × γ
objectives = ["mcl"]
objective_options = { mcl = { mixing = [0.0, 0.5, 1.0] } }

[[block]] # π × γ
objectives = ["pucl"]
true_prior = [0.2, 0.7]

[[block]] # told π × γ
objectives = ["punce"]
prior = "oracle"
prior_error = [-0.2, 0.0, 0.2]
"""


@pytest.mark.slow
def test_a_grid_of_what_the_paper_varies_runs_on_the_digits(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.toml").write_text(SWEEPS, encoding="utf-8")
    code, out, err = command("bench", "run", "g.toml", "--results", "r.jsonl", "--device", "cpu")
    assert code == 0 and "16 ran in " in out, out + err
    lines = read_results(tmp_path / "r.jsonl")
    given = {(line.cell.place.n_labelled, line.cell.prior_error): line for line in lines if line.cell.prior == "oracle"}
    true = load("digits").prior
    for (n, error), line in given.items():
        assert line.metrics["encoder_given_prior"] == pytest.approx((1 + error) * true, abs=0.002), n
    assert len(given) == 6 and len({line.metrics["loss"] for line in lines}) == 16
    only = ("--only", "n_unlabelled=300", "--only", "mixing=0.5")
    code, out, _ = command("bench", "run", "g.toml", *only, "--results", "r.jsonl")
    assert code == 0 and "0 ran in 0 s, 2 already there" in out
    for words, count in (("true_prior=0.70", 2), ("prior_error=-0.2", 2), ("n_labelled=30", 8)):
        assert len(select([line.cell for line in lines], [words])) == count, words


def test_a_place_says_what_is_drawn() -> None:
    usual = pose(Place("digits", "case-control", 50, 0))[0]
    few = pose(Place("digits", "case-control", 50, 0, n_unlabelled=200, true_prior=0.25))
    assert (~few[0].s).sum() == 200 and few[0].s.sum() == 50 and few[1].prior("oracle") == 0.25
    assert np.array_equal(few[0].x[:50], usual.x[:50]), "the same rows are labelled"
    data = load("digits", seed=0)
    seen = observe(data, 52, labelled="balanced", seed=0)
    assert data.classes_train is not None
    counts = np.bincount(data.classes_train[seen.sample.rows[:52]], minlength=10)
    assert counts.tolist() == [0, 11, 0, 11, 0, 10, 0, 10, 0, 10]
    assert not np.array_equal(seen.x[:52], observe(data, 52, seed=0).x[:52])


def test_labelled_rows_may_be_in_u_too() -> None:
    y = np.arange(1000) < 400
    sample = make_pu(y, 100, setting="overlapping")
    labelled, unlabelled = sample.rows[sample.s], sample.rows[~sample.s]
    assert sorted(unlabelled) == list(range(1000)) and set(labelled) < set(unlabelled) and sample.prior == 0.4
    some = make_pu(y, 100, setting="overlapping", n_unlabelled=500, prior=0.2)
    assert (~some.s).sum() == 500 and some.prior == 0.2 and 0 < len(set(some.rows[:100]) & set(some.rows[100:])) < 100


def test_what_is_usual_is_not_in_a_key_or_a_name() -> None:
    (plain,) = cells_of()
    same = cells_of(labelled="random", setting="case-control")
    assert same == [plain] and "labelled" not in plain.to_dict() and "prior_error" not in plain.to_dict()
    (other,) = cells_of(n_unlabelled=300, true_prior=0.3, labelled="balanced")
    words = "digits 100 seed 0 n_unlabelled=300 true_prior=0.3 labelled=balanced pucl+pupl (quick, small_cnn)"
    assert other.name == words and other.key != plain.key and other.encoder_cell.key != plain.encoder_cell.key
    assert cells_of(setting="overlapping")[0].name.startswith("digits 100 seed 0 setting=overlapping pucl")
    assert cell_from(json.loads(json.dumps(other.to_dict()))) == other
    (wrong,) = cells_of(objectives=["punce"], prior="oracle", prior_error=[0.1])
    assert wrong.name == "digits 100 seed 0 punce+pupl (quick, small_cnn, prior oracle prior_error=0.1)"
    assert cell_from(json.loads(json.dumps(wrong.to_dict()))) == wrong
    misled = baseline("nnpu", prior="oracle", prior_error=-0.1)
    assert misled.prior_error == -0.1 and cell_from(json.loads(json.dumps(misled.to_dict()))) == misled


def test_only_what_is_given_the_true_prior_can_be_given_a_wrong_one() -> None:
    cells = cells_of(objectives=["pucl"], readouts=["pupl", "nnpu"], prior_error=[0.0, 0.1])
    assert [(cell.readout.name, cell.prior_error) for cell in cells] == [("pupl", 0.0), ("nnpu", 0.0), ("nnpu", 0.1)]
    assert len(units(cells)) == 1, "the encoder is not given it"
    assert len(units(cells_of(objectives=["punce"], prior="oracle", prior_error=[0.0, 0.1]))) == 2


@pytest.mark.slow
def test_a_wrong_prior_reaches_heads_and_baselines(tmp_path: Path) -> None:
    head = cells_of(readouts=["nnpu"], prior_error=0.1)[0]
    method = baseline("nnpu", prior="oracle", prior_error=0.1)
    truth = pose(head.place)[1].prior("oracle")
    assert truth is not None
    for cell in (head, method):
        (outcome,) = run_unit([cell], tmp_path)
        assert done(outcome).metrics["given_prior"] == pytest.approx(1.1 * truth, abs=1e-4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "n_unlabelled = 5000",
            r"digits 100 seed 0 n_unlabelled=5000: n_unlabelled must be .* from 1 to 10\d\d; got 5",
        ),
        ("n_unlabelled = 0", r"g.toml: n_unlabelled must be a whole number ≥ 1; got 0"),
        ("n_unlabelled = []", r"g.toml: n_unlabelled must be one value or a list of some; got \[\]"),
        ("true_prior = 1.0", r"g.toml: true_prior must be a number strictly between 0 and 1; got 1.0"),
        ("true_prior = 0.5\nsetting = 'single-set'", r"g.toml: true_prior must be left out in the single-set setting"),
        ("labelled = 'balancd'", r"g.toml: unknown value of labelled 'balancd': did you mean 'balanced'\?"),
        ("prior_error = 1.5", r"digits 100 seed 0: prior_error must be .* the true one is 0.5\d*; got 1.5"),
        ("prior_error = -1", r"g.toml: prior_error must be a number > -1: .*; got -1"),
        ("prior_error = 0.1\nreadouts = 'pupl'", r"g.toml: prior_error must be left out of a block none of whose"),
        ("knn_every = 0", r"g.toml: knn_every must be a whole number from 1 to 1; got 0"),
        ("knn_every = 2", r"g.toml: knn_every must be a whole number from 1 to 1; got 2"),
        ("setting = 'inside'", r"g.toml: unknown setting 'inside'"),
    ],
)
def test_bad_variations_are_one_line_and_nothing_is_run(
    empty_bench: Command, tmp_path: Path, line: str, message: str
) -> None:
    readouts = "" if "readouts" in line else "readouts = 'nnpu'\n"
    text = (
        f"tasks = 'digits'\nn_labelled = 100\nseeds = 0\n{readouts}[recipe.quick]\nepochs = 1\nview = 'small_image'\n"
    )
    block = f"[[block]]\nobjectives = 'pucl'\nencoder = 'small_cnn'\nrecipes = 'quick'\n{line}\n"
    (tmp_path / "g.toml").write_text(text + block, encoding="utf-8")
    for more in ([], ["--dry-run"]):
        code, out, err = empty_bench("run", "g.toml", *more)
        assert (code, out) == (2, "") and err.count("\n") == 1 and re.search(message, err), err


def test_balance_needs_classes_and_rows_of_unknown_class_have_no_number() -> None:
    with pytest.raises(InputError, match="labelled must be 'random' for the rows of gaussians"):
        observe(load("gaussians"), 10, labelled="balanced")
    y, classes = np.arange(100) < 50, np.arange(100) // 48
    with pytest.raises(InputError, match="small enough for 3 positives of every class; got 2 of class 1"):
        make_pu(y, 6, classes=classes)
    with pytest.raises(InputError, match="classes must be 100 classes, one per row of y"):
        make_pu(y, 6, classes=classes[:3])
    places: list[Cell] = [*cells_of(tasks=["gaussians"], labelled="balanced", encoder="mlp")]
    assert plan(places, []).skipped, "images are wanted there"


# kNN over the epochs


def over_epochs(every: Any, epochs: int = 4, **changes: Any) -> list[Pipeline]:
    content = {**SMALL, "recipe": {"quick": {**RECIPE, "epochs": epochs}}}
    return cells_in({**content, "block": [{**SMALL["block"][0], "knn_every": every, **changes}]})


def test_knn_over_epochs_is_a_cell_each_on_one_encoder() -> None:
    cells = over_epochs([2, 3])
    assert [(cell.readout.name, cell.epoch) for cell in cells] == [
        ("pupl", None), ("knn", None), ("knn", 2), ("knn", 3),
    ]  # fmt: skip
    assert len(units(cells)) == 1 and len({cell.key for cell in cells}) == 4
    (plain,) = cells_in({**SMALL, "recipe": {"quick": {**RECIPE, "epochs": 4}}})
    assert cells[0] == plain
    assert cells[2].name == "digits 100 seed 0 pucl+knn epoch=2 (quick, small_cnn)"
    assert select([*cells], ["epoch=2"]) == [cells[2]]
    assert len(over_epochs(2, objectives=["pucl", "sscl"], readouts=["pupl", "knn"])) == 2 * 3


@pytest.mark.slow
def test_knn_over_epochs_is_that_of_a_shorter_look_and_changes_nothing(tmp_path: Path) -> None:
    cells = over_epochs(1, 3)
    lines = {line.cell.name: line for line in map(done, run_unit(cells, tmp_path / "a"))}
    names = [name for name in lines if "epoch=" in name]
    assert len(names) == 2 and len({lines[name].metrics["loss"] for name in names}) == 2
    for name in names:
        assert lines[name].metrics["knn"] == lines[name].accuracy > 40 and "linear_probe" not in lines[name].metrics
    (plain,) = cells_in({**SMALL, "recipe": {"quick": {**RECIPE, "epochs": 3}}})
    alone = done(*run_unit([plain], tmp_path / "b"))
    assert alone.metrics == lines[plain.name].metrics
    first, second = (next((tmp_path / part).glob("*/encoder.json")).parent for part in "ab")
    states = [load_encoder(folder, "cpu").state_dict() for folder in (first, second)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])
    # An encoder that was trained without looks is trained again for them, and then kept.
    again = [done(outcome) for outcome in run_unit(cells[2:3], tmp_path / "b")]
    assert again[0].metrics == lines[cells[2].name].metrics


def test_variations_are_not_in_the_tables_of_the_paper() -> None:
    block = {"encoder": "lenet5", "tasks": ["fmnist1"], "n_labelled": [1000], "readouts": ["pupl"]}
    recipe = {"recipe": {"paper": {**RECIPE, "view": "simclr", "epochs": 4}}}
    content: dict[str, Any] = {**SMALL, **recipe}
    plain, varied = (
        cells_in({**content, "block": [{**SMALL["block"][0], **block, "recipes": ["paper"], **more}]})
        for more in ({}, {"n_unlabelled": 500})
    )
    lines = [line_of(plain[0], accuracy=80.0), line_of(varied[0], accuracy=71.23)]
    (row,) = [row for row in make_table("pu-benchmark-1", lines).rows if row.label.recipe == "paper"]
    assert row.entries["fmnist1", 1000].mean == 80
    assert "80.00 (1)" in leaderboard(lines) and "71.23" not in leaderboard(lines)


@pytest.mark.slow
def test_a_sweep_over_epochs_stores_a_line_each(tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    sweep([*over_epochs(1, 2, readouts=["knn"])], results, device="cpu", on_progress=lambda _: None)
    accuracies = {line.cell.epoch: line.accuracy for line in read_results(results) if isinstance(line.cell, Pipeline)}
    assert accuracies.keys() == {None, 1}
