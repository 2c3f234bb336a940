"""A run that is stopped, in whatever way, goes on to the very weights of one that never was."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from checkpoint_examples import names, pairs
from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.encoders.saved import load_encoder
from pucl.errors import InputError, RunError
from pucl.training import Checkpoints, TrainConfig, pretrain
from pucl.training.reporting import Epoch

from conftest import Command

DATA = load("digits")
SAMPLE = make_pu(DATA.y_train, 100)
SOME = slice(0, None, 2)  # four steps an epoch are enough
X, S = DATA.x_train[SAMPLE.rows][SOME], SAMPLE.s[SOME]
CONFIG = TrainConfig(epochs=5, batch_size=128, learning_rate=4.0)
KILLS = int(os.environ.get("PUCL_TEST_KILLS", "2"))  # random moments at which a process is killed
WORDS = (
    *("pretrain", "digits", "--labelled", "100", "--epochs", "8", "--device", "cpu"),
    *("--batch-size", "256", "--learning-rate", "4", "--checkpoint-every", "1"),
)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten().to(torch.float64) for value in module.state_dict().values()])


def run(config: TrainConfig = CONFIG, **options: Any) -> Any:
    return pretrain(X, S, config=config, device="cpu", **options)


class StoppedError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"optimiser": "sgd", "learning_rate": 0.1, "clip": 0.5, "average": 0.9},
        {"optimiser": "adamw", "learning_rate": 1e-3},
        {"labelled_share": 0.25, "held_out": 0.2, "resident": False},
    ],
    ids=["lars", "sgd", "adamw", "share"],
)
def test_resumed_run_is_the_same_run(change: dict[str, Any], tmp_path: Path) -> None:
    config = replace(CONFIG, **change)
    whole = run(config, log=tmp_path / "whole.jsonl")

    def stop(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise StoppedError

    files: dict[str, Any] = {"checkpoints": Checkpoints(tmp_path / "saved", every=2), "log": tmp_path / "log.jsonl"}
    with pytest.raises(StoppedError):
        run(config, on_epoch=stop, **files)
    heard: list[int] = []
    again = run(config, resume=True, on_epoch=lambda epoch: heard.append(epoch.number), **files)
    assert heard == [3, 4, 5], "it goes on after the checkpoint of epoch 2"
    assert torch.equal(weights(whole.encoder), weights(again.encoder))
    assert whole.history == again.history and torch.equal(whole.held_out, again.held_out)
    told, whole_told = (
        [{**json.loads(line), "images_per_second": 0} for line in (tmp_path / name).read_text().splitlines()]
        for name in ("log.jsonl", "whole.jsonl")
    )
    assert told == whole_told and [line["epoch"] for line in told] == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_signal_saves_in_the_middle_of_an_epoch(number: signal.Signals, tmp_path: Path) -> None:
    calls, before = 100, signal.getsignal(number)

    def view(x: Tensor, generator: torch.Generator) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 7:  # the third of the four steps of epoch 2
            os.kill(os.getpid(), number)
        return (x + 0.1 * torch.randn(x.shape, generator=generator)).clamp(0, 1)

    whole = run(view=view)
    calls = 0
    folder = tmp_path / "saved"
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as caught:
        run(view=view, checkpoints=folder)
    assert getattr(caught.value, "code", 143) == 143
    assert [path.name for path in folder.glob("*.json")] == ["step-00000007.json"]
    assert signal.getsignal(number) == before
    calls = 100
    assert torch.equal(weights(whole.encoder), weights(run(view=view, checkpoints=folder, resume=True).encoder))


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, command: Command) -> None:
    """A process is killed while it trains; what goes on, and what was never killed, need no process of their own."""
    began = time.monotonic()
    done = command(*WORDS, "--out", tmp_path / "whole")
    assert done.code == 0, done.err
    lasts = time.monotonic() - began
    expected = (tmp_path / "whole" / "encoder.safetensors").read_bytes()
    moments = np.random.default_rng(0)
    for kill in range(KILLS):
        out = tmp_path / f"killed-{kill}"
        words = [sys.executable, "-m", "pucl", *WORDS, "--out", str(out)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while not out.exists():  # it is about to train
                assert process.poll() is None, "it ended before it was killed"
                time.sleep(0.02)
            time.sleep(moments.uniform(0, 0.85) * lasts)
            process.kill()
        again = command(*WORDS, "--out", out, "--resume")
        assert again.code == 0, again.err
        assert (out / "encoder.safetensors").read_bytes() == expected
    assert load_encoder(tmp_path / "whole")(torch.as_tensor(X[:3])).shape == (3, 512)


def test_a_finished_run_resumed_changes_nothing(tmp_path: Path) -> None:
    first = run(checkpoints=tmp_path)
    heard: list[Epoch] = []
    again = run(checkpoints=tmp_path, resume=True, on_epoch=heard.append)
    assert not heard and again.history == first.history
    assert torch.equal(weights(first.encoder), weights(again.encoder))


def test_what_a_kill_after_the_last_checkpoint_left_is_deleted(tmp_path: Path) -> None:
    run(checkpoints=Checkpoints(tmp_path, every=1, keep=3))
    for name in ("step-00000002.safetensors", ".step-00000002.json.tmp"):
        (tmp_path / name).write_bytes(b"not committed")
    assert len(names(tmp_path)) == 8
    run(checkpoints=Checkpoints(tmp_path, every=1, keep=1), resume=True)
    assert names(tmp_path) == pairs(20)


def test_checkpoints_of_something_else_are_refused(tmp_path: Path) -> None:
    run(replace(CONFIG, epochs=1), checkpoints=tmp_path)
    with pytest.raises(InputError, match=r"config\.epochs was 1; this run has 5"):
        run(checkpoints=tmp_path, resume=True)
    with pytest.raises(InputError, match="objective was 'pucl'; this run has 'sscl'"):
        run(replace(CONFIG, epochs=1), objective="sscl", checkpoints=tmp_path, resume=True)
    with pytest.raises(InputError, match=r"data was .*; this run has "):
        pretrain(X[1:], S[1:], config=replace(CONFIG, epochs=1), device="cpu", checkpoints=tmp_path, resume=True)
    with pytest.raises(InputError, match="checkpoints"):
        run(checkpoints=tmp_path)  # a new run does not write over an old one
    with pytest.raises(InputError, match="checkpoints must be given with resume=True"):
        run(resume=True)


def test_speed_settings_may_change_on_resume(tmp_path: Path) -> None:
    run(replace(CONFIG, epochs=1), checkpoints=tmp_path)
    run(replace(CONFIG, epochs=1, resident=False), checkpoints=tmp_path, resume=True)


def test_a_loss_of_nan_stops_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    def poison(x: Tensor, generator: torch.Generator) -> Tensor:
        del generator
        return x * float("nan") if calls else x

    calls: list[Epoch] = []
    with pytest.raises(
        RunError, match=r"the loss is nan after epoch 2 of 5: lower the learning rate .* are older and intact"
    ):
        run(view=poison, on_epoch=calls.append, checkpoints=Checkpoints(tmp_path, every=1))
    assert [path.name for path in tmp_path.glob("*.json")] == ["step-00000004.json"]
