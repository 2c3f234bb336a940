"""The calls by which a run changes files: counted in an undisturbed one, and moments to strike at in others."""

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

NAMES = ("replace", "rename", "fsync", "unlink", "rmdir", "mkdir", "ftruncate", "write")
SWAPS = ("replace", "rename")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
Tell = Callable[[str], None]


def watch(root: Path, before: Tell, after: Tell) -> None:
    """Call `before` and `after` around every such call of this process from now on, and `before` on every opening.

    Args:
        root: where files have to lie for their opening to count.
        before: called with the name of the call.
        after: likewise.
    """
    for name in NAMES:
        setattr(os, name, _told(name, getattr(os, name), before, after))
    start = f"{root}{os.sep}"

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes) and isinstance(given[2], int) and given[2] & WRITING:
            path = os.fsdecode(given[0])  # not the number of a pipe that is open already
            if not path.startswith(os.sep) or path.startswith(start):  # runs are inside that folder
                before("open")

    sys.addaudithook(hear)


def _told(name: str, call: Callable[..., Any], before: Tell, after: Tell) -> Callable[..., Any]:
    @wraps(call)
    def told(*given: Any, **options: Any) -> Any:
        before(name)
        try:
            return call(*given, **options)
        finally:
            after(name)

    return told


def strike_at(root: Path, number: int, strike: Callable[[], None], *, late: bool) -> None:
    """Call `strike` right before the call of that number, or right after it."""
    seen = [-1]

    def before(_: str) -> None:
        seen[0] += 1
        if seen[0] == number and not late:
            strike()

    def after(_: str) -> None:
        if seen[0] == number and late:
            strike()

    watch(root, before, after)


def kill_oneself() -> None:
    """As the kernel would."""
    os.kill(os.getpid(), signal.SIGKILL)
