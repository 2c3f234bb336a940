"""Several workers on one card: each takes whole units from a common list; what they find comes back in one stream."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pucl.bench.grid.cells import Config, key_of
from pucl.bench.run.work import Outcome, outcome_of
from pucl.errors import RunError

MODULE = "pucl.bench.run.worker"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PATIENCE = 5.0  # seconds for a worker that has said its last word to end by itself


@dataclass
class Crew:
    """Workers, started when needed and ended with the stream.

    Attributes:
        jobs: how many at most.
        how: the first line of every worker, see `pucl.bench.run.worker`.
        threads: of a worker, where the environment does not say how many.
    """

    jobs: int
    how: Config
    threads: int = 1
    _alive: list["subprocess.Popen[str]"] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: bool = False

    def run(self, units: list[list[Config]]) -> Iterator[Outcome]:
        """The outcomes of all units, as they come. Closing the stream, or an interrupt, ends all workers."""
        todo: queue.Queue[list[Config]] = queue.Queue()
        for unit in units:
            todo.put(unit)
        found: queue.Queue[Outcome | None] = queue.Queue()
        going = min(self.jobs, len(units))
        leads = [threading.Thread(target=self._lead, args=(todo, found), daemon=True) for _ in range(going)]
        for lead in leads:
            lead.start()
        try:
            while going:
                outcome = found.get()
                if outcome is None:
                    going -= 1
                else:
                    yield outcome
        finally:
            self._end(leads)

    def _lead(self, todo: "queue.Queue[list[Config]]", found: "queue.Queue[Outcome | None]") -> None:
        """Give units to one worker until there are none; what it leaves undone has failed, and it is replaced."""
        process = None
        try:
            while not self._over:
                unit = todo.get_nowait()
                left = {key_of(cell): cell for cell in unit}
                try:
                    if process is None or process.poll() is not None:
                        process = self._start()
                    for outcome in self._give(process, unit):
                        del left[outcome.key]
                        found.put(outcome)
                except Exception as error:
                    process = None
                    for cell in left.values():
                        found.put(outcome_of(error, cell))
        except queue.Empty:
            return
        finally:
            found.put(None)

    def _end(self, leads: list[threading.Thread]) -> None:
        """No worker is left: one that is done has nothing to say, and one at work works for nobody."""
        with self._lock:
            self._over = True
            for process in self._alive:
                process.kill()
        for lead in leads:
            lead.join()
        for process in self._alive:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was still to be written is for nobody
                        pipe.close()

    def _give(self, process: "subprocess.Popen[str]", unit: list[Config]) -> Iterator[Outcome]:
        """The outcomes of a unit from a worker, as many as it has cells, or an error if it dies before the last."""
        if process.stdin is None or process.stdout is None:
            raise RunError("the worker has no pipes")  # it was started with both
        with contextlib.suppress(OSError):  # it is gone, and its stdout ends too
            process.stdin.write(json.dumps(unit, ensure_ascii=False) + "\n")
            process.stdin.flush()
        for _ in unit:
            try:
                outcome = Outcome(**json.loads(process.stdout.readline()))
            except (TypeError, ValueError):  # half a line, or none
                raise RunError(f"the worker ended with code {_end_of(process)} in the middle of it") from None
            yield outcome
        process.stdout.readline()  # the empty one after a unit

    def _start(self) -> "subprocess.Popen[str]":
        threads = os.environ.get(THREADS[0]) or str(self.threads)
        environment = {**dict.fromkeys(THREADS, threads), **os.environ}
        more: dict[str, Any] = {} if os.name == "nt" else {"process_group": 0}  # Ctrl-C is the parent's to hear
        with self._lock:
            if self._over:
                raise RunError("the sweep is over")
            try:
                process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
                    text=True, encoding="utf-8", errors="replace", **more,
                )  # fmt: skip
            except OSError as error:
                raise RunError(f"no worker could be started: {error.strerror or error}; try fewer --jobs") from None
            self._alive.append(process)
        if process.stdin is not None:
            process.stdin.write(json.dumps(self.how) + "\n")  # flushed with the first unit
        return process


def _end_of(process: "subprocess.Popen[str]") -> int:
    """The exit code of a worker that has nothing more to say; one that does not end by itself is killed."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
