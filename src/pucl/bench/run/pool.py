"""Several worker processes on one device: each takes whole units from a common list; outcomes arrive as they are ready.

A pool of the standard library, or of joblib, fails all its tasks when one of its processes dies. Here a process that
dies fails its own unfinished cells only, a new one takes its place, and nothing that others do is lost.
"""

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

from pucl.bench.grid.cells import Cell
from pucl.bench.run.work import Bench, Outcome, outcome_of
from pucl.bench.run.worker import Orders, work
from pucl.engines.ray_pool import run_on_ray
from pucl.errors import RunError

PATIENCE = 5.0  # seconds for a worker to exit after it has closed its connection


class Keyed(Protocol):
    """A cell, or what came of it: both have the key of the cell."""

    @property
    def key(self) -> str:
        """The identity of the cell."""


C = TypeVar("C", bound=Keyed)  # a cell
R = TypeVar("R", bound=Keyed)  # what came of it
A = TypeVar("A")  # orders for a worker


class Limit(Protocol[C]):
    """Which units are begun, and until when; see `TimeBox`."""

    @property
    def left(self) -> float:
        """The seconds until all workers end."""

    def take(self, waiting: deque[list[C]]) -> list[C] | None:
        """Take out the unit to begin next; None for no more."""


@dataclass
class _Worker(Generic[C]):
    """A process, our end of its connection, and the cells of its unit that are not known yet, by key."""

    process: BaseProcess
    connection: Connection
    left: dict[str, C]

    def give(self, unit: list[C]) -> None:
        self.left = {cell.key: cell for cell in unit}
        with contextlib.suppress(OSError):  # it is gone, and reading from it says so
            self.connection.send(unit)

    def end(self, patience: float = 0.0) -> int | None:
        """Make sure that the process has ended; returns its exit code."""
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.connection.close()
        return self.process.exitcode


def run_in_pool(
    units: list[list[Cell]],
    jobs: int,
    orders: Orders,
    target: Callable[[Orders, Connection], None] = work,
    limit: Limit[Cell] | None = None,
) -> Generator[Outcome, None, None]:
    """The outcomes of all units of the paper's benchmark, see `pooled`."""
    return pooled(units, jobs, orders, target, outcome_of, limit)


def run_by_ray(units: list[list[Cell]], orders: Orders, address: str | None) -> Generator[Outcome, None, None]:
    """The outcomes of all units by the workers of a Ray cluster, see `run_on_ray`; those of a unit come together."""
    for unit, outcomes in run_on_ray(partial(_outcomes, orders), units, owner="pucl bench run", address=address):
        if isinstance(outcomes, Exception):
            yield from (outcome_of(outcomes, cell) for cell in unit)
        else:
            yield from outcomes


def _outcomes(orders: Orders, unit: list[Cell]) -> list[Outcome]:
    return list(Bench(orders.encoders, orders.device, orders.commit, anew=orders.anew).run(unit))


def pooled(
    units: list[list[C]],
    jobs: int,
    orders: A,
    target: Callable[[A, Connection], None],
    failure: Callable[[Exception, C], R],
    limit: Limit[C] | None = None,
) -> Generator[R, None, None]:
    """What came of all units, as it comes. Closing the stream, or an interrupt, ends all workers.

    Args:
        units: lists of cells, each for one worker.
        jobs: how many workers at most.
        orders: for every worker.
        target: what a worker does with its orders and its end of the connection.
        failure: what came of a cell whose worker died.
        limit: which units are begun and when all workers end, done or not; all in order and never when not given.
    """
    waiting, busy = deque(units), list[_Worker[C]]()
    try:
        while waiting or busy:
            while len(busy) < jobs and (unit := _next(waiting, limit)) is not None:
                try:
                    busy.append(_start(target, orders))
                except OSError as error:
                    reason = RunError(f"no worker could be started: {error.strerror or error}; try fewer --jobs")
                    yield from (failure(reason, cell) for cell in unit)
                else:
                    busy[-1].give(unit)
            timeout = None if limit is None else limit.left
            ready = wait([worker.connection for worker in busy], timeout) if busy else []
            if not ready and limit is not None:
                return
            for worker in [worker for worker in busy if worker.connection in ready]:
                yield from _heard(worker, failure)
                if worker.left:
                    continue
                if worker.process.exitcode is None and (unit := _next(waiting, limit)) is not None:
                    worker.give(unit)
                else:
                    busy.remove(worker)
                    worker.end()
    finally:
        for worker in busy:
            worker.end()


def _next(waiting: deque[list[C]], limit: Limit[C] | None) -> list[C] | None:
    """The unit to begin next, taken out of those that wait, or None."""
    if limit is not None:
        return limit.take(waiting)
    return waiting.popleft() if waiting else None


def _heard(worker: _Worker[C], failure: Callable[[Exception, C], R]) -> list[R]:
    """The next outcome of a worker; if it has died, the failures of its unfinished cells."""
    try:
        outcome: R = worker.connection.recv()
        del worker.left[outcome.key]
    except Exception:  # no more to come, or nothing that is an outcome
        reason = RunError(f"the worker died with exit code {worker.end(PATIENCE)}")
        lost = [failure(reason, cell) for cell in worker.left.values()]
        worker.left = {}
        return lost
    return [outcome]


def _start(target: Callable[[A, Connection], None], orders: A) -> _Worker[Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(orders, theirs), daemon=True)
    with theirs, _interrupts_are_ours():
        process.start()
    return _Worker(process, ours, {})


@contextlib.contextmanager
def _interrupts_are_ours() -> Iterator[None]:
    """Processes that are started here never hear Ctrl-C: the parent does, and ends them."""
    if os.name == "nt":
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # it changes the mask when it is started with the first process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
