"""What a fit shows while it goes on: plain lines in a pipe, a live line on a terminal, and the time that is left."""

import io
import threading
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits

from pucl import PUClassifier
from pucl.fitting import progress
from pucl.fitting.fit import fit
from pucl.fitting.plan import FitOptions
from pucl.fitting.progress import PAUSE, ProgressLines, StageProgress
from pucl.heads.tuning import TuneConfig
from pucl.models.schema import learn_schema


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(progress, "BEAT", 3600.0)  # only what is reported makes a line
    return Clock()


def test_plain_lines_name_the_stage_and_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLines("pucl fit", clock=clock) as report:
        report(StageProgress("reading"))
        clock.now += 5
        report(StageProgress("ranking", 0.0, "logistic regression", 40.0))
        clock.now += 20
        report(StageProgress("pretraining", 0.0, "60 epochs"))
        clock.now += 30
        report(StageProgress("pretraining", 0.25, "epoch 15 of 60, loss 4.812"))
        clock.now += 60
        report(StageProgress("pretraining", 1.0, "epoch 60 of 60, loss 4.012"))
    out, err = capsys.readouterr()
    assert out == "" and "\r" not in err
    assert err.splitlines() == [
        "pucl fit: ranking, logistic regression, about 0:00:40 left (0:00:05 so far)",
        "pucl fit: pretraining, 60 epochs (0:00:25 so far)",
        "pucl fit: pretraining, epoch 15 of 60, loss 4.812, about 0:01:30 left (0:00:55 so far)",
        "pucl fit: pretraining, epoch 60 of 60, loss 4.012 (0:01:55 so far)",
    ]


def test_a_fit_stopped_as_its_thread_starts_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before, start = threading.active_count(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), ProgressLines("pucl fit"):
        pytest.fail("it was stopped before")
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_plain_lines_are_few(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLines("pucl fit", clock=clock) as report:
        for step in range(100_000):
            report(StageProgress("pretraining", step / 100_000))
            clock.now += 0.01
    lines = capsys.readouterr().err.splitlines()
    assert 1000 / (2 * PAUSE) < len(lines) < 1000 / PAUSE
    with ProgressLines("pucl fit", clock=clock) as report:
        report(StageProgress("reading"))
        clock.now += 1.5
        report(StageProgress("judging"))
    assert capsys.readouterr().err == "", "a quick fit is silent"


def test_a_stage_that_resumes_counts_from_where_it_was(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLines("pucl fit", clock=clock) as report:
        report(StageProgress("pretraining", 0.8))
        clock.now += 10
        report(StageProgress("pretraining", 0.9))
    assert "about 0:00:10 left" in capsys.readouterr().err


def test_a_stage_that_reports_nothing_is_heard_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "BEAT", 0.01)
    clock = Clock()
    with ProgressLines("pucl fit", clock=clock) as report:
        report(StageProgress("labelling"))
        clock.now += 60
        time.sleep(0.3)
    assert "pucl fit: labelling (0:01:00 so far)" in capsys.readouterr().err


@pytest.mark.slow
def test_every_stage_of_a_fit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.fitting.tune.TuneConfig", partial(TuneConfig, epochs=1))
    x, s = load_digits().images[:60].astype(np.float32), np.arange(60) < 20
    schema, rows = learn_schema(x)
    options = FitOptions(encoder="small_cnn", epochs=2, fine_tune=True, labeller="pupl", head="linear", prior=0.3)
    heard: list[StageProgress] = []
    fit(rows, s, schema, options, device="cpu", on_progress=heard.append)
    stages = list(dict.fromkeys(each.stage for each in heard))
    assert stages == ["pretraining", "comparing", "labelling", "fine-tuning", "judging"]
    training = [each for each in heard if each.stage == "pretraining"]
    assert training[-1].done == 1.0 and training[-1].detail.startswith("epoch 2 of 2, loss ")
    assert all(0 <= each.done <= 1 for each in heard)
    table = np.random.default_rng(0).normal(size=(80, 3))
    schema, rows = learn_schema(table)
    heard.clear()
    fit(rows, np.arange(80) < 30, schema, FitOptions(time_limit=1e-3), device="cpu", on_progress=heard.append)
    ranking = [each for each in heard if each.stage == "ranking"]
    assert ranking[0].detail == "logistic regression" and ranking[0].seconds is not None and len(ranking) == 5


def test_verbose_shows_stages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    x = np.random.default_rng(0).normal(size=(80, 3))
    quick = PUClassifier(encoder="raw", head="linear", labeller="pupl", prior=0.3, random_state=0)
    quick.set_params(verbose=True).fit(x, np.arange(80) < 30)
    out, err = capsys.readouterr()
    assert err.startswith("PUClassifier: comparing, raw + pupl + linear") and "PUClassifier: judging" in err
    assert "\r" not in err and "Model: encoder raw" not in err + out, "that is for the logger"
    quick.set_params(verbose=False).fit(x, np.arange(80) < 30)
    assert capsys.readouterr() == ("", "")


def test_a_live_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with ProgressLines("pucl fit") as report:
        report(StageProgress("reading"))
        report(StageProgress("pretraining", 0.5, "epoch 1 of 2, loss 4.812"))
        report(StageProgress("pretraining", 1.0, "epoch 2 of 2, loss 4.012"))
        time.sleep(0.2)  # it is drawn ten times a second
    shown = screen.getvalue()
    assert "reading" in shown and "pretraining" in shown and "epoch 2 of 2, loss 4.012" in shown
    assert "so far" not in shown and "\x1b[" in shown, "one line that is drawn again, not many"


@pytest.mark.parametrize("limit", [0.0, 3600.0])
def test_training_that_takes_long_is_said_early_and_once(monkeypatch: pytest.MonkeyPatch, limit: float) -> None:
    monkeypatch.setattr("pucl.fitting.encode.LOOK_AFTER", 0.0)
    monkeypatch.setattr("pucl.fitting.encode.LONG", limit)
    digits = load_digits()
    x, s = digits.images[:200], (digits.target[:200] % 2 == 1) & (np.arange(200) % 4 < 2)
    quick: dict[str, Any] = {"epochs": 3, "batch_size": 64, "labeller": "pupl", "head": "linear"}
    model = PUClassifier(encoder="small_cnn", random_state=0, device="cpu", **quick)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, s)
    said = [str(each.message) for each in caught if "take about" in str(each.message)]
    faster = "a GPU, smaller images, time_limit=, encoder='efficientnet_lite0' or encoder='raw' make it faster"
    told = f"about 1 h more; {faster}"
    assert [each.partition("take ")[2] for each in said] == ([told] if limit == 0 else [])
