"""What people get wrong in the files and options of ``pucl bench``: one line, exit code 2, and nothing is written."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.bench.grid.cells import Config
from pucl.bench.grid.grid import Grid
from pucl.bench.grid.options import resolved
from pucl.bench.pages.reach import Goal, read_goals
from pucl.device import pick_device
from pucl.errors import InputError, blamed_on, is_number
from pucl.registry import entries
from pucl.training.config import TrainConfig

from conftest import ROOT, Command

PLACE = "tasks = ['digits']\nn_labelled = 100\nseeds = 0\n"
RECIPE = "[recipe.quick]\nepochs = 1\nview = 'small_image'\n"
PIPELINES = "[[block]]\nobjectives = 'sscl'\nencoder = 'small_cnn'\nrecipes = 'quick'\n"
BASELINES = "[[block]]\nmethods = 'naive'\nencoder = 'raw'\n"
TAUGHT = "[top.{}]\nlabeller = 'teacher'\nhead = 'finetune'\nteacher = {{ encoder = 'small_cnn', {} }}\n"
GOAL = "tasks = 'cifar1'\nn_labelled = 1000\nencoder = 'cnn7'\nrecipe = 'paper'\n"
WHOLE = "a whole number from 0 to 4294967295"


@pytest.fixture
def pucl(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """``pucl bench`` in an empty folder, which has nothing but TOML files when all is over."""
    monkeypatch.chdir(tmp_path)
    yield partial(command, "bench")
    assert {path.suffix for path in tmp_path.rglob("*")} <= {".toml"}


def said(pucl: Command, *words: Any) -> str:
    """The one line that a refused command says."""
    code, out, err = pucl(*words)
    assert (code, out) == (2, "") and err.count("\n") == 1, err
    return err.removeprefix("pucl bench run: ").rstrip("\n")


def with_recipe(line: str, *, tops: str = "'pupl'") -> str:
    return f"{PLACE}{RECIPE}{line}\n{PIPELINES}tops = {tops}\n"


def with_top(text: str) -> str:
    return with_recipe(text if text.startswith("[") else f"[top.x]\n{text}", tops="'x'")


def with_settings(line: str, method: str = "naive") -> str:
    return f"{PLACE}[settings.{method}]\n{line}\n{BASELINES}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # What is not of the right type
        (f"{PLACE}recipe = {{ quick = 3 }}\n{PIPELINES}tops = 'pupl'", "recipe.quick must be a table; got 3"),
        (with_recipe("projection = 12"), "recipe 'quick': projection must be a list of 2 whole numbers; got 12"),
        (with_recipe("momentum = 'a'"), "recipe 'quick': momentum must be a finite number; got 'a'"),
        (with_recipe("deterministic = 1"), "recipe 'quick': deterministic must be true or false; got 1"),
        (
            with_recipe("epochs = 1.5").replace("epochs = 1\n", ""),
            "recipe 'quick': epochs must be a whole number; got 1.5",
        ),
        (with_recipe("optimiser = 'adam'"), "recipe 'quick': optimiser must be 'lars' or 'sgd' or 'adamw'; got 'adam'"),
        (
            with_recipe("view_options = { rotation = 'x' }"),
            "recipe 'quick': view 'small_image': rotation must be a finite number; got 'x'",
        ),
        (
            with_top("head = ['linear']"),
            "top 'x': head must be the name of a head, 'finetune' or 'knn_probe'; got ['linear']",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'auto'\nhead_options = { l2 = 'a' }"),
            "top 'x': head 'linear': l2 must be a finite number; got 'a'",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'pupl'\nlabeller_options = { guard = 'no' }"),
            "top 'x': labeller 'pupl': guard must be true or false; got 'no'",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = 'rew' }"),
            "top 'x': labeller 'stacked': other_embeddings must be 'raw', the rows themselves; got 'rew'",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = '' }"),
            "top 'x': labeller 'stacked': other_embeddings must be 'raw', the rows themselves; got ''",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = ['raw'] }"),
            "top 'x': labeller 'stacked': other_embeddings must be a name; got ['raw']",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = true }"),
            "top 'x': labeller 'stacked': other_embeddings must be a name; got True",
        ),
        (
            with_top("head = 'finetune'\nlabeller = 'auto'\nhead_options = { view = ['shift'] }"),
            "top 'x': head 'finetune': view must be a name; got ['shift']",
        ),
        (
            with_top(TAUGHT.format("x", "recipe = ['quick'], top = 'pupl'")),
            "top 'x': recipe of the teacher must be a name; got ['quick']",
        ),
        (
            with_top(TAUGHT.format("x", "recipe = 'quick', top = ['pupl']")),
            "top 'x': top of the teacher must be a name; got ['pupl']",
        ),
        (with_settings("learning_rate = nan"), "settings.naive: learning_rate must be a finite number; got nan"),
        (with_settings("epochs = 'x'"), "settings.naive: epochs must be a whole number; got 'x'"),
        (with_settings("betas = [0.9]"), "settings.naive: betas must be a list of 2 finite numbers; got [0.9]"),
        (PLACE.replace("seeds = 0", "seeds = 4294967296") + BASELINES, f"seeds must be {WHOLE}; got 4294967296"),
        # Values that are checked where they are used
        (with_recipe("batch_size = 1"), "recipe 'quick': batch_size must be a whole number ≥ 2; got 1"),
        (
            with_recipe("view_options = { flip = 3 }").replace("small_image", "shift"),
            "recipe 'quick': view 'shift': flip must be a number within [0, 1]; got 3",
        ),
        (with_settings("epochs = -2"), "settings.naive: epochs must be a whole number ≥ 1; got -2"),
        (
            with_settings("epochs = -2", "supervised").replace("'naive'", "'supervised'"),
            "settings.supervised: epochs must be a whole number ≥ 1; got -2",
        ),
        # How tables are written
        (PLACE + BASELINES.replace("[[block]]", "[block]"), "[[block]] must be written with two brackets; got [block]"),
        (f"block = [3]\n{PLACE}", "[[block]] must be tables; got [3]"),
        (
            PLACE + RECIPE + PIPELINES + "methods = 'naive'\ntops = 'pupl'",
            "a [[block]] must be one with 'objectives' or 'methods'; got both",
        ),
        # Who learns from whom
        (
            with_top(TAUGHT.format("x", "recipe = 'quick', top = 'x'")),
            "the teacher of top 'x' must be one that does not learn from itself; got x → x",
        ),
        (
            with_top("".join(TAUGHT.format(own, f"recipe = 'quick', top = '{other}'") for own, other in ("xy", "yx"))),
            "the teacher of top 'x' must be one that does not learn from itself; got x → y → x",
        ),
    ],
)
def test_wrong_values_of_a_grid(pucl: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.toml").write_text(text, encoding="utf-8")
    assert said(pucl, "run", "g.toml", "--dry-run") == f"g.toml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PLACE.replace("digits", "digitz") + BASELINES,
            "tasks: unknown datasets 'digitz': did you mean 'digits'? known: ",
        ),
        (
            PLACE + BASELINES.replace("naive", "naiv"),
            "methods: unknown baselines 'naiv': did you mean 'naive'? known: ",
        ),
        (PLACE + BASELINES.replace("raw", "rav"), "encoder: unknown encoders 'rav': did you mean 'raw'? known: "),
        (with_recipe("").replace("sscl", "ssc"), "objectives: unknown losses 'ssc': did you mean 'sscl'? known: "),
        (
            with_recipe("task = { digitz = {} }"),
            "recipe 'quick': task: unknown datasets 'digitz': did you mean 'digits'? ",
        ),
        (
            with_top("head = 'linear'\nlabeller = 'pupll'"),
            "top 'x': unknown labeller 'pupll': did you mean 'pupl'? known: auto, cvir, kernel_cvir, label_spreading, "
            "prototypes, pupl, stacked, teacher, truth",
        ),
        *(
            (
                with_top(
                    f"head = 'linear'\nlabeller = '{labeller}'\nlabeller_options = {{ other_embeddings = 'raw' }}"
                ),
                f"top 'x': unknown option of labeller '{named}' 'other_embeddings': ",
            )
            for labeller, named in (
                ("pupl", "pupl"),
                ("label_spreading", "label_spreading"),
                ("auto", "kernel_cvir"),
                ("truth", "truth"),
            )
        ),
        (
            with_top("head = 'linear'\nlabeller = ['pupl']"),
            "top 'x': unknown labeller \"['pupl']\": did you mean 'pupl'? ",
        ),
        (
            with_top(TAUGHT.format("x", "recipe = 'quick', top = 'pupl', objective = 'puc'")),
            "top 'x': teacher: unknown losses 'puc': did you mean 'pucl'? known: ",
        ),
        (
            with_top(TAUGHT.format("x", "recipe = 'quick', top = 'pupl'").replace("small_cnn", "cnn8")),
            "top 'x', encoder of the teacher: unknown encoders 'cnn8': did you mean 'cnn7'? known: ",
        ),
        (with_settings("epochs = 2", "naiv"), "settings: unknown baselines 'naiv': did you mean 'naive'? known: "),
        (
            f"{PLACE}{BASELINES}prior = {{ nnpuu = 'oracle' }}",
            "prior: unknown objective or method 'nnpuu': did you mean 'nnpu'? ",
        ),
        (f"{PLACE}{BASELINES}prior = {{ nnpu = 'orakel' }}", "unknown prior 'orakel': did you mean 'oracle'? known: "),
        (f"{PLACE}{BASELINES}prior = 'orakel'", "unknown prior 'orakel': did you mean 'oracle'? known: "),
        (f"{PLACE}{BASELINES}prior = 0.5", "unknown prior '0.5': known: auto, "),
    ],
)
def test_unknown_names_of_a_grid(pucl: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.toml").write_text(text, encoding="utf-8")
    assert said(pucl, "run", "g.toml").startswith(f"g.toml: {message}")


def test_a_method_without_its_prior_is_told_what_a_grid_may_give(pucl: Command, tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text(PLACE + BASELINES.replace("naive", "nnpu"), encoding="utf-8")
    code, out, _ = pucl("run", "g.toml", "--dry-run")
    reason = "nnpu: needs a prior, 'oracle' or the name of an estimator, and the grid gives none"
    assert code == 0 and out.startswith(f"would skip: digits 100 seed 0 nnpu (raw): {reason}\n")


def test_settings_and_priors_that_are_right_are_taken() -> None:
    content: Config = {"tasks": "digits", "n_labelled": 100, "seeds": [0, 4294967295]}
    block = {"methods": ["naive", "supervised", "nnpu"], "prior": {"nnpu": "oracle", "punce": "auto"}}
    settings = {"supervised": {"epochs": 3, "betas": [0.8, 0.9], "final": 1}, "vpu": {}}
    cells = Grid("g", {**content, "settings": settings, "block": [block]}).cells()
    assert [cell["prior"] for cell in cells] == [None, None, "oracle"] * 2
    assert [cell["settings"]["epochs"] for cell in cells[:2]] == [40, 3]
    assert cells[1]["settings"]["betas"] == [0.8, 0.9]


def test_every_view_takes_its_own_defaults() -> None:
    for name in entries("views"):
        recipe = {"quick": {"view": name}}
        block = {"objectives": "sscl", "encoder": "mlp", "recipes": "quick", "tops": "pupl"}
        content = {"tasks": "digits", "n_labelled": 100, "seeds": 0, "recipe": recipe, "block": [block]}
        assert Grid("g", content).cells()[0]["recipe"]["view"] == name


def test_types_of_options() -> None:
    kinds = {"a": tuple[int, ...], "b": str | None, "c": torch.nn.Module | None, "d": float | str}
    assert resolved("x", {"a": (1,)}, {"a": []}, kinds=kinds) == {"a": []}
    assert resolved("x", {"b": None}, {"b": None}, kinds=kinds) == {}
    assert resolved("x", {"c": None, "e": 1}, {"c": 3, "e": "two"}, kinds=kinds) == {"c": 3, "e": "two"}  # not checked
    for given, allowed in (
        ({"a": [1.5]}, "a must be a list of whole numbers; got [1.5]"),
        ({"b": 1}, "b must be a name; got 1"),
        ({"d": True}, "d must be a finite number or a name; got True"),
    ):
        with pytest.raises(InputError, match=re.escape(f"x: {allowed}")):
            resolved("x", dict.fromkeys("abd"), given, kinds=kinds)
    assert not is_number(10**400)


def test_an_error_is_blamed_on_its_owner() -> None:
    with pytest.raises(InputError, match=r"^outer: inner: no$"), blamed_on("outer"), blamed_on("inner"):
        raise InputError("no")


@pytest.mark.parametrize("value", [{"momentum": "a"}, {"weight_decay": None}, {"held_out": [0]}, {"projection": 12}])
def test_a_training_configuration_of_wrong_types(value: dict[str, Any]) -> None:
    (name,) = value
    with pytest.raises(InputError, match=rf"^TrainConfig: {name} must be .*; got "):
        TrainConfig(**value)


# Devices


@pytest.mark.parametrize("device", ["cpu:0", "mps", "meta", "cpu,cuda", "xpu"])
def test_places_that_nothing_can_be_computed_on(pucl: Command, tmp_path: Path, device: str) -> None:
    (tmp_path / "g.toml").write_text(PLACE + BASELINES, encoding="utf-8")
    message = f"--device must be 'cpu', 'cuda', 'cuda:1' …; got '{device}'"
    assert said(pucl, "run", "g.toml", "--device", device) == message


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device must be 'cpu' on a machine without a CUDA device; got 'cuda:1'"):
        pick_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="must be 'cpu', or 'cuda:0' to 'cuda:1' on this machine; got 'cuda:2'"):
        pick_device("cuda:2")
    assert str(pick_device("cuda:1")) == "cuda:1" and str(pick_device("cpu")) == "cpu"


# Pages


@pytest.mark.parametrize("verb", ["leaderboard", "baselines"])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        (".", "--out . must be a file; got a folder"),
        ("file.toml/page.md", "--out must be in a place that can be written to; file.toml: Not a directory"),
    ],
)
def test_pages_that_cannot_be_written(pucl: Command, tmp_path: Path, verb: str, out: str, message: str) -> None:
    (tmp_path / "file.toml").touch()
    assert said(pucl, verb, "--out", out) == f"pucl bench {verb}: {message}"
    assert (tmp_path / "file.toml").read_bytes() == b""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "[[goal]] must be given at least once; got none"),
        ("seeds = [0]\n", "[[goal]] must be given at least once; got none"),
        (f"[goal]\n{GOAL}top = 'auto'", "[[goal]] must be written with two brackets; got [goal]"),
        (f"seeds = 0\n[[goal]]\n{GOAL}top = 'auto'", "unknown key 'seeds': known: goal"),
        (
            f"[[goal]]\n{GOAL}",
            "a [[goal]] must be one with tasks, n_labelled, encoder, recipe, top and, if needed, "
            "objective, ceiling, goal; got top missing or unknown",
        ),
        (f"[[goal]]\n{GOAL}top = 'auto'\ngoal = 'x'", "goal must be an accuracy in per cent; got 'x'"),
        (f"[[goal]]\n{GOAL}top = 'auto'\ngoal = 961", "goal must be an accuracy in per cent; got 961"),
        (
            f"[[goal]]\n{GOAL}top = 'auto'".replace("1000", "'many'"),
            "n_labelled must be a whole number ≥ 1; got 'many'",
        ),
        (f"[[goal]]\n{GOAL}top = 'auto'".replace("'cnn7'", "['cnn7']"), "encoder must be a name; got ['cnn7']"),
        (f"[[goal]]\n{GOAL}top = 'auto'".replace("'cifar1'", "3"), "tasks must be a name or a list of names; got 3"),
        (
            f"[[goal]]\n{GOAL}top = 'auto'".replace("cifar1", "cifarr1"),
            "tasks: unknown datasets 'cifarr1': did you mean 'cifar1'? known: ",
        ),
        (
            f"[[goal]]\n{GOAL}top = 'auto'".replace("cnn7", "cnn8"),
            "encoder: unknown encoders 'cnn8': did you mean 'cnn7'? ",
        ),
        (f"[[goal]]\n{GOAL}top = 'auto'\nobjective = 'puc'", "objective: unknown losses 'puc': did you mean 'pucl'? "),
        (
            "[[goal]]\ntasks = 'cifar1'\nn_labelled = 1000\nmethod = 'nnpu'\ntop = 'auto'",
            "a [[goal]] must be one with tasks, n_labelled, method and, if needed, goal; got top missing or unknown",
        ),
        (
            "[[goal]]\ntasks = 'cifar1'\nn_labelled = 1000\nmethod = 'nnpuu'",
            "method: unknown baselines 'nnpuu': did you mean 'nnpu'? ",
        ),
        (f"[[goal]]\n{GOAL}top = 'autoo'", "unknown top 'autoo': did you mean 'auto'? known: auto, ceiling, "),
        (f"[[goal]]\n{GOAL}top = 'auto'\nceiling = 'ceilin'", "unknown ceiling 'ceilin': did you mean 'ceiling'? "),
    ],
)
def test_what_is_wrong_with_goals(pucl: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "goals.toml").write_text(text, encoding="utf-8")
    found = said(pucl, "leaderboard", "--goals", "goals.toml", "--out", "page.md")
    assert found.startswith(f"pucl bench leaderboard: --goals goals.toml: {message}")
    assert found.endswith(message) or message.endswith((" ", ": "))


def test_goals_know_the_tops_of_grids_and_of_results(tmp_path: Path) -> None:
    path = tmp_path / "goals.toml"
    path.write_text(f"[[goal]]\n{GOAL}top = 'own'\n", encoding="utf-8")
    (tmp_path / "notes.toml").write_text("no TOML", encoding="utf-8")
    with pytest.raises(InputError, match="unknown top 'own': "):
        read_goals(path)
    assert read_goals(path, ["own"]) == [Goal("cifar1", 1000, "cnn7", "paper", "own")]
    (tmp_path / "grid.toml").write_text("[top.own]\nhead = 'linear'\n", encoding="utf-8")
    assert read_goals(path) == read_goals(path, ["own"])
    assert read_goals(ROOT / "paper" / "reach.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cifar1 = 3", "cifar1 must be a table; got 3"),
        ("cifar1 = 'text'", "cifar1 must be a table; got 'text'"),
        ("[cifar1]\nupu = 3", "cifar1.upu must be a text; got 3"),
        ("[cifar9]\nupu = 'x'", "unknown task 'cifar9': did you mean 'cifar3'? known: cifar1, cifar3, fmnist1"),
        ("[cifar1]\nupuu = 'x'", "cifar1: unknown baselines 'upuu': did you mean 'upu'? known: "),
    ],
)
def test_what_is_wrong_with_notes(pucl: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "notes.toml").write_text(text, encoding="utf-8")
    found = said(pucl, "baselines", "--notes", "notes.toml", "--out", "page.md")
    assert found.startswith(f"pucl bench baselines: --notes notes.toml: {message}")
