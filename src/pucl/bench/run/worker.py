"""A worker process: units of work come in, outcomes go out one by one; it ends when its parent does.

Importing this file loads no other part of the package, so that the number of threads is set before torch is loaded.
"""

import os
import threading
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Orders:
    """How a worker works.

    Attributes:
        encoders: the folder of trained encoders.
        device: where to compute.
        commit: to store where there is no git.
        anew: train encoders even if they are stored.
        threads: of a worker, where the environment does not say how many.
    """

    encoders: Path
    device: str | None
    commit: str | None
    anew: bool
    threads: int = 1


def work(orders: Orders, connection: Connection) -> None:
    """Answer every unit, a list of cells, by as many outcomes, until there are no more."""
    prepare(orders.threads)
    from pucl.bench.run.work import Bench

    bench = Bench(orders.encoders, orders.device, orders.commit, anew=orders.anew)
    while True:
        for outcome in bench.run(connection.recv()):
            connection.send(outcome)


def prepare(threads: int) -> None:
    """Tie this process to its parent, and set its number of threads where the environment does not say it."""
    from pucl.numerics.starting import start

    start(threading.Thread(target=_end_with_parent, daemon=True))
    os.dup2(2, 1)  # what libraries print goes to stderr
    number = threads_of(threads)
    for name in THREADS:
        os.environ.setdefault(name, str(number))


def threads_of(default: int) -> int:
    """The number of threads that the environment says, or the default."""
    return int((os.environ.get(THREADS[0]) or str(default)).partition(",")[0])


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
