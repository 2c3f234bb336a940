"""``pucl pretrain`` as people type it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import pucl
from pucl.encoders.saved import load_encoder

from conftest import SRC, Command, environment

QUICK = ("--epochs", "2", "--batch-size", "128", "--device", "cpu")


def typed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "pucl", "pretrain", *map(str, words)]
    return subprocess.run(start, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_own_vectors_to_an_encoder_that_loads(tmp_path: Path, command: Command) -> None:
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(200, 5)).astype(np.float32), np.arange(200) < 30
    np.savez(tmp_path / "mine.npz", x=x, known=s)
    done = typed(tmp_path / "mine.npz", "--label", "known", "--out", tmp_path / "out", *QUICK)
    assert done.returncode == 0 and done.stderr == "", "silent in a pipe"
    assert "2 epochs, loss" in done.stdout and str(tmp_path / "out") in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    fields = {"loss", "learning_rate", "alignment", "uniformity", "images_per_second", "rank", "step", "warnings"}
    assert fields <= set(lines[-1])
    z = pucl.embed(load_encoder(tmp_path / "out"), x)
    assert z.shape == (200, 300) and z.isfinite().all()
    again = command("pretrain", tmp_path / "mine.npz", "--label", "known", "--out", tmp_path / "out", *QUICK)
    assert again.code == 2 and again.err.count("\n") == 1, "an old run is not written over"
    assert torch.equal(z, pucl.embed(load_encoder(tmp_path / "out"), x))


def test_a_table_keeps_its_transform(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("pandas")
    rows = "\n".join(f"{i},{i % 7},{'ab'[i % 2]},{int(i < 20)}" for i in range(120))
    (tmp_path / "t.csv").write_text(f"id,number,kind,known\n{rows}\n")
    words = ("--label", "known", "--out", tmp_path / "out", "--epochs", "1", "--device", "cpu")
    done = command("pretrain", tmp_path / "t.csv", *words)
    assert done.code == 0, done.err
    transform = pucl.TableTransform.from_json((tmp_path / "out" / "table.json").read_text())
    assert "number" in transform.columns


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digits",), "--labelled must be given with a task such as 'digits'"),
        (("digits", "--labelled", "100", "--epochs", "0"), "pucl pretrain: --epochs must be"),
        (("digits", "--labelled", "100", "--optimiser", "adam"), "did you mean 'adamw'?"),
        (
            ("digits", "--labelled", "100", "--batch-size", "4096"),
            "pucl pretrain: --batch-size must be at most the number of rows (1,158)",
        ),
        (("digits", "--labelled", "100", "--encoder", "lenet5"), "images of at least"),
        (("nothing.csv", "--label", "s"), "nothing.csv"),
        (
            ("digits", "--labelled", "100", "--out", "/proc/none/out"),
            "pucl pretrain: --out must be in a place that can be written to; /proc/none/out: ",
        ),
        (
            ("digits", "--labelled", "100", "--log", "/proc/none/log.jsonl"),
            "pucl pretrain: --log must be in a place that ",
        ),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], message: str, tmp_path: Path, command: Command) -> None:
    done = command("pretrain", "--out", tmp_path / "out", *words)  # of two the last counts
    assert done.code == 2 and done.out == ""
    assert done.err.count("\n") == 1 and message in done.err
    assert not (tmp_path / "out" / "encoder.json").exists()


@pytest.mark.slow
def test_interrupted_it_says_where_it_saved(tmp_path: Path) -> None:
    words = ["digits", "--labelled", "100", "--epochs", "500", "--batch-size", "256", "--device", "cpu"]
    start = [sys.executable, "-m", "pucl", "pretrain", *words, "--out", str(tmp_path)]
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "log.jsonl").exists() or not (tmp_path / "log.jsonl").read_text():
            assert process.poll() is None, "it ended before it was interrupted"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and told.count("\n") == 1 and "stopped: saved to" in told
    assert list((tmp_path / "checkpoints").glob("step-*.json"))


@pytest.mark.slow
def test_several_processes_from_the_command(tmp_path: Path) -> None:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pucl"]
    x = np.random.default_rng(0).normal(size=(200, 5))  # float64: training takes float32, in a file that they share
    np.savez(tmp_path / "mine.npz", x=x, known=np.arange(200) < 30)
    (tmp_path / "shared").mkdir()
    words = ["pretrain", str(tmp_path / "mine.npz"), "--label", "known", "--out", str(tmp_path / "out"), *QUICK]
    env = {**environment(SRC), "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path / "shared")}
    done = subprocess.run([*start, *words], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("2 epochs, loss") == 1, "one process speaks"
    assert not list((tmp_path / "shared").glob("pucl-*"))
    alone = typed(tmp_path / "mine.npz", "--label", "known", "--out", tmp_path / "alone", *QUICK)
    assert alone.returncode == 0
    z, expected = (pucl.embed(load_encoder(tmp_path / out), x) for out in ("out", "alone"))
    assert torch.allclose(z, expected, atol=1e-3), "the same rows in the same batches"
