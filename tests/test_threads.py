"""Threads: one for small work, no more than the process may use, asleep while they wait."""

import os
import subprocess
import sys

import pytest
import torch

from pucl.numerics.threads import SMALL, cores, on_cores, threads_for


@pytest.mark.parametrize(("given", "policy"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_sleep_unless_the_user_says_otherwise(given: str | None, policy: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    code = "import os, pucl; print(os.environ['OMP_WAIT_POLICY'])"
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == policy


def test_a_worker_of_joblib_uses_its_share_of_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "8")
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert cores() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "32")
    assert cores() == 8


def test_small_work_has_one_thread_and_the_number_comes_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with threads_for(SMALL):
            assert torch.get_num_threads() == 1
        with threads_for(SMALL + 1):
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("processors", [1, 3])
def test_pieces_come_back_in_order_each_worked_on_by_one_thread(
    processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pucl.numerics.threads.cores", lambda: processors)
    seen: list[int] = []

    def double(piece: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return 2 * piece

    x = torch.arange(10.0)
    assert torch.equal(torch.cat(on_cores(double, torch.split(x, 3))), 2 * x)
    assert set(seen) == {1}
