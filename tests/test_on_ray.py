"""``pucl pretrain --engine ray``: the run of one process in workers of a cluster, also when one of them is killed."""

import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from pucl.errors import InputError, RunError
from pucl.training.on_ray import train_on_ray

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
from pucl.training.on_ray import train_on_ray

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
train_on_ray(partial(work, out), workers=2, folder=out, owner="test")
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
    assert done.code == 2 and done.err.count("\n") == 1 and "pip install 'ray[data,train]'" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_nothing_but_the_engine_needs_ray(command: Command, tmp_path: Path) -> None:
    words = ("digits", "--labelled", "100", "--epochs", "1", "--batch-size", "256", "--device", "cpu")
    assert command("pretrain", *words, "--out", tmp_path).code == 0


class LostError(Exception):
    """As Ray raises when it gives up."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__("training failed")
        self.worker_failures = dict(enumerate(failures))


class Trainer:
    """As much of Ray's as matters here: it calls the function once, in this process."""

    seen: ClassVar[dict[str, Any]] = {}

    def __init__(self, work: Callable[[dict[str, Any]], Any], **given: Any) -> None:
        self.work, self.given = work, given["train_loop_config"]
        Trainer.seen = given

    def fit(self) -> Any:
        return SimpleNamespace(return_value=self.work(self.given))


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A cluster of 8 CPUs and 2 GPUs."""
    made = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **_: None,
        shutdown=lambda: None,
        cluster_resources=lambda: {"CPU": 8.0, "GPU": 2.0},
        __spec__=None,
    )
    plain = dict.fromkeys(("ScalingConfig", "RunConfig"), SimpleNamespace)
    train = SimpleNamespace(**plain, TrainingFailedError=LostError, __spec__=None)
    torch = SimpleNamespace(TorchTrainer=Trainer, __spec__=None)
    for name, module in (("ray", made), ("ray.train", train), ("ray.train.torch", torch)):
        monkeypatch.setitem(sys.modules, name, module)
    return made


def start(tmp_path: Path, function: Callable[[], Any] = lambda: 7, workers: int = 2, **options: Any) -> Any:
    return train_on_ray(function, workers=workers, folder=tmp_path, owner="pucl pretrain", **options)


@pytest.mark.usefixtures("ray")
def test_workers_are_gpus_where_there_are_any_and_no_more_than_there_are(tmp_path: Path) -> None:
    assert start(tmp_path) == 7 and Trainer.seen["scaling_config"].use_gpu
    assert start(tmp_path, workers=8, gpus=False) == 7 and not Trainer.seen["scaling_config"].use_gpu
    with pytest.raises(InputError, match="pucl pretrain: workers must be at most the GPUs of the cluster; got 3 for 2"):
        start(tmp_path, workers=3)


@pytest.mark.usefixtures("ray")
def test_a_worker_with_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: Trainer) -> None:
        self.work({**self.given, "version": "0.0"})

    monkeypatch.setattr(Trainer, "fit", fit)
    with pytest.raises(RunError, match=r"the workers have pucl .* and the command has pucl 0\.0; install the same"):
        start(tmp_path)


@pytest.mark.usefixtures("ray")
def test_lost_workers_are_started_again_and_wrong_input_is_said_at_once(tmp_path: Path) -> None:
    own, attempts = InputError("x must be y", owner="pucl.pretrain"), []

    def fail(*errors: Exception) -> Any:
        attempts.append(errors)
        if len(attempts) != 3:
            raise LostError(*errors)
        return "done"

    assert start(tmp_path, partial(fail, RuntimeError("killed by 9"))) == "done" and len(attempts) == 3
    with pytest.raises(InputError) as caught:
        start(tmp_path, partial(fail, RuntimeError("connection lost"), own))
    assert caught.value is own and len(attempts) == 4
    with pytest.raises(RunError, match="^pucl pretrain: workers were lost 4 times, the last time by: killed by 9$"):
        start(tmp_path, partial(fail, RuntimeError("killed\nby 9")))


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "here"])
def test_an_address_where_nothing_listens(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match=f"^pucl pretrain: address must be .*; got '{address}'"):
        start(tmp_path, address=address)


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "no answer in 0.2 s"),
        (b"HTTP/1.0 400 Bad request", "it is no Ray cluster"),
        (b"\0\0", "it is no Ray cluster"),
        (bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]), None),
    ],
)
def test_something_else_that_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, reason: str | None
) -> None:
    monkeypatch.setattr("pucl.engines.ray_pool.KNOCK", 0.2 if not answer else 60.0)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def serve() -> bytes:
            with server.accept()[0] as connection:
                heard = connection.recv(64)
                connection.sendall(answer)
                with suppress(OSError):  # it has hung up
                    if answer:
                        connection.shutdown(socket.SHUT_WR)
                    connection.recv(64)
                return heard

        heard, address = pool.submit(serve), f"127.0.0.1:{server.getsockname()[1]}"
        if reason is None:
            assert start(tmp_path, address=address) == 7
        else:
            with pytest.raises(InputError) as caught:
                start(tmp_path, address=address)
            got = f"got '{address}', which does not answer ({reason})"
            assert str(caught.value) == f"pucl pretrain: address must be that of a running Ray cluster; {got}"
        assert heard.result().startswith(b"PRI * HTTP/2.0")


def test_a_cluster_that_does_not_answer(tmp_path: Path, ray: SimpleNamespace) -> None:
    def refuse(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    ray.init = refuse
    with pytest.raises(RunError, match="cannot use the Ray cluster at 'auto': Could not find any running Ray instance"):
        start(tmp_path, address="auto")
