"""SIGTERM, from a service or a scheduler: a command cleans up before it ends, as it does on Ctrl-C."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped_in_order() -> Iterator[None]:
    """On SIGTERM, clean up before the process ends, as on Ctrl-C; a process of several ends at once."""
    if threading.current_thread() is not threading.main_thread() or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
