"""How many threads: one for small work, otherwise as many as this process may use; threads that wait sleep.

`pucl/__init__.py` asks OpenMP to let waiting threads sleep, before torch is loaded. On a busy machine threads that spin
keep the ones they wait for from working: a fit of two minutes took half a minute without (LOG.md).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import joblib
import torch
from torch import Tensor

from pucl.numerics.starting import check_threads

Item = TypeVar("Item")
Value = TypeVar("Value")
SMALL = 1 << 21  # numbers in a matrix up to which threads that wait for one another cost more than they save


def cores() -> int:
    """How many processors this process may use.

    That is what its container and its affinity allow, or fewer where OMP_NUM_THREADS says so. joblib sets it in its
    workers, so that all of them together do not use more threads than there are processors.
    """
    allowed, wanted = int(joblib.cpu_count()), os.environ.get("OMP_NUM_THREADS", "")
    return min(allowed, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else allowed


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """One thread of torch inside the block when the matrices worked on hold few numbers; as many as before otherwise.

    The setting is that of the calling thread: a thread of a pool sets its own.
    """
    before = torch.get_num_threads()
    if numbers > SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_order(function: Callable[[Item], Value], items: Sequence[Item]) -> Iterator[Value]:
    """The function of every item, in the order of the items, on all processors; a single one takes no other thread."""
    if cores() == 1:
        yield from map(function, items)
        return
    check_threads(cores())
    with ThreadPoolExecutor(cores()) as pool:
        yield from pool.map(function, items)


def on_cores(function: Callable[[Tensor], Tensor], pieces: Sequence[Tensor]) -> list[Tensor]:
    """The function of every piece, one piece to a processor at a time, each with one thread of torch.

    Many small steps on one piece are faster on one thread; so are several pieces side by side.
    """
    if len(pieces) > 1 and pieces[0].device.type == "cpu" and cores() > 1:
        check_threads(min(cores(), len(pieces)))
        with ThreadPoolExecutor(min(cores(), len(pieces)), initializer=partial(torch.set_num_threads, 1)) as pool:
            return list(pool.map(function, pieces))
    with threads_for(0):
        return [function(piece) for piece in pieces]
