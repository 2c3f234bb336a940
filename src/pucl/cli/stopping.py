"""Ctrl-C, and SIGTERM from a service or a scheduler: a command cleans up before it ends, and says nothing strange."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped_in_order() -> Iterator[None]:
    """On SIGTERM, clean up before the process ends, as on Ctrl-C; a process of several ends at once.

    A library that is stopped at a bad moment may raise anything instead, from half of an import say; what comes after
    a signal is no error of its own. SIGINT that is ignored, as in the background of a shell, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread() or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        yield
        return
    heard: list[int] = []

    def stop(number: int, _frame: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    heeded = [signal.SIGTERM, *([signal.SIGINT] if callable(signal.getsignal(signal.SIGINT)) else [])]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    except Exception:
        if not heard:
            raise
        raise SystemExit(128 + heard[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
