"""Starting threads where memory may be short: Python waits for ever for a thread that has none to begin with."""

import mmap
import sys
from threading import Thread, stack_size

STACK = 8 << 20  # bytes of the stack of a thread, where the system does not say it
MARGIN = 4 << 20  # bytes that Python takes in a new thread before it says that it has begun
HEAP = 64 << 20  # bytes of addresses that glibc takes for the first block of a thread, if need be the last ones


def check_memory(n: int, message: str = "") -> None:
    """A MemoryError where there is no room for so many more bytes. They are not filled, which would take its time."""
    private = {"flags": mmap.MAP_PRIVATE} if sys.platform != "win32" else {}  # as memory is that programs ask for
    try:
        mmap.mmap(-1, n, **private).close()
    except (OSError, OverflowError):
        raise MemoryError(message) from None


def check_threads(n: int = 1) -> None:
    """A MemoryError where there is no room for the stacks and the first steps of so many more threads."""
    check_memory(n * (_stack() + MARGIN) + HEAP, "no room for another thread")


def start(thread: Thread) -> None:
    """Start a thread; a MemoryError where there is no room for it."""
    check_threads()
    try:
        thread.start()
    except RuntimeError:
        raise MemoryError("no room for another thread") from None


def _stack() -> int:
    """Bytes that the stack of a new thread takes."""
    if sys.platform == "win32":
        return stack_size() or STACK
    import resource

    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return stack_size() or (STACK if limit == resource.RLIM_INFINITY else limit)
