"""``pucl pretrain --engine ray``: the run of one process in workers of a cluster, also when one of them is killed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pucl.errors import InputError, RunError
from pucl.training import on_ray

from conftest import SRC, Command, environment

RUN = (
    *("digits", "--labelled", "100", "--device", "cpu"),
    *("--epochs", "6", "--batch-size", "256", "--checkpoint-every", "2", "--learning-rate", "0.3"),
)
# The second worker kills itself once, in the middle of the fourth epoch.
SCRIPT = """
import json, os, signal, sys
from functools import partial
from pathlib import Path
import ray
from pucl.cli.app import app
from pucl.training.on_ray import run_on_ray

def work(out):
    import torch
    from pucl.cli.app import app
    from pucl.distributed import rank_and_world
    from pucl.training.reporting import Reporter
    torch.set_num_threads(1)
    step = Reporter.step
    def deadly(self, result):
        step(self, result)
        if self.run.at == 14 and rank_and_world()[0] == 1 and not (out / "killed").exists():
            (out / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    Reporter.step = deadly
    app(["pretrain", *sys_words, "--out", str(out / "killed-run"), "--resume"], standalone_mode=False)

out, sys_words = Path(sys.argv[1]), sys.argv[2:]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
app(["pretrain", *sys_words, "--out", str(out / "run"), "--engine", "ray", "--workers", "2"], standalone_mode=False)
run_on_ray(partial(work, out), workers=2, folder=out, owner="test")
"""


def losses(out: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.cluster
def test_two_workers_are_one_process_even_if_one_is_killed(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    assert command("pretrain", *RUN, "--out", tmp_path / "alone").code == 0
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {**environment(SRC), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(tmp_path / "script.py"), str(tmp_path), *RUN]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("6 epochs, loss") == 1, "the command says once what it did"
    assert (tmp_path / "killed").exists()
    for out in ("run", "killed-run"):
        np.testing.assert_allclose(losses(tmp_path / out), losses(tmp_path / "alone"), rtol=0, atol=1e-4)
        assert (tmp_path / out / "encoder.safetensors").is_file() and not (tmp_path / out / "ray").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", "2"), "--workers must be given with --engine ray; got 2"),
        (("--address", "auto"), "--address must be given with --engine ray; got 'auto'"),
        (("--engine", "spark"), "--engine: unknown engine 'spark': known: ray"),
        (("--engine", "ray", "--workers", "0"), "--workers must be a whole number ≥ 1; got 0"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], message: str, tmp_path: Path, command: Command) -> None:
    done = command("pretrain", *RUN, "--out", tmp_path / "out", *words)
    assert (done.code, done.err) == (2, f"pucl pretrain: {message}\n") and not (tmp_path / "out").exists()


def test_without_ray_it_says_how_to_get_it(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = command("pretrain", *RUN, "--out", tmp_path / "out", "--engine", "ray")
    assert done.code == 2 and done.err.count("\n") == 1 and "pip install 'ray[train]'" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_nothing_but_the_engine_needs_ray(command: Command, tmp_path: Path) -> None:
    words = ("digits", "--labelled", "100", "--epochs", "1", "--batch-size", "256", "--device", "cpu")
    assert command("pretrain", *words, "--out", tmp_path).code == 0


def cluster(**resources: float) -> Any:
    return SimpleNamespace(cluster_resources=lambda: resources)


def test_workers_are_gpus_where_there_are_any_and_no_more_than_there_are() -> None:
    kind = on_ray._kind_of_workers
    assert kind(cluster(CPU=8.0, GPU=2.0), "x", 2, gpus=True) == "GPU"
    assert kind(cluster(CPU=8.0, GPU=2.0), "x", 8, gpus=False) == "CPU"
    assert kind(cluster(CPU=8.0), "x", 3, gpus=True) == "CPU"
    with pytest.raises(InputError, match="workers must be at most the GPUs of the cluster; got 3 for 2"):
        kind(cluster(CPU=8.0, GPU=2.0), "x", 3, gpus=True)


def test_a_worker_with_another_version_is_refused() -> None:
    with pytest.raises(RunError, match=r"the workers have pucl .* and the command has pucl 0\.0; install the same"):
        on_ray._work({"version": "0.0", "function": lambda: 1})
    assert on_ray._work({"version": on_ray.__version__, "function": lambda: 1}) == 1


def test_the_error_of_a_worker_is_the_error_of_the_command() -> None:
    own = InputError("x must be y", owner="pucl.pretrain")
    error = SimpleNamespace(worker_failures={0: RuntimeError("connection lost"), 1: own})
    assert on_ray._in_one_line("pucl pretrain", error) is own
    lost = on_ray._in_one_line("pucl pretrain", SimpleNamespace(worker_failures={1: RuntimeError("killed\nby 9")}))
    assert str(lost) == "pucl pretrain: workers were lost 4 times, the last time by: killed by 9"


def test_a_cluster_that_does_not_answer() -> None:
    def refuse(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    message = "the Ray cluster at 'auto' does not answer: Could not find any running Ray instance"
    with pytest.raises(RunError, match=message), on_ray._connected(ray, "pucl pretrain", "auto"):
        pass
