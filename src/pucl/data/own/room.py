"""Whether there is memory for the blocks and the threads with which Arrow reads: without it Arrow can wait for ever."""

from threading import Event, Thread

from pucl.numerics.starting import check_memory, check_threads, start

THREADS = 2  # one that reads and one that parses
BLOCKS = 8  # read ahead, in work and parsed


def check_room(block: int) -> None:
    """Ask for as many bytes and threads as Arrow takes, and free them; a MemoryError where there is no room."""
    check_memory(BLOCKS * block)
    check_threads(THREADS)
    done = Event()
    threads = [Thread(target=done.wait) for _ in range(THREADS)]
    try:
        for thread in threads:
            start(thread)
    finally:
        done.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
