"""Worker processes: what one that dies, cannot start or talks nonsense costs, and that none is left over."""

import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.grid.cells import Cell
from pucl.bench.run import pool
from pucl.bench.run.pool import run_in_pool
from pucl.bench.run.work import Outcome
from pucl.bench.run.worker import THREADS, Orders, work

from bench_examples import N_CELLS, baseline, line_of
from conftest import Command

pytestmark = pytest.mark.slow  # every process loads torch
ORDERS = Orders(Path("encoders"), "cpu", "here", anew=False, threads=3)
SEEDS = range(3)  # a unit has the cells of one seed


def units() -> list[list[Cell]]:
    return [[baseline(method, seeds=[seed]) for method in ("naive", "labelled_centroid")] for seed in SEEDS]


def keys(*seeds: int) -> list[str]:
    return sorted(cell.key for unit in units() for cell in unit if cell.place.seed in (seeds or SEEDS))


def answer(connection: Connection, cells: list[Cell]) -> None:
    for cell in cells:
        connection.send(Outcome(cell.key, line=line_of(cell, accuracy=50.0)))


def steady(_: Orders, connection: Connection) -> None:
    while True:
        answer(connection, connection.recv())


def dies_half_way(_: Orders, connection: Connection) -> None:
    """Of the unit of seed 1 it answers one cell."""
    while True:
        unit = connection.recv()
        if unit[0].place.seed == 1:
            answer(connection, unit[:1])
            os._exit(3)
        answer(connection, unit)


def dies_at_once(_: Orders, connection: Connection) -> None:
    while True:
        unit = connection.recv()
        if unit[0].place.seed == 1:
            os._exit(3)
        answer(connection, unit)


def talks_nonsense(_: Orders, connection: Connection) -> None:
    """And stays."""
    while True:
        unit = connection.recv()
        if unit[0].place.seed == 1:
            connection.send("nonsense")
            time.sleep(600)
        answer(connection, unit)


def breaks_off(_: Orders, connection: Connection) -> None:
    """In the middle of a message."""
    while True:
        unit = connection.recv()
        if unit[0].place.seed == 1:
            os.write(connection.fileno(), b"\x00\x00\x10\x00half")
            os._exit(3)
        answer(connection, unit)


def is_interrupted(_: Orders, connection: Connection) -> None:
    """Ctrl-C in a terminal reaches every process of its group."""
    import signal

    os.kill(os.getpid(), signal.SIGINT)
    steady(_, connection)


@pytest.fixture(autouse=True)
def none_is_left() -> Any:
    yield
    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "code", "lost"),
    [(dies_at_once, 3, 2), (dies_half_way, 3, 1), (breaks_off, 3, 2), (talks_nonsense, -9, 2)],
)
def test_a_worker_that_dies_fails_its_unfinished_cells_only(
    monkeypatch: pytest.MonkeyPatch, target: Any, code: int, lost: int
) -> None:
    monkeypatch.setattr(pool, "PATIENCE", 0.2 if code < 0 else 20.0)
    outcomes = list(run_in_pool(units(), 2, ORDERS, target))
    assert sorted(outcome.key for outcome in outcomes) == keys()
    failed = {outcome.key: outcome.failed for outcome in outcomes if outcome.failed}
    assert set(failed) <= set(keys(1)) and len(failed) == lost
    assert set(failed.values()) == {f"the worker died with exit code {code}"}
    assert all(outcome.line is not None for outcome in outcomes if outcome.key not in failed)


@pytest.mark.slow
def test_outcomes_come_as_they_are_known_and_closing_ends_all_workers() -> None:
    stream = run_in_pool(units(), 2, ORDERS, hangs_after_one)
    assert next(stream).key in keys()  # of a unit that is never finished
    assert len(multiprocessing.active_children()) == 2
    stream.close()


def hangs_after_one(_: Orders, connection: Connection) -> None:
    answer(connection, connection.recv()[:1])
    time.sleep(600)


@pytest.mark.slow
def test_workers_do_not_hear_interrupts() -> None:
    outcomes = list(run_in_pool(units(), 2, ORDERS, is_interrupted))
    assert sorted(outcome.key for outcome in outcomes if outcome.line) == keys()


@pytest.mark.slow
def test_a_unit_has_one_worker() -> None:
    outcomes = list(run_in_pool(units(), 2, ORDERS, says_its_number))
    numbers = {seed: {o.skipped for o in outcomes if o.key in keys(seed)} for seed in SEEDS}
    assert all(len(number) == 1 for number in numbers.values()) and len(set.union(*map(set, numbers.values()))) == 2


def says_its_number(_: Orders, connection: Connection) -> None:
    while True:
        for cell in connection.recv():
            connection.send(Outcome(cell.key, skipped=str(os.getpid())))
        time.sleep(0.2)  # so that the other has something to do


@pytest.mark.slow
def test_workers_that_cannot_be_started_fail_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    started, process = [], multiprocessing.get_context("spawn").Process
    start = process.start

    def refuse(self: Any) -> None:
        started.append(self)
        if len(started) <= 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(self)

    monkeypatch.setattr(process, "start", refuse)
    outcomes = list(run_in_pool(units(), 2, ORDERS, steady))
    assert sorted(outcome.key for outcome in outcomes) == keys()
    failed = [outcome.failed for outcome in outcomes if outcome.failed]
    assert set(failed) == {"no worker could be started: Resource temporarily unavailable; try fewer --jobs"}
    assert len(failed) == 4 and sum(outcome.line is not None for outcome in outcomes) == 2


def test_a_sweep_without_workers_ends_with_an_error(bench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", refuse)
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--jobs", "2", "--device", "cpu", "--commit", "x")
    assert code == 1 and f"0 already there, 0 skipped, {N_CELLS} failed\n" in out
    assert "naive (raw): no worker could be started: Cannot allocate memory; try fewer --jobs\n" in out


@pytest.mark.slow
@pytest.mark.parametrize(("own", "ordered"), [("1", 2), (None, 1)])
def test_the_users_number_of_threads_counts_or_else_the_one_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, ordered: int
) -> None:
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    if own is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", own)
    orders = Orders(tmp_path, "cpu", "here", anew=False, threads=ordered)
    outcomes = list(run_in_pool(units()[:1], 2, orders, work))
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome.line is not None, outcome.failed
        assert outcome.line.origin.hardware.endswith(", 1 thread")


def test_a_worker_loads_torch_after_its_number_of_threads_is_set() -> None:
    code = "import pucl.bench.run.worker, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
