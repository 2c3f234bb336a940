"""studies/choose_readout.py: what is compared, that hidden rows teach nothing, and that nothing is run twice."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pucl.bench.run.encoding import EncoderStore
from pucl.bench.run.exam import ObservedRows
from pucl.selection import hold_out

SCRIPT = Path(__file__).parents[1] / "studies" / "choose_readout.py"
GRID = """
tasks = ["digits"]
n_labelled = [100]
seeds = [0, 1]
encoder = "small_cnn"
recipes = "quick"

[recipe.quick]
epochs = 1
batch_size = 256
learning_rate = 4.0
view = "small_image"

[readout.quick]
labeller = "kernel_cvir"
labeller_options = { repeats = 1 }
head = "linear"

[readout.taught]
labeller = "teacher"
teacher = { encoder = "small_cnn", recipe = "quick", readout = "pupl" }
head = "finetune"

[[block]]
objectives = "pucl"
readouts = ["pupl", "quick", "taught", "ceiling", "knn"]
"""


@pytest.fixture(scope="module")
def choose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("choose_readout", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(choose: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    (folder / "g.toml").write_text(GRID, encoding="utf-8")
    words = [str(folder / "g.toml"), "--device", "cpu", "--encoders", str(folder / "e"), "--out", str(folder / "o")]
    monkeypatch.setattr(sys, "argv", ["choose_readout.py", *words])
    choose.main()
    return [json.loads(text) for text in (folder / "o").read_text(encoding="utf-8").splitlines()]


def test_readouts_are_judged_by_rows_that_nothing_was_learnt_from(
    choose: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[ObservedRows] = []

    def remembering(name: str, at: int) -> None:
        real = getattr(EncoderStore, name) if name == "encoder" else getattr(choose, name)

        def called(*args: Any, **options: Any) -> Any:
            given.append(args[at])
            return real(*args, **options)

        monkeypatch.setattr(EncoderStore if name == "encoder" else choose, name, called)

    remembering("encoder", 2)
    remembering("Embedded", 1)
    lines = run(choose, tmp_path, monkeypatch)
    assert [line["readout"] for line in lines] == ["pupl", "quick"]  # of one seed, without references and teachers
    for_encoder, for_labels = given
    hidden = hold_out(np.arange(len(for_encoder.s)) < 100, 0.2, 0)
    assert for_encoder.s.sum() == 80 and not for_encoder.s[hidden].any()
    assert np.array_equal(for_labels.x, for_encoder.x[~hidden]) and for_labels.s.sum() == 80
    assert {line["hidden"] for line in lines} == {20}
    assert all(0.5 < line["pu_auc"] < 0.95 and 0 < line["error"] < 0.1 for line in lines)
    said = capsys.readouterr().out.splitlines()[-2:]
    assert [text.split()[0] for text in said] == sorted((f"{line['pu_auc']:.4f}" for line in lines), reverse=True)
    assert run(choose, tmp_path, monkeypatch) == lines and len(given) == 2  # nothing was run again
