"""Stopping a run from outside: after SIGINT or SIGTERM the run finishes its step, then ends."""

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from pucl.distributed import rank_and_world

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """While this lasts, signals set `requested` instead of stopping the process, for runs that save themselves.

    A second signal stops the process at once. It does nothing outside the main thread, where Python receives no
    signals. Of several processes the first saves and ends; the others end when they lose it.
    """

    def __init__(self, *, active: bool) -> None:
        self.leads = rank_and_world()[0] == 0
        self.active = active and threading.current_thread() is threading.main_thread()
        self.requested: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self.active:
            self.before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        if isinstance(error, Exception) and self.requested and not self.leads:
            raise SystemExit(128 + self.requested) from None

    def leave(self, saved: Path | None) -> None:
        """End the process as the signal would have, with a message that says where the run was saved."""
        if not self.leads:
            return
        self._restore()
        if self.requested == signal.SIGINT:
            raise KeyboardInterrupt(f"saved to {saved}" if saved else "")
        raise SystemExit(128 + int(self.requested or 0))

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.requested = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}
