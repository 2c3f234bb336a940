"""Whether there is memory for the blocks and the threads with which Arrow reads: without it Arrow can wait for ever."""

from threading import Event, Thread

THREADS = 2  # one that reads and one that parses
BLOCKS = 8  # read ahead, in work and parsed


def check_room(block: int) -> None:
    """Take as many bytes and threads as Arrow does, and free them; a MemoryError where there is no room."""
    bytearray(BLOCKS * block)
    done = Event()
    threads = [Thread(target=done.wait) for _ in range(THREADS)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:
        raise MemoryError("no room for another thread") from None
    finally:
        done.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
