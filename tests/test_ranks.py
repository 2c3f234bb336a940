"""Several processes under torchrun are one run: the same losses, the same weights, checkpoints that fit any number."""

import json
import runpy
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pucl.distributed import averaging, own_part
from pucl.errors import InputError, RunError
from pucl.training.checkpoints import committed

from conftest import SRC, environment

STEPS = 20
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
import torch
from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.distributed import rank_and_world
from pucl.training import Checkpoints, TrainConfig, pretrain
from pucl.distributed import joined

torch.set_num_threads(1)
runs, resume, dies = json.loads(sys.argv[1]), sys.argv[2] == "resume", int(sys.argv[3])

def run(kind, chunk, out, device):
    data = load("digits" if kind == "image" else "gaussians")
    sample = make_pu(data.y_train, 40)
    x, s = data.x_train[sample.rows][:256], sample.s[:256]
    checkpoints = Checkpoints(out, every=5, keep=9) if kind == "image" else None
    # A high rate makes 9e-4 (images, rate 4) or 2e-4 (two features) of a change of 1e-7 in the input, in one process.
    rate = 0.3 if kind == "image" else 0.05
    config = TrainConfig(epochs=20, batch_size=256, chunk_size=chunk or None, learning_rate=rate, clip=1.0)
    def on_step(step, total):
        if step == dies and rank_and_world()[0] == rank_and_world()[1] - 1: os.kill(os.getpid(), signal.SIGKILL)
    trained = pretrain(x, s, config=config, device=device, checkpoints=checkpoints, resume=resume, on_step=on_step)
    if rank_and_world()[0] == 0:
        weights = torch.cat([p.detach().flatten() for p in trained.encoder.parameters()])
        buffers = torch.cat([p.detach().flatten().float() for p in trained.encoder.buffers()])
        out.mkdir(exist_ok=True)
        losses, kinds = [epoch.loss for epoch in trained.history], {type(m).__name__ for m in trained.encoder.modules()}
        content = {"loss": losses, "kinds": sorted(kinds), "weights": weights.tolist(), "buffers": buffers.tolist()}
        (out / "result.json").write_text(json.dumps(content))

with joined("cpu") as device:
    for kind, chunk, out in runs:
        run(kind, chunk, Path(out), device)
"""
RUNS = (("image", 0), ("table", 0), ("image", 64))  # what is trained, and the size of chunks, 0 for none


def train(
    world: int, folder: Path, runs: Sequence[tuple[str, int]] = RUNS[:1], *, resume: bool = False, dies: int = 0
) -> dict[tuple[str, int], Path]:
    """Where the runs of `world` processes are, of which the last kills itself after step `dies`.

    They run one after another in the same processes, whose start takes longer than a run.
    """
    folder.mkdir(exist_ok=True)
    script = folder / "script.py"
    script.write_text(SCRIPT)
    out = {(kind, chunk): folder / f"{kind}-{chunk}" for kind, chunk in runs}
    specification = json.dumps([[*run, str(path)] for run, path in out.items()])
    words = [str(script), specification, "resume" if resume else "new", str(dies)]
    if world == 1 and not dies:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "argv", words)
            threads = torch.get_num_threads()
            runpy.run_path(str(script))
            torch.set_num_threads(threads)
        return out
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    start = [sys.executable, *(torchrun if world > 1 else [])]
    done = subprocess.run(
        [*start, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**environment(SRC), "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode != 0) == bool(dies), done.stderr[-3000:]
    return out


def result(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "result.json").read_text())
    return content


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, int]], Path]:
    """Where a run of one process is; made by the first test that needs it."""

    @cache
    def made(run: tuple[str, int]) -> Path:
        return train(1, tmp_path_factory.mktemp("alone"), [run])[run]

    return made


@pytest.mark.slow
def test_two_processes_are_one(alone: Callable[[tuple[str, int]], Path], tmp_path: Path) -> None:
    """With chunks too: batch norm sees the same chunks, whoever has their rows."""
    both = train(2, tmp_path, RUNS)
    for run in RUNS:
        one, two = result(alone(run)), result(both[run])
        assert len(one["loss"]) == STEPS and one["loss"][-1] < one["loss"][0]
        np.testing.assert_allclose(one["loss"], two["loss"], rtol=0, atol=1e-4)
        for what in ("weights", "buffers"):
            scale = np.abs(one[what]).max()
            np.testing.assert_allclose(np.array(two[what]) / scale, np.array(one[what]) / scale, rtol=0, atol=1e-3)
        assert one["kinds"] == two["kinds"], "after training the batch norms are the network's own again"


@pytest.mark.slow
def test_processes_that_are_killed_and_replaced_by_fewer_and_more(
    alone: Callable[[tuple[str, int]], Path], tmp_path: Path
) -> None:
    """Two, one of which is killed; one, which is killed; two again."""
    (out,) = train(2, tmp_path, dies=8).values()
    assert newest(out) == 5
    train(1, tmp_path, resume=True, dies=13)
    assert newest(out) == 10
    train(2, tmp_path, resume=True)
    one, other = result(alone(RUNS[0])), result(out)
    np.testing.assert_allclose(one["loss"], other["loss"], rtol=0, atol=1e-4)
    scale = np.abs(one["weights"]).max()
    np.testing.assert_allclose(np.array(other["weights"]) / scale, np.array(one["weights"]) / scale, rtol=0, atol=1e-3)


def newest(folder: Path) -> int:
    return committed(folder)[-1]


class Wrapper(nn.Module):
    """As much of PyTorch's own wrapper as matters here."""

    class Reducer:
        pass

    def __init__(self, network: nn.Module, **_: Any) -> None:
        super().__init__()
        self.network, self.reducer, self.logger = network, Wrapper.Reducer(), object()


def test_after_an_error_nothing_holds_the_group_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.distributed.rank_and_world", lambda: (0, 2))
    monkeypatch.setattr("pucl.distributed.DistributedDataParallel", Wrapper)
    held: list[Any] = []

    def fail() -> None:
        with averaging(nn.Linear(2, 2)) as network:
            held.extend([network, weakref.ref(network.reducer)])
            raise RunError("stopped")

    with pytest.raises(RunError) as caught:
        fail()
    network, reducer = held
    assert network in caught.traceback[-1].locals.values() and reducer() is None


def test_batch_is_shared_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.distributed.rank_and_world", lambda: (1, 3))
    assert own_part(12) == slice(4, 8)
    with pytest.raises(InputError, match=r"batch_size must be a multiple of the number of processes \(3\); got 16"):
        own_part(16)
    assert torch.arange(12)[own_part(12)].tolist() == [4, 5, 6, 7]
