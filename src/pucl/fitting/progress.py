"""The stages of a fit as they are shown: a live line on a terminal, plain lines now and then in a pipe or a log."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pucl.numerics.starting import check_threads, start
from pucl.training.progress import duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 2.0  # seconds that a fit may take before the first plain line: quick ones stay silent
PAUSE, SHARE = 10.0, 0.02  # seconds between two plain lines of one stage, or this share of the time so far
ENOUGH = 0.2  # share of a stage from which its pace says more than what was guessed before
BEAT = 0.25  # seconds between two looks at the clock


@dataclass(frozen=True)
class StageProgress:
    """How far a stage of a fit is.

    Attributes:
        stage: its name.
        done: the share of it that is done, within [0, 1].
        detail: where it is, in words: ``epoch 3 of 60, loss 4.812``.
        seconds: about how long the whole stage takes, where that is known before.
    """

    stage: str
    done: float = 0.0
    detail: str = ""
    seconds: float | None = None


LOGGER = logging.getLogger("pucl")  # messages for people that are neither progress nor warnings
OnProgress = Callable[[StageProgress], None]


@contextmanager
def messages_shown() -> Iterator[None]:
    """Show the messages of the logger "pucl": where the program sends its logs, or on stdout if it has set up none."""
    level = LOGGER.level
    own = None if LOGGER.hasHandlers() else logging.StreamHandler(sys.stdout)
    LOGGER.setLevel(min(logging.INFO, LOGGER.getEffectiveLevel()))
    if own is not None:
        LOGGER.addHandler(own)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        if own is not None:
            LOGGER.removeHandler(own)


class Clock:
    """The time of a stage: so far, and left, from the share that was done since it was first heard of."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.stage = now, ""
        self.began, self.first = now(), 0.0

    def hear(self, at: StageProgress) -> bool:
        """Note how far a stage is; True for a new one."""
        new = at.stage != self.stage
        if new:
            self.stage, self.began, self.first = at.stage, self.now(), at.done
        return new

    @property
    def elapsed(self) -> float:
        """Seconds since the stage began."""
        return self.now() - self.began

    def left(self, at: StageProgress) -> float | None:
        """Seconds that the stage still takes, about; None where nothing is known."""
        known = at.done - self.first > (0.0 if at.seconds is None else ENOUGH)
        if known and at.done < 1:
            return self.elapsed * (1 - at.done) / (at.done - self.first)
        return None if at.seconds is None or at.done >= 1 else max(0.0, at.seconds - self.elapsed)


class ProgressLines:
    """Shows the stages of a fit on stderr; use it as a context, and call it with every `StageProgress`.

    On a terminal there is a live line for each stage. Elsewhere there are whole lines: one for each stage of a fit that
    takes more than `PATIENCE` seconds, and one every `PAUSE` seconds while a stage lasts.

    Args:
        owner: what the user called, which starts a plain line.
        clock: seconds that never go back.
    """

    def __init__(self, owner: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._owner, self._clock = owner, Clock(clock)
        self._began, self._said, self._said_stage = clock(), clock(), ""
        self._at: StageProgress | None = None
        self._lock, self._over = threading.Lock(), threading.Event()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._beating: threading.Thread | None = None

    def __enter__(self) -> Self:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            words = TextColumn("{task.description:<12} {task.fields[words]}", markup=False)
            columns = (BarColumn(bar_width=20), TimeElapsedColumn(), words)
            self._bar = Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty())
            check_threads()
            self._bar.start()
        else:
            self._beating = threading.Thread(target=self._beat, daemon=True)
            try:
                start(self._beating)
            except BaseException:  # Ctrl-C while it waits for the thread: nothing would end that later
                self._over.set()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._beating is not None:
            self._beating.join()
        if self._bar is not None:
            self._end_task(whole=kind is None)
            self._bar.stop()

    def __call__(self, at: StageProgress) -> None:
        """Note how far the fit is, and show it where it is time."""
        with self._lock:
            new = self._clock.hear(at)
            self._at = at
            if self._bar is None:
                self._say_if_due()
                return
            if new:
                self._end_task(whole=True)
                self._task = self._bar.add_task(at.stage, total=1.0, words="")
            if self._task is not None:
                self._bar.update(self._task, completed=at.done, words=self._words(at))

    def _end_task(self, *, whole: bool) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=1.0 if whole else None, words="" if whole else "stopped")
            self._bar.stop_task(self._task)

    def _beat(self) -> None:
        """Say something now and then even while a stage reports nothing."""
        while not self._over.wait(BEAT):
            with self._lock:
                self._say_if_due()

    def _say_if_due(self) -> None:
        """A plain line, if it is time for one."""
        now, at = self._clock.now(), self._at
        if at is None or now - self._began < PATIENCE:
            return
        pause = max(PAUSE, SHARE * (now - self._began))
        if at.stage != self._said_stage or now - self._said >= pause:
            self._said, self._said_stage = now, at.stage
            words = ", ".join(part for part in (at.stage, self._words(at)) if part)
            sys.stderr.write(f"{self._owner}: {words} ({duration(now - self._began)} so far)\n")
            sys.stderr.flush()

    def _words(self, at: StageProgress) -> str:
        left = self._clock.left(at)
        return ", ".join(
            part for part in (at.detail, "" if left is None else f"about {duration(max(1.0, left))} left") if part
        )
