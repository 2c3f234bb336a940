"""A live line on the terminal while a network trains; nothing in a pipe, and next to no cost."""

import math
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pucl.numerics.starting import check_threads

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

PAUSE = 0.5  # seconds between two drawings
WINDOW = 20  # drawings that the speed is measured over: ten seconds, or twenty steps where a step takes longer


class Bar:
    """The progress of a run on stderr: ``epoch 12/200  loss 4.812  31,204 images/s  0:01:12 left``.

    Use it as a context and call `update` after every step. It draws twice a second at most, and not at all when
    `enabled` is false or stderr is no terminal. Speed and time left come from the last ten seconds, without the first
    step, which compiles.

    Args:
        epochs: of the whole run.
        steps_per_epoch: at least 1.
        first_step: steps done before, when the run continues from a checkpoint.
        label: what stands before the bar.
        enabled: False for silence.
        console: the rich console to draw on instead of stderr.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        *,
        epochs: int,
        steps_per_epoch: int,
        first_step: int = 0,
        label: str = "",
        enabled: bool = True,
        console: "Console | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._epochs, self._steps_per_epoch, self._label = epochs, steps_per_epoch, label
        self._enabled, self._console, self._clock = enabled, console, clock
        self._total = epochs * steps_per_epoch
        self._progress: Progress | None = None
        self._task: TaskID
        self._first, self._step = first_step, first_step
        self._loss: Callable[[], float] | None = None
        self._images = 0  # of one step
        self._drawn = math.inf  # when the last drawing was made
        self._due = math.inf  # when to draw next; never, unless there is a terminal

    def __enter__(self) -> Self:
        if self._enabled:
            from rich.console import Console

            console = self._console or Console(stderr=True)
            if console.is_terminal:
                self._progress = _progress_on(console, bool(self._label), self._clock)
                words = f"{self._epoch(self._first + 1)}  starting"
                self._task = self._progress.add_task(self._label, total=self._total, completed=self._first, words=words)
                check_threads()
                self._progress.start()
                self._due = -math.inf
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is None:
            return
        try:
            if kind is None and self._step > self._first:  # after an error the loss may be out of reach
                self._draw(self._progress, last=True)
        finally:
            self._due = math.inf
            self._progress.stop()

    def update(self, step: int, loss: Callable[[], float] | None, images: int) -> None:
        """Note that `step` steps of the run are done, the last of them with `images` images.

        `loss` is called only when the line is drawn, since reading it may have to wait for a GPU.
        """
        self._step, self._loss, self._images = step, loss, images
        if self._clock() >= self._due and self._progress is not None:
            self._draw(self._progress)

    def _draw(self, progress: "Progress", *, last: bool = False) -> None:
        parts = [self._epoch(self._step)]
        if self._loss is not None:
            parts.append(f"loss {loss_text(self._loss())}")
        now = self._clock()  # after the loss: by then the device has caught up
        progress.speed_estimate_period = WINDOW * max(PAUSE, now - self._drawn)
        progress.update(self._task, completed=self._step)
        task = progress.tasks[0]
        if task.speed:
            parts.append(f"{rate_text(task.speed * self._images)} images/s")
        if last:
            parts.append(f"{duration(task.elapsed or 0)} in all")
        elif task.speed:
            parts.append(f"{duration((self._total - self._step) / task.speed)} left")
        progress.update(self._task, words="  ".join(parts), refresh=True)
        self._drawn, self._due = now, now + PAUSE

    def _epoch(self, step: int) -> str:
        return f"epoch {min((step - 1) // self._steps_per_epoch + 1, self._epochs)}/{self._epochs}"


def _progress_on(console: "Console", labelled: bool, clock: Callable[[], float]) -> "Progress":
    """A label, a bar that gives way where the terminal is narrow, and words that are cut only then."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    bar = BarColumn(None, table_column=Column(max_width=20))
    words = TextColumn(" {task.fields[words]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    return Progress(
        *([TextColumn("{task.description} ", markup=False)] if labelled else []),
        bar,
        words,
        console=console,
        auto_refresh=False,
        redirect_stdout=sys.stdout.isatty(),  # only what would land on the screen anyway may be redirected to it
        get_time=clock,
    )


def rate_text(rate: float) -> str:
    """A speed with three digits or more: 0.031, 3.10, 31.2, 312, 31,204."""
    if rate >= 100:
        return f"{rate:,.0f}"
    return f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}" if rate >= 1 else f"{rate:.2g}"


def loss_text(loss: float) -> str:
    """A loss with three decimals, or as a power of ten where that would show nothing."""
    return f"{loss:.3f}" if loss == 0 or 1e-2 <= abs(loss) < 1e5 or not math.isfinite(loss) else f"{loss:.2e}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, with days before them if need be: 0:01:12, 2 days, 3:04:05."""
    return str(timedelta(seconds=max(0, round(seconds)))) if seconds < 100 * 86_400 else "over 100 days"
