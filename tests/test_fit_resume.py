"""A fit that is stopped, in whatever way, goes on to the very model of one that never was."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from model_examples import write_images
from pucl import PUClassifier
from pucl.errors import InputError
from pucl.fitting import tune
from pucl.fitting.compare import compare
from pucl.fitting.modes import MODES
from pucl.heads.tuning import TuneConfig
from pucl.models.folder import load_model
from pucl.training.pretraining import pretrain
from pucl.training.reporting import Epoch

from conftest import Command

EPOCHS = 16
WORDS = (
    *("fit", "pictures", "--encoder", "small_cnn", "--epochs", str(EPOCHS), "--labeller", "pupl", "--head", "linear"),
    *("--prior", "0.4", "--batch-size", "24", "--device", "cpu"),
)
OF_THIS_PROCESS = ("seconds", "created", "command")  # of the record


@pytest.fixture
def pictures(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    write_images(tmp_path / "pictures", n=96)
    monkeypatch.chdir(tmp_path)
    return command


def content(model: str) -> dict[str, Any]:
    """Every file of a model, without what differs from process to process."""
    files: dict[str, Any] = {path.name: path.read_bytes() for path in Path(model).iterdir()}
    about = json.loads(files.pop("model.json"))
    del about["sha256"]
    record = {name: value for name, value in about.pop("record").items() if name not in OF_THIS_PROCESS}
    return {**files, "about": about, "record": record}


def kill(at: str) -> None:
    """Start a fit and kill it as soon as a file is there."""
    start = [sys.executable, "-m", "pucl", *WORDS, "--out", "m"]
    with subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not list(Path("m").glob(at)):
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_killed_in_the_middle_of_pretraining(pictures: Command) -> None:
    whole = pictures(*WORDS, "--out", "whole")
    assert whole.code == 0, whole.err
    kill(at=".fit/pretraining/step-*.json")
    steps = [int(path.stem[5:]) for path in Path("m").glob(".fit/pretraining/step-*.json")]
    assert 0 < max(steps) < EPOCHS * 4, "the middle of pretraining"
    with pytest.raises(InputError, match=r"got 'm', whose fit was interrupted \('pucl fit … --resume' goes on\)"):
        load_model("m")
    again = pictures(*WORDS, "--out", "m")
    assert again.code == 2 and "--resume is given to go on with the fit in it, or --overwrite to start" in again.err
    resumed = pictures(*WORDS, "--out", "m", "--resume")
    assert resumed.code == 0, resumed.err
    assert content("m") == content("whole")


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(pictures: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(
            "pucl.fitting.encode.pretrain", lambda *x, **more: pretrain(*x, **{**more, "on_epoch": interrupt})
        )
        stopped = pictures(*WORDS, "--out", "m")
    words = " ".join(("pucl", *WORDS, "--out", "m", "--resume"))
    assert stopped == (130, "", f"pucl fit: stopped; to go on: {words}\n")
    for more, message in (
        (("--epochs", "41"), f"--epochs must be {EPOCHS}, as in the interrupted fit, to resume it (to start anew, "),
        (("--fine-tune",), "--fine-tune must be left out, as in the interrupted fit"),
        (("--rows", "90"), "--rows must be left out, as in the interrupted fit"),
        (("--size", "9"), "--size must be left out, as in the interrupted fit"),
    ):
        run = pictures(*WORDS, "--out", "m", "--resume", *more)
        assert run.code == 2 and run.err.startswith(f"pucl fit: {message}") and run.err.count("\n") == 1, run.err
    which = Path("m/.fit/fit.json")
    known = which.read_text(encoding="utf-8")
    which.write_text(known.replace('"pucl": "', '"pucl": "7.'), encoding="utf-8")
    assert "the interrupted fit used pucl 7." in pictures(*WORDS, "--out", "m", "--resume").err
    which.write_text(known, encoding="utf-8")
    moved = Path("pictures/positive/00.png")
    moved.rename("pictures/unlabelled/00.png")
    run = pictures(*WORDS, "--out", "m", "--resume")
    told = "the data are not those of the interrupted fit: 96 rows with 32 labelled before, 96 rows with 31 "
    assert run.code == 2 and told in run.err and run.err.count("\n") == 1


class Stopped(KeyboardInterrupt):
    """Ctrl-C at a moment of our choice."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fine-tunings that were done; the second is interrupted."""
    found: list[str] = []
    real = tune.fine_tuned

    def fine_tuned(*given: Any, **options: Any) -> Any:
        found.append(given[4])
        if len(found) == 2:
            raise Stopped
        return real(*given, **options)

    monkeypatch.setattr(tune, "fine_tuned", fine_tuned)
    monkeypatch.setattr(tune, "TuneConfig", partial(TuneConfig, epochs=1))
    return found


def digits() -> tuple[Any, Any, PUClassifier]:
    bunch = load_digits()
    x, odd = bunch.images[:60].astype(np.uint8), bunch.target[:60] % 2 == 1
    s = (odd & (np.arange(60) % 2 == 0)).astype(int)
    options: dict[str, Any] = {"labeller": "pupl", "head": "linear", "prior": 0.4, "fine_tune": True, "device": "cpu"}
    return x, s, PUClassifier(encoder="small_cnn", epochs=2, random_state=0, **options)


@pytest.mark.slow
def test_what_was_fine_tuned_is_not_fine_tuned_again(calls: list[str], tmp_path: Path) -> None:
    x, s, classifier = digits()
    calls += ["", ""]  # an undisturbed fit first
    expected = classifier.fit(x, s).decision_function(x)
    calls.clear()
    classifier.set_params(checkpoint=tmp_path / "here")
    with pytest.raises(Stopped):
        classifier.fit(x, s)
    assert calls == list(MODES) and (tmp_path / "here" / "fit.json").is_file()
    for changed, message in (
        ({"epochs": 3}, "PUClassifier: epochs must be 2, as in the interrupted fit, to resume it"),
        ({"random_state": 1}, "PUClassifier: random_state must be 0, as in the interrupted fit, to resume it"),
    ):
        with pytest.raises(InputError, match=message):
            PUClassifier(**{**classifier.get_params(), **changed}).fit(x, s)
    with pytest.raises(InputError, match="60 rows with 6 labelled as before, but other values; to start anew, delete"):
        classifier.fit(x // 2, s)
    again = classifier.fit(x, s).decision_function(x)
    assert calls[2] == MODES[1] and len(calls) <= 4, "the first mode was kept"
    assert np.array_equal(again, expected) and not (tmp_path / "here").exists()
    assert np.array_equal(classifier.fit(x, s).decision_function(x), expected), "nothing is left of it"


def test_a_folder_of_other_things_is_no_checkpoint(tmp_path: Path) -> None:
    x, s, classifier = digits()
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="checkpoint must be a folder that is new, empty or of an interrupted fit"):
        classifier.set_params(checkpoint=tmp_path).fit(x, s)
    with pytest.raises(InputError, match="checkpoint must be a folder; got the file"):
        classifier.set_params(checkpoint=tmp_path / "thesis.txt").fit(x, s)


def test_a_fit_that_is_refused_leaves_nothing(pucl: Command) -> None:
    words = ("fit", "people.csv", "--label", "known", "--encoder", "small_cnn", "--out", "m")
    assert pucl(*words).code == 2 and not Path("m").exists()


@pytest.mark.slow
def test_a_time_limit_is_kept_to_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, s, classifier = digits()
    classifier.set_params(checkpoint=tmp_path / "here", time_limit=600, fine_tune=False)
    monkeypatch.setattr("pucl.fitting.fit.compare", stopped_once(compare))
    with pytest.raises(Stopped):
        classifier.fit(x, s)
    assert (tmp_path / "here" / "timing").is_dir()
    monkeypatch.setattr("pucl.fitting.encode.FOR_TRAINING", 0.0)  # now there would be no time at all
    assert len(classifier.fit(x, s).history_) == 2


def stopped_once(real: Any) -> Any:
    """A function that is interrupted when it is first called."""
    called: list[bool] = []

    def call(*given: Any) -> Any:
        called.append(True)
        if len(called) == 1:
            raise Stopped
        return real(*given)

    return call
