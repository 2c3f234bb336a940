"""What people get wrong in the files and options of ``pucl bench``: one line, exit code 2, and nothing is written."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.bench.grid.cells import Baseline
from pucl.bench.grid.decode import resolved
from pucl.bench.grid.grid import Grid
from pucl.device import pick_device
from pucl.errors import InputError, blamed_on, is_number
from pucl.registry import entries
from pucl.training.config import TrainConfig

from bench_examples import cells_in, said
from conftest import Command

PLACE = "tasks = ['digits']\nn_labelled = 100\nseeds = 0\n"
RECIPE = "[recipe.quick]\nepochs = 1\nview = 'small_image'\n"
PIPELINES = "[[block]]\nobjectives = 'sscl'\nencoder = 'small_cnn'\nrecipes = 'quick'\n"
BASELINES = "[[block]]\nmethods = 'naive'\nencoder = 'raw'\n"
TAUGHT = "[readout.{}]\nlabeller = 'teacher'\nhead = 'finetune'\nteacher = {{ encoder = 'small_cnn', {} }}\n"
WHOLE = "a whole number from 0 to 4294967295"


def with_recipe(line: str, *, readouts: str = "'pupl'") -> str:
    return f"{PLACE}{RECIPE}{line}\n{PIPELINES}readouts = {readouts}\n"


def with_readout(text: str) -> str:
    return with_recipe(text if text.startswith("[") else f"[readout.x]\n{text}", readouts="'x'")


def with_settings(line: str, method: str = "naive") -> str:
    return f"{PLACE}[settings.{method}]\n{line}\n{BASELINES}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # What is not of the right type
        (f"{PLACE}recipe = {{ quick = 3 }}\n{PIPELINES}readouts = 'pupl'", "recipe.quick must be a table; got 3"),
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
            with_readout("head = ['linear']"),
            "readout 'x': head must be the name of a head, 'finetune', 'momentum' or 'knn_probe'; got ['linear']",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'auto'\nhead_options = { l2 = 'a' }"),
            "readout 'x': head 'linear': l2 must be a finite number; got 'a'",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'pupl'\nlabeller_options = { guard = 'no' }"),
            "readout 'x': labeller 'pupl': guard must be true or false; got 'no'",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = 'rew' }"),
            "readout 'x': labeller 'stacked': other_embeddings must be 'raw', the rows themselves; got 'rew'",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = '' }"),
            "readout 'x': labeller 'stacked': other_embeddings must be 'raw', the rows themselves; got ''",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = ['raw'] }"),
            "readout 'x': labeller 'stacked': other_embeddings must be a name; got ['raw']",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'stacked'\nlabeller_options = { other_embeddings = true }"),
            "readout 'x': labeller 'stacked': other_embeddings must be a name; got True",
        ),
        (
            with_readout("head = 'finetune'\nlabeller = 'auto'\nhead_options = { view = ['shift'] }"),
            "readout 'x': head 'finetune': view must be a name; got ['shift']",
        ),
        (
            with_readout(
                "head = 'momentum'\nlabeller = 'auto'\nhead_options = { strong_view_options = { flip = 0.5 } }"
            ),
            "readout 'x': head 'momentum': strong_view must be given with strong_view_options; got None",
        ),
        (
            with_readout("head = 'momentum'\nlabeller = 'auto'\nhead_options = { label_momentum = 1.5 }"),
            "readout 'x': label_momentum must be a number within [0, 1]; got 1.5",
        ),
        (
            with_readout(TAUGHT.format("x", "recipe = ['quick'], readout = 'pupl'")),
            "readout 'x': recipe of the teacher must be a name; got ['quick']",
        ),
        (
            with_readout(TAUGHT.format("x", "recipe = 'quick', readout = ['pupl']")),
            "readout 'x': readout of the teacher must be a name; got ['pupl']",
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
            PLACE + RECIPE + PIPELINES + "methods = 'naive'\nreadouts = 'pupl'",
            "a [[block]] must be one with 'objectives' or 'methods'; got both",
        ),
        # Who learns from whom
        (
            with_readout(TAUGHT.format("x", "recipe = 'quick', readout = 'x'")),
            "the teacher of readout 'x' must be one that does not learn from itself; got x → x",
        ),
        (
            with_readout(
                "".join(TAUGHT.format(own, f"recipe = 'quick', readout = '{other}'") for own, other in ("xy", "yx"))
            ),
            "the teacher of readout 'x' must be one that does not learn from itself; got x → y → x",
        ),
    ],
)
def test_wrong_values_of_a_grid(empty_bench: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.toml").write_text(text, encoding="utf-8")
    assert said(empty_bench, "run", "g.toml", "--dry-run") == f"g.toml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PLACE.replace("digits", "digitz") + BASELINES,
            "tasks: unknown data set 'digitz': did you mean 'digits'? known: ",
        ),
        (
            PLACE + BASELINES.replace("naive", "naiv"),
            "methods: unknown baseline 'naiv': did you mean 'naive'? known: ",
        ),
        (PLACE + BASELINES.replace("raw", "rav"), "encoder: unknown encoder 'rav': did you mean 'raw'? known: "),
        (with_recipe("").replace("sscl", "ssc"), "objectives: unknown loss 'ssc': did you mean 'sscl'? known: "),
        (
            with_recipe("task = { digitz = {} }"),
            "recipe 'quick': task: unknown data set 'digitz': did you mean 'digits'? ",
        ),
        (
            with_readout("head = 'momentum'\nlabeller = 'auto'\nhead_options = { renew = false }"),
            "readout 'x': unknown option of head 'momentum' 'renew': ",
        ),
        (
            with_readout("head = 'finetune'\nlabeller = 'auto'\nhead_options = { label_momentum = 0.9 }"),
            "readout 'x': unknown option of head 'finetune' 'label_momentum': ",
        ),
        (
            with_readout("head = 'linear'\nlabeller = 'pupll'"),
            "readout 'x': unknown labeller 'pupll': did you mean 'pupl'? known: auto, ",
        ),
        *(
            (
                with_readout(
                    f"head = 'linear'\nlabeller = '{labeller}'\nlabeller_options = {{ other_embeddings = 'raw' }}"
                ),
                f"readout 'x': unknown option of labeller '{named}' 'other_embeddings': ",
            )
            for labeller, named in (
                ("pupl", "pupl"),
                ("label_spreading", "label_spreading"),
                ("kernel_cvir", "kernel_cvir"),
                ("truth", "truth"),
            )
        ),
        (
            with_readout("head = 'linear'\nlabeller = ['pupl']"),
            "readout 'x': unknown labeller \"['pupl']\": did you mean 'pupl'? ",
        ),
        (
            with_readout(TAUGHT.format("x", "recipe = 'quick', readout = 'pupl', objective = 'puc'")),
            "readout 'x': teacher: unknown loss 'puc': did you mean 'pucl'? known: ",
        ),
        (
            with_readout(TAUGHT.format("x", "recipe = 'quick', readout = 'pupl'").replace("small_cnn", "cnn8")),
            "readout 'x', encoder of the teacher: unknown encoder 'cnn8': did you mean 'cnn7'? known: ",
        ),
        (with_settings("epochs = 2", "naiv"), "settings: unknown baseline 'naiv': did you mean 'naive'? known: "),
        (
            f"{PLACE}{BASELINES}prior = {{ nnpuu = 'oracle' }}",
            "prior: unknown objective or method 'nnpuu': did you mean 'nnpu'? ",
        ),
        (f"{PLACE}{BASELINES}prior = {{ nnpu = 'orakel' }}", "unknown prior 'orakel': did you mean 'oracle'? known: "),
        (f"{PLACE}{BASELINES}prior = 'orakel'", "unknown prior 'orakel': did you mean 'oracle'? known: "),
        (f"{PLACE}{BASELINES}prior = 0.5", "unknown prior '0.5': known: auto, "),
    ],
)
def test_unknown_names_of_a_grid(empty_bench: Command, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.toml").write_text(text, encoding="utf-8")
    assert said(empty_bench, "run", "g.toml").startswith(f"g.toml: {message}")


def test_a_method_without_its_prior_hears_what_a_grid_may_give(empty_bench: Command, tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text(PLACE + BASELINES.replace("naive", "nnpu"), encoding="utf-8")
    code, out, _ = empty_bench("run", "g.toml", "--dry-run")
    reason = "nnpu: needs a prior, but the grid gives none: set prior to 'oracle' or the name of an estimator"
    assert code == 0 and out.startswith(f"would skip: digits 100 seed 0 nnpu (raw): {reason}\n")


def test_settings_and_priors_that_are_right_are_taken() -> None:
    content: dict[str, Any] = {"tasks": "digits", "n_labelled": 100, "seeds": [0, 4294967295]}
    block: dict[str, Any] = {"methods": ["naive", "supervised", "nnpu"], "prior": {"nnpu": "oracle", "punce": "auto"}}
    settings: dict[str, Any] = {"supervised": {"epochs": 3, "betas": [0.8, 0.9], "final": 1}, "vpu": {}}
    cells = Grid("g", {**content, "settings": settings, "block": [block]}).cells()
    assert [cell.prior for cell in cells] == [None, None, "oracle"] * 2
    settings_of = [cell.settings for cell in cells if isinstance(cell, Baseline)]
    assert [given["epochs"] for given in settings_of[:2]] == [40, 3] and settings_of[1]["betas"] == [0.8, 0.9]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tops = 'pupl'", "readouts = 'pupl'"),
        ("[top.x]\nhead = 'linear'\nlabeller = 'pupl'", "[readout.x]\nhead = 'linear'\nlabeller = 'pupl'"),
        ("labeller_options = { most = 500 }", "labeller_options = { max_rows = 500 }"),
        ("labeller_options = { beside = 'raw' }", "labeller_options = { other_embeddings = 'raw' }"),
        ("recipe = 'quick', top = 'pupl'", "recipe = 'quick', readout = 'pupl'"),
    ],
)
def test_old_names_of_a_grid_are_taken_with_a_warning(old: str, new: str) -> None:
    def grid(line: str) -> dict[str, Any]:
        if line.startswith("labeller_options"):
            text = with_readout(f"head = 'linear'\nlabeller = 'stacked'\n{line}")
        elif line.startswith("recipe"):
            text = with_readout(TAUGHT.format("x", line))
        elif line.startswith("["):
            text = with_readout(line)
        else:
            text = f"{PLACE}{RECIPE}{PIPELINES}{line}\n"
        return tomllib.loads(text)

    today = cells_in(grid(new))
    with pytest.warns(FutureWarning, match=r"'\w+' is now called '\w+'; the old name goes with pucl "):
        assert cells_in(grid(old)) == today


def test_both_names_of_a_key_are_refused() -> None:
    with pytest.raises(InputError, match="g: readouts must be given once, not as 'tops' too; got 'pupl'"):
        Grid("g", {"tops": "pupl", "readouts": "pupl"})


def test_every_view_takes_its_own_defaults() -> None:
    for name in entries("views"):
        recipe = {"quick": {"view": name}}
        block = {"objectives": "sscl", "encoder": "mlp", "recipes": "quick", "readouts": "pupl"}
        content = {"tasks": "digits", "n_labelled": 100, "seeds": 0, "recipe": recipe, "block": [block]}
        assert cells_in(content)[0].recipe.view == name


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
def test_places_that_nothing_can_be_computed_on(empty_bench: Command, tmp_path: Path, device: str) -> None:
    (tmp_path / "g.toml").write_text(PLACE + BASELINES, encoding="utf-8")
    message = f"--device must be 'cpu', 'cuda', 'cuda:1' …; got '{device}'"
    assert said(empty_bench, "run", "g.toml", "--device", device) == message


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device must be 'cpu' on a machine without a CUDA device; got 'cuda:1'"):
        pick_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="must be 'cpu', or 'cuda:0' to 'cuda:1' on this machine; got 'cuda:2'"):
        pick_device("cuda:2")
    assert str(pick_device("cuda:1")) == "cuda:1" and str(pick_device("cpu")) == "cpu"
