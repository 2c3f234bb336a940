"""Options of objectives and sCL with the truth, from Python, the command and grids."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.bench.grid.cells import cell_from
from pucl.bench.pages.tables import label_of
from pucl.bench.run.exam import pose
from pucl.data import load
from pucl.data.observe import observe
from pucl.errors import InputError
from pucl.training import TrainConfig, pretrain

from bench_examples import SMALL, cells_in, cells_of, done, run_unit
from conftest import Command

DATA = load("digits")
SEEN = observe(DATA, 100)
CLASSES = DATA.y_train[SEEN.sample.rows]
QUICK = TrainConfig(epochs=1, batch_size=128, learning_rate=4.0)
FEW = 300  # rows, 100 of them labelled
X, S, Y = SEEN.x[:FEW], SEEN.s[:FEW], CLASSES[:FEW]


def loss_of(**options: Any) -> float:
    return pretrain(X, S, config=QUICK, **options).history[-1].loss


def test_mixing_goes_from_sscl_to_scl_pu() -> None:
    assert loss_of(objective="mcl", mixing=0) == pytest.approx(loss_of(objective="sscl"), abs=1e-5)
    assert loss_of(objective="mcl", mixing=1) == pytest.approx(loss_of(objective="scl_pu"), abs=1e-5)
    assert loss_of(objective="mcl", mixing=0.5) != pytest.approx(loss_of(objective="sscl"), abs=1e-3)


def test_the_released_punce_is_another_loss() -> None:
    paper, released = (loss_of(objective="punce", prior=0.5, variant=name) for name in ("paper", "released"))
    assert loss_of(objective="punce", prior=0.5) == paper != released


def test_scl_learns_from_the_classes_alone() -> None:
    told = loss_of(objective="scl", classes=Y)
    assert told == loss_of(objective="scl", classes=torch.as_tensor(Y).long()) != loss_of(objective="scl_pu")
    assert told == pretrain(X, np.roll(S, 7), objective="scl", classes=Y, config=QUICK).history[-1].loss


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "mcl"}, "mixing must be a number within [0, 1]; got None"),
        ({"objective": "mcl", "mixing": 1.5}, "mixing must be a number within [0, 1]; got 1.5"),
        ({"objective": "pucl", "mixing": 0.5}, "unknown option of pucl 'mixing': known: temperature"),
        (
            {"objective": "punce", "prior": 0.5, "variants": 1},
            "unknown option of punce 'variants': did you mean 'variant'?",
        ),
        (
            {"objective": "punce", "prior": 0.5, "variant": "relased"},
            "unknown variant of punce 'relased': did you mean",
        ),
        ({"objective": "scl"}, "classes must be given with 'scl', which learns from the class of every row"),
        ({"objective": "scl", "classes": [0, 1]}, "classes must be 1 or 0 for each of the 300 rows; got shape (2,)"),
        ({"objective": "scl", "classes": Y + 1}, "classes must be 1 or 0 for each of the 300 rows; got other"),
        ({"objective": "pucl", "classes": Y}, "classes must be left out; got some with 'pucl'"),
    ],
)
def test_what_pretrain_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pretrain(X, S, config=QUICK, on_epoch=lambda _: pytest.fail("it ran"), **options)
    assert str(caught.value).startswith(f"pucl.pretrain: {message}") and "\n" not in str(caught.value)


# The command


@pytest.mark.parametrize(
    ("words", "about"),
    [
        (("--objective", "mcl", "--mixing", "0.5"), {"objective": "mcl", "mixing": 0.5}),
        (
            ("--objective", "punce", "--prior", "0.5", "--variant", "released"),
            {"objective": "punce", "variant": "released"},
        ),
    ],
)
def test_the_command_trains_with_options(
    command: Command, tmp_path: Path, words: tuple[str, ...], about: dict[str, Any]
) -> None:
    out = tmp_path / "encoder"
    code, _, err = command("pretrain", "digits", "--labelled", 100, "--epochs", 1, "--out", out, *words)
    assert code == 0, err
    extra = json.loads((out / "encoder.json").read_text(encoding="utf-8"))["extra"]
    assert about.items() <= extra.items()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--objective", "mcl", "--mixing", "2"), "--mixing must be a number within [0, 1]; got 2.0"),
        (("--mixing", "0.5"), "unknown option of pucl 'mixing'"),
        (
            ("--objective", "punce", "--prior", "0.5", "--variant", "new"),
            "--variant: unknown variant of punce 'new': known: paper, released",
        ),
        (("--objective", "scl"), "classes must be given with 'scl'"),
    ],
)
def test_the_command_refuses_in_one_line(
    command: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "encoder"
    code, shown, err = command("pretrain", "digits", "--labelled", 100, "--epochs", 1, "--out", out, *words)
    assert (code, shown) == (2, "") and not out.exists()
    assert err.startswith(f"pucl pretrain: {message}") and err.count("\n") == 1


# Grids


@pytest.mark.slow
def test_a_grid_of_mixing_and_labels_runs(tmp_path: Path) -> None:
    block = {**SMALL["block"][0], "objectives": ["mcl"], "objective_options": {"mcl": {"mixing": [0, 0.5]}}}
    cells = cells_in({**SMALL, "n_labelled": [50, 100], "block": [block]})
    assert [cell.name.split(" (")[0] for cell in cells] == [
        f"digits {n} seed 0 mcl mixing={mixing}+pupl" for n in (50, 100) for mixing in (0, 0.5)
    ]
    losses = [done(*run_unit([cell], tmp_path)).metrics["loss"] for cell in cells]
    assert len(losses) == len(set(losses)) == 4
    assert len({cell.key for cell in cells}) == len({cell.encoder_cell.key for cell in cells}) == 4
    assert [cell_from(json.loads(json.dumps(cell.to_dict()))) for cell in cells] == cells
    assert label_of(None, cells[1]).method == "mCL mixing=0.5(puPL)"


def test_defaults_of_an_objective_change_no_cell() -> None:
    (plain,) = cells_of(objectives=["punce"], prior="oracle")
    options = {"punce": {"variant": ["paper", "released"]}}
    same, released = cells_of(objectives=["punce"], prior="oracle", objective_options=options)
    assert same.key == plain.key and "objective_options" not in same.to_dict()
    assert released.key != plain.key and released.objective_options == {"variant": "released"}
    assert released.encoder_cell.without_labels() == plain.encoder_cell.without_labels()


@pytest.mark.slow
def test_scl_in_a_grid_is_told_every_label(tmp_path: Path) -> None:
    told, observed = cells_of(objectives=["scl", "scl_pu"])
    assert told.is_reference and "told every label" in told.name and "told every label" in label_of(None, told).recipe
    assert not observed.is_reference and "told" not in observed.name
    losses = [done(*run_unit([cell], tmp_path)).metrics["loss"] for cell in (told, observed)]
    recipe = told.recipe.training
    expected = pretrain(
        SEEN.x, SEEN.s, objective="scl", classes=CLASSES, encoder="small_cnn", view="small_image", config=recipe
    )
    assert losses[0] == pytest.approx(expected.history[-1].loss, abs=1e-6) and losses[0] != losses[1]


def test_who_learns_from_an_encoder_that_was_told_is_a_reference() -> None:
    teacher = {"encoder": "small_cnn", "recipe": "quick", "readout": "pupl", "objective": "scl"}
    readout = {"pupil": {"labeller": "teacher", "head": "linear", "teacher": teacher}}
    (pupil,) = cells_in({**SMALL, "readout": readout, "block": [{**SMALL["block"][0], "readouts": ["pupil"]}]})
    assert pupil.is_reference and not pupil.knows_classes


def test_the_classes_of_an_exam_are_those_of_its_rows() -> None:
    observed, exam = pose(cells_of()[0].place)
    classes = exam.classes("scl")
    assert classes.shape == observed.s.shape and classes[observed.s].all() and 0.4 < classes[~observed.s].mean() < 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mcl": {"mixing": [0.5, 2]}}, "small: objective_options: mixing must be a number within [0, 1]; got 2"),
        ({"mcl": {"mix": 0.5}}, "small: objective_options: unknown option of mcl 'mix': did you mean 'mixing'?"),
        ({"mcl": {}}, "small: objective_options: mixing must be a number within [0, 1]; got None"),
        ({"mcll": {}}, "small: objective_options: unknown loss 'mcll': did you mean 'mcl'?"),
        ({"mcl": 0.5}, "small: objective_options: mcl must be a table; got 0.5"),
        (
            {"mcl": {"mixing": 0.5, "temperature": 0.1}},
            "small: objective_options: mcl: temperature must be given with the recipe or the block, not here; got 0.1",
        ),
    ],
)
def test_what_a_grid_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        cells_of(objectives=["mcl"], objective_options=options)
    assert str(caught.value).startswith(message)


def test_labels_cannot_be_withheld_from_scl() -> None:
    recipe = {"quick": {**SMALL["recipe"]["quick"], "withheld": 0.5}}
    with pytest.raises(InputError, match="withheld must be left out with 'scl', which sees all; got 0.5"):
        cells_in({**SMALL, "recipe": recipe, "block": [{**SMALL["block"][0], "objectives": ["scl"]}]})
