"""A thread without memory to begin with ends unseen, and Python would wait for it for ever."""

import os
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest

from pucl.numerics.starting import check_threads, start

STARTED, REFUSED = 0, 3
MB = 1 << 20
BLOCKS = 40  # of memory that a process still has


def test_a_thread_is_started() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    start(thread)
    thread.join()
    assert done.is_set()


def test_a_thread_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(MemoryError, match="^no room for another thread$"):
        start(threading.Thread())


def test_more_threads_than_there_are_addresses_for() -> None:
    check_threads(2)
    with pytest.raises(MemoryError):
        check_threads(1 << 40)


def ends_with(room: int) -> int:
    """How a process ends that starts a thread with some small blocks of memory, and so many bytes that it may take."""
    number = os.fork()
    if number == 0:
        try:
            _start_in(room)
            os._exit(STARTED)
        except MemoryError:
            os._exit(REFUSED)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def _start_in(room: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(30)
    first, second = threading.Thread(target=int), threading.Thread(target=int)
    first.start()
    first.join()  # the system keeps its stack for the next one
    filled: list[bytes] = [b""] * MB
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    try:
        for i in range(len(filled)):
            filled[i] = bytes(300 + i % 200)
    except MemoryError:
        del filled[i - BLOCKS : i]
    resource.setrlimit(resource.RLIMIT_AS, (size + room, resource.RLIM_INFINITY))
    start(second)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit of addresses needs Linux")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forking
def test_without_memory_a_thread_is_refused_and_not_waited_for() -> None:
    assert [ends_with(room * MB) for room in (9, 64, 100)] == [REFUSED] * 2 + [STARTED]
