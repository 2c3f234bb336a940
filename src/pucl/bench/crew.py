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

from pucl.bench.cells import Config, key_of
from pucl.bench.work import Outcome

MODULE = "pucl.bench.worker"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass
class Crew:
    """Workers, started when needed and ended with the stream.

    Attributes:
        jobs: how many at most.
        how: the first line of every worker, see `pucl.bench.worker`.
    """

    jobs: int
    how: Config
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
        """Give units to one worker until there are none; a worker that dies fails its unit and is replaced."""
        process = None
        try:
            while True:
                unit = todo.get_nowait()
                if process is None or process.poll() is not None:
                    with self._lock:
                        if self._over:
                            return
                        process = self._start()
                left = [key_of(cell) for cell in unit]
                for outcome in self._give(process, unit):
                    left.remove(outcome.key)
                    found.put(outcome)
                for key in left:
                    found.put(Outcome(key, failed=f"the worker ended with code {process.wait()} in the middle of it"))
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
        if process.stdin is None or process.stdout is None:  # both are pipes
            return
        with contextlib.suppress(OSError):  # it is gone, and its stdout ends too
            process.stdin.write(json.dumps(unit, ensure_ascii=False) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            if not line.strip():
                return
            yield Outcome(**json.loads(line))

    def _start(self) -> "subprocess.Popen[str]":
        threads = str(self.how["threads"])
        environment = {**os.environ, **dict.fromkeys(THREADS, threads)}
        more: dict[str, Any] = {} if os.name == "nt" else {"process_group": 0}  # Ctrl-C is the parent's to hear
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            text=True, encoding="utf-8", **more,
        )  # fmt: skip
        self._alive.append(process)
        if process.stdin is not None:
            process.stdin.write(json.dumps(self.how) + "\n")  # flushed with the first unit
        return process
