"""How many threads torch uses: one for small work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 1 << 21  # numbers in a matrix up to which threads that wait for one another cost more than they save


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """One thread inside the block when the matrices worked on hold few numbers; as many as before otherwise."""
    before = torch.get_num_threads()
    if numbers > SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
