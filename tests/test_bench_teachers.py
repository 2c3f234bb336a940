"""Pipelines that learn from others, and teachers that are kept."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.bench.grid.cells import Pipeline, Readout, units
from pucl.bench.results.line import ResultLine
from pucl.bench.run import work
from pucl.bench.run.encoding import EncoderStore, KeptTeacher
from pucl.bench.run.exam import Exam, pose
from pucl.bench.run.stages import Embedded, RowScorer, fit_readout
from pucl.encoders.inputs import to_float

from bench_examples import RECIPE, SMALL, TAUGHT, cells_in, done, run_unit


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_a_cell_learns_from_a_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {**SMALL, "readout": {"taught": TAUGHT}}
    block = {"objectives": ["pucl"], "encoder": "mlp", "recipes": ["quick"], "readouts": ["taught"]}
    (cell,) = cells_in({**content, "block": [block]})
    teacher = cell.readout.teacher
    assert teacher is not None and teacher.place == cell.place
    assert cell.encoder == "mlp" and teacher.encoder == "small_cnn" and cell.prior is None
    assert teacher.recipe.training.epochs == 1 and cell.readout.head_options["soft"] is True
    line = done(*run_unit([cell], tmp_path))
    assert line.accuracy > 55 and "pseudo_label_accuracy" in line.metrics
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2, "both encoders are kept"
    other = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "readout": "pupl"}}
    (changed,) = cells_in({**content, "readout": {"taught": other}, "block": [block]})
    assert changed.key != cell.key
    named = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "encoder": {"digits": "small_cnn"}}}
    (same,) = cells_in({**content, "readout": {"taught": named}, "block": [block]})
    assert same.key == cell.key, "an encoder may be named by task"
    matched = {**TAUGHT, "head_options": {**TAUGHT["head_options"], "match": True, "mixup": 1.0}}
    (asked,) = cells_in({**content, "readout": {"taught": matched}, "block": [block]})
    assert done(*run_unit([asked], tmp_path)).accuracy != line.accuracy, "asked about views"
    own = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "encoder": "mlp"}}
    both = cells_in(
        {**content, "readout": {"taught": own}, "block": [{**block, "readouts": ["kernel_cvir", "taught"]}]}
    )
    (unit,) = units(both)
    with monkeypatch.context() as patched:
        fitted: list[str] = []

        def watched(readout: Readout, *given: Any) -> Any:
            fitted.append(readout.name)
            return fit_readout(readout, *given)

        patched.setattr("pucl.bench.run.work.fit_readout", watched)
        again = run_unit(unit, tmp_path)
    assert all(one.line is not None for one in again) and fitted == ["kernel_cvir", "taught"], (
        "its teacher is there already"
    )
    oracle = {**TAUGHT, "teacher": {**TAUGHT["teacher"], "readout": "nnpu"}}
    (spoilt,) = cells_in({**content, "readout": {"taught": oracle}, "block": [block]})
    assert spoilt.prior == "oracle", "what the teacher is given, the pupil is given"


@pytest.mark.slow
def test_a_fine_tuned_teacher_is_kept_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {name: {**RECIPE, "epochs": epochs} for name, epochs in (("a", 1), ("b", 2))}
    readouts = {
        "tuned": {"labeller": "pupl", "head": "finetune", "head_options": {"epochs": 1}},
        "taught": {
            "labeller": "teacher", "head": "finetune", "head_options": {"epochs": 1, "renew": False, "match": True},
            "teacher": {"encoder": "small_cnn", "recipe": "a", "readout": "tuned"},
        },
    }  # fmt: skip
    block = {"objectives": ["pucl"], "encoder": "mlp", "recipes": ["a", "b"], "readouts": ["taught"]}
    pupils = cells_in({**SMALL, "recipe": recipes, "readout": readouts, "block": [block]})
    teacher = pupils[0].readout.teacher
    assert teacher is not None
    fitted: list[str] = []
    teachers: list[RowScorer] = []

    def watched(readout: Readout, rows: Embedded, exam: Exam, scorer: RowScorer | None) -> Any:
        fitted.append(readout.name)
        if readout.name == "tuned":
            warnings.warn("of the teacher", stacklevel=1)
        elif scorer is not None:
            teachers.append(scorer)
        return fit_readout(readout, rows, exam, scorer)

    def run(cell: Pipeline) -> tuple[Any, ResultLine]:
        """What the teacher thinks of all rows and of a batch, and the pupil's line."""
        fitted.clear()
        line, x = done(*run_unit([cell], tmp_path)), pose(cell.place)[0].x
        with torch.no_grad():
            return torch.cat([teachers[-1](x), teachers[-1].scorer(to_float(torch.as_tensor(x[:100])))]), line

    monkeypatch.setattr(work, "fit_readout", watched)
    first, line = run(pupils[0])
    assert fitted == ["tuned", "taught"] and line.warnings == ("of the teacher",)
    kept, again = run(pupils[0])
    assert fitted == ["taught"] and torch.equal(kept, first)
    assert again.metrics == line.metrics and again.warnings == line.warnings
    assert torch.equal(run(pupils[1])[0], first) and fitted == ["taught"]  # of another encoder, with the same teacher
    (place,) = (path for path in tmp_path.glob("*/encoder.json") if '"bias"' in path.read_text(encoding="utf-8"))
    about = json.loads(place.read_text(encoding="utf-8"))
    outdated = {**about["extra"], "revisions": {"stage/fine_tuning": 0}}
    place.write_text(json.dumps({**about, "extra": outdated}), encoding="utf-8")
    run(pupils[0])
    assert fitted == ["tuned", "taught"]
    store = EncoderStore(tmp_path, "cpu")
    assert store.stored(place.parent, teacher, KeptTeacher) is not None
    assert store.stored(place.parent, teacher.at(replace(teacher.place, seed=9)), KeptTeacher) is None
    assert replace(store, anew=True).stored(place.parent, teacher, KeptTeacher) is None
