"""Memory that a training on a CPU keeps between its steps."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.encoders import make_encoder
from pucl.encoders.embedding import embed
from pucl.numerics import memory
from pucl.numerics.memory import kept_memory
from pucl.training import TrainConfig, pretrain

from conftest import SRC, environment

CPU = torch.device("cpu")
needs_glibc = pytest.mark.skipif(
    memory.glibc() is None, reason="the memory of this system is not managed by glibc alone"
)


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def train(x: torch.Tensor, on_step: Callable[[int, int], None] = lambda _done, _all: None) -> None:
    config = TrainConfig(epochs=1, batch_size=128, learning_rate=1.0)
    pretrain(x, torch.arange(len(x)) < 100, encoder="small_cnn", config=config, device="cpu", on_step=on_step)


def resident() -> float:
    """MB of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def faults_of_later_steps(x: torch.Tensor) -> int:
    """Page faults after the first step, which has to ask for memory: how much depends on what the process has left."""
    seen: list[int] = []
    train(x, lambda _done, _all: seen.append(faults()))
    assert len(seen) == 5
    return seen[-1] - seen[0]


MEASURE = """
import json, torch
from pucl.numerics import memory
from test_kept_memory import CPU, faults_of_later_steps, resident, train

x = torch.rand(640, 1, 33, 33)
train(x[:128])
found = {"faults kept": faults_of_later_steps(x), "before": resident()}
with memory.kept_memory(CPU):
    torch.ones(1 << 27)
    found["during"] = resident()
found["after"] = resident()
print(json.dumps(found))
"""
WITHOUT = """
import torch
from pucl.numerics import memory
from test_kept_memory import faults_of_later_steps, train

memory.glibc = lambda: None
x = torch.rand(640, 1, 33, 33)
train(x[:128])
print(faults_of_later_steps(x))
"""


def in_a_new_process(code: str) -> Any:
    """What the code prints where no earlier test has left memory behind."""
    env = {**environment(SRC), "PYTHONPATH": os.pathsep.join([str(SRC), str(Path(__file__).parent)])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return json.loads(run.stdout)


@needs_glibc
@pytest.mark.slow
def test_a_training_asks_for_its_memory_once_and_gives_it_back() -> None:
    found, without = in_a_new_process(MEASURE), in_a_new_process(WITHOUT)
    assert found["faults kept"] < without / 10
    assert found["during"] > found["before"] + 500
    assert found["after"] < found["before"] + 100


@needs_glibc
@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_people_who_set_their_memory_keep_what_they_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "")
    assert memory.glibc() is None
    with kept_memory(CPU):
        pass


@needs_glibc
@pytest.mark.slow
def test_it_is_given_back_when_a_training_is_stopped() -> None:
    x, during = torch.rand(128, 1, 48, 48), []
    train(x)

    def stop(_done: int, _all: int) -> None:
        during.append(resident())
        raise KeyboardInterrupt

    before = resident()
    with pytest.raises(KeyboardInterrupt):
        train(x, stop)
    assert during[0] > before + 150 and resident() < before + 100


@pytest.mark.skipif(sys.platform != "linux", reason="other systems manage memory otherwise")
def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    assert memory.glibc() is None


def test_embeddings_do_not_depend_on_how_many_images_go_through_together() -> None:
    x = torch.randint(0, 256, (70, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    encoder = make_encoder("small_cnn", (3, 40, 40), seed=0)
    at_once: list[int] = []
    handle = encoder.register_forward_hook(lambda _module, rows, _out: at_once.append(len(rows[0])))
    z = embed(encoder, x / 255)
    handle.remove()
    assert max(at_once) == (1 << 16) // 1600 and sum(at_once) == 70
    with torch.no_grad():
        whole = torch.nn.functional.normalize(encoder.eval()(x / 255), dim=1)
    torch.testing.assert_close(z, whole, rtol=1e-6, atol=1e-7)
