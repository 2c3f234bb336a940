"""Memory that a training on a CPU keeps between its steps, instead of giving it back and asking for it again.

The C library of most Linux systems (glibc) takes every block above 32 MB from the kernel and gives it back as soon as
it is free. The kernel fills what it hands out with zeros, page by page. The activations of a batch of images are such
blocks: that was 43 % of the time of a step (LOG.md). What is computed does not change.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # parameters of mallopt
MANY_BLOCKS, LARGE_BLOCK = 65_536, 32 << 20  # what glibc has by itself, or comes to once a large block was freed
SETTINGS = ("MALLOC_", "GLIBC_TUNABLES")  # variables by which people choose for themselves


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Inside the block, memory that becomes free is kept for the next step; afterwards the system gets it back.

    Nothing on a GPU, without glibc, or where variables such as MALLOC_ARENA_MAX say how memory is managed. The setting
    is that of the process.
    """
    library = glibc() if device.type == "cpu" else None
    if library is None:
        yield
        return
    library.mallopt(MMAP_MAX, 0)
    library.mallopt(TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        library.mallopt(MMAP_MAX, MANY_BLOCKS)
        library.mallopt(MMAP_THRESHOLD, LARGE_BLOCK)
        library.mallopt(TRIM_THRESHOLD, 2 * LARGE_BLOCK)
        library.malloc_trim(0)


def glibc() -> ctypes.CDLL | None:
    """The C library, if it is one whose memory can be set."""
    if sys.platform != "linux" or any(name.startswith(SETTINGS) for name in os.environ):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
