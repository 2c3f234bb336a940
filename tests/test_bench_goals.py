"""What people get wrong in the files that pages of the benchmark are made of: goals and notes."""

from pathlib import Path

import pytest

from pucl.bench.pages.reach import Goal, read_goals
from pucl.bench.results.published import published
from pucl.errors import InputError

from bench_examples import said
from conftest import ROOT, Command

GOAL = "tasks = 'cifar1'\nn_labelled = 1000\nencoder = 'cnn7'\nrecipe = 'paper'\n"


def test_goals_name_encoders_by_task(tmp_path: Path) -> None:
    path = tmp_path / "reach.toml"
    tasks = "tasks = ['cifar1', 'fmnist1']\nn_labelled = 1000\nrecipe = 'paper'\nreadout = 'finetune'\n"
    path.write_text(f"[[goal]]\n{tasks}encoder = {{ cifar1 = 'cnn7', fmnist1 = 'lenet5' }}\n", encoding="utf-8")
    assert [(goal.task, goal.encoder, goal.readout) for goal in read_goals(path)] == [
        ("cifar1", "cnn7", "stacked_finetune"), ("fmnist1", "lenet5", "stacked_finetune"),
    ]  # fmt: skip
    path.write_text(f"[[goal]]\n{tasks}encoder = {{ cifar1 = 'cnn7' }}\n", encoding="utf-8")
    with pytest.raises(InputError, match="encoder must be a name; got None"):
        read_goals(path)


def test_one_rule_for_each_kind_of_encoder() -> None:
    goals = read_goals(ROOT / "paper" / "reach.toml")
    kinds = {(goal.recipe, goal.readout, goal.ceiling, goal.method) for goal in goals}
    assert len(kinds) == 5, "a kind has the same pipeline and ceiling for all tasks"
    paper = {(goal.task, goal.n_labelled) for goal in goals if goal.readout == "kernel_cvir_finetune"}
    tables = ("pu-benchmark-1", "pu-benchmark-2")
    assert paper == {column for table in tables for _, column in published(table)}, "no task is left out"


@pytest.mark.parametrize("verb", ["leaderboard", "baselines", "tables"])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        (".", "--out . must be a file; got a folder"),
        ("file.toml/page.md", "--out must be in a place that can be written to; file.toml: Not a directory"),
    ],
)
def test_pages_that_cannot_be_written(empty_bench: Command, tmp_path: Path, verb: str, out: str, message: str) -> None:
    (tmp_path / "file.toml").touch()
    assert said(empty_bench, verb, "--out", out) == f"pucl bench {verb}: {message}"
    assert (tmp_path / "file.toml").read_bytes() == b""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "[[goal]] must be given at least once; got none"),
        ("seeds = [0]\n", "[[goal]] must be given at least once; got none"),
        (f"[goal]\n{GOAL}readout = 'auto'", "[[goal]] must be written with two brackets; got [goal]"),
        (f"seeds = 0\n[[goal]]\n{GOAL}readout = 'auto'", "unknown key 'seeds': known: goal"),
        (
            f"[[goal]]\n{GOAL}",
            "a [[goal]] must be one with tasks, n_labelled, encoder, recipe, readout and, if needed, "
            "objective, ceiling, goal; got readout missing or unknown",
        ),
        (f"[[goal]]\n{GOAL}readout = 'auto'\ngoal = 'x'", "goal must be an accuracy in per cent; got 'x'"),
        (f"[[goal]]\n{GOAL}readout = 'auto'\ngoal = 961", "goal must be an accuracy in per cent; got 961"),
        (
            f"[[goal]]\n{GOAL}readout = 'auto'".replace("1000", "'many'"),
            "n_labelled must be a whole number ≥ 1; got 'many'",
        ),
        (f"[[goal]]\n{GOAL}readout = 'auto'".replace("'cnn7'", "['cnn7']"), "encoder must be a name; got ['cnn7']"),
        (
            f"[[goal]]\n{GOAL}readout = 'auto'".replace("'cifar1'", "3"),
            "tasks must be a name or a list of names; got 3",
        ),
        (
            f"[[goal]]\n{GOAL}readout = 'auto'".replace("cifar1", "cifarr1"),
            "tasks: unknown data set 'cifarr1': did you mean 'cifar1'? known: ",
        ),
        (
            f"[[goal]]\n{GOAL}readout = 'auto'".replace("cnn7", "cnn8"),
            "encoder: unknown encoder 'cnn8': did you mean 'cnn7'? ",
        ),
        (
            f"[[goal]]\n{GOAL}readout = 'auto'\nobjective = 'puc'",
            "objective: unknown loss 'puc': did you mean 'pucl'? ",
        ),
        (
            "[[goal]]\ntasks = 'cifar1'\nn_labelled = 1000\nmethod = 'nnpu'\nreadout = 'auto'",
            "a [[goal]] must be one with tasks, n_labelled, method and, if needed, goal; "
            "got readout missing or unknown",
        ),
        (
            "[[goal]]\ntasks = 'cifar1'\nn_labelled = 1000\nmethod = 'nnpuu'",
            "method: unknown baseline 'nnpuu': did you mean 'nnpu'? ",
        ),
        (f"[[goal]]\n{GOAL}readout = 'autoo'", "unknown readout 'autoo': did you mean 'auto'? known: auto, ceiling, "),
        (f"[[goal]]\n{GOAL}readout = 'auto'\nceiling = 'ceilin'", "unknown ceiling 'ceilin': did you mean 'ceiling'? "),
    ],
)
def test_what_is_wrong_with_goals(empty_bench: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "goals.toml").write_text(text, encoding="utf-8")
    found = said(empty_bench, "leaderboard", "--goals", "goals.toml", "--out", "page.md")
    assert found.startswith(f"pucl bench leaderboard: --goals goals.toml: {message}")
    assert found.endswith(message) or message.endswith((" ", ": "))


def test_goals_know_the_readouts_of_grids_and_of_results(tmp_path: Path) -> None:
    path = tmp_path / "goals.toml"
    path.write_text(f"[[goal]]\n{GOAL}readout = 'own'\n", encoding="utf-8")
    (tmp_path / "notes.toml").write_text("no TOML", encoding="utf-8")
    with pytest.raises(InputError, match="unknown readout 'own': "):
        read_goals(path)
    assert read_goals(path, ["own"]) == [Goal("cifar1", 1000, "cnn7", "paper", "own")]
    (tmp_path / "grid.toml").write_text("[readout.own]\nhead = 'linear'\n", encoding="utf-8")
    assert read_goals(path) == read_goals(path, ["own"])
    assert read_goals(ROOT / "paper" / "reach.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cifar1 = 3", "cifar1 must be a table; got 3"),
        ("cifar1 = 'text'", "cifar1 must be a table; got 'text'"),
        ("[cifar1]\nupu = 3", "cifar1.upu must be a text; got 3"),
        ("[cifar9]\nupu = 'x'", "unknown task 'cifar9': did you mean 'cifar3'? known: cifar1, cifar2, "),
        ("[cifar1]\nupuu = 'x'", "cifar1: unknown baseline 'upuu': did you mean 'upu'? known: "),
    ],
)
def test_what_is_wrong_with_notes(empty_bench: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "notes.toml").write_text(text, encoding="utf-8")
    found = said(empty_bench, "baselines", "--notes", "notes.toml", "--out", "page.md")
    assert found.startswith(f"pucl bench baselines: --notes notes.toml: {message}")


def test_an_old_name_in_goals_is_taken_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "goals.toml"
    path.write_text(f"[[goal]]\n{GOAL}top = 'auto'\n", encoding="utf-8")
    with pytest.warns(FutureWarning, match="'top' is now called 'readout'"):
        assert read_goals(path) == [Goal("cifar1", 1000, "cnn7", "paper", "stacked")]
