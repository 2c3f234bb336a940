"""A live line on the terminal while a network trains; nothing in a pipe, and next to no cost."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

PAUSE = 0.5  # seconds between two drawings
WINDOW = 20  # drawings that the speed is measured over: ten seconds, or twenty steps where a step takes longer


class Mark(NamedTuple):
    """Where the run stood at some moment: seconds on the clock, steps and images done."""

    at: float
    step: int
    images: int


class Bar:
    """The progress of a run on stderr: ``epoch 12/200  loss 4.812  31,204 images/s  0:01:12 left``.

    Use it as a context and call `update` after every step. It draws twice a second at most, and not at all when
    `enabled` is false or stderr is no terminal. Speed and time left come from the last ten seconds, without the first
    step, which compiles.

    Args:
        epochs: of the whole run.
        steps_per_epoch: at least 1.
        first_step: steps done before, when the run goes on from a checkpoint.
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
        self._marks: deque[Mark] = deque(maxlen=WINDOW + 1)
        self._live: Live | None = None
        self._due = math.inf  # when to draw next; never, unless there is a terminal
        self._began = 0.0
        self._images = 0
        self._first = first_step
        self._last: tuple[int, Callable[[], float] | None] = first_step, None

    def __enter__(self) -> Self:
        if self._enabled:
            from rich.console import Console
            from rich.live import Live

            console = self._console or Console(stderr=True)
            if console.is_terminal:
                # Only what would land on the screen anyway may be redirected to it.
                self._live = Live(console=console, auto_refresh=False, redirect_stdout=sys.stdout.isatty())
                self._live.start()
                self._due, self._began = -math.inf, self._clock()
                self._show(self._live, [self._epoch(self._first + 1), "starting"], self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is None:
            return
        try:
            if kind is None and self._marks:  # after an error the loss may be out of reach
                self._draw(self._live, f"{duration(self._clock() - self._began)} in all")
        finally:
            self._due = math.inf
            self._live.stop()

    def update(self, step: int, loss: Callable[[], float] | None, images: int) -> None:
        """Tell that `step` steps of the run are done, the last of them with `images` images.

        `loss` is called only when the line is drawn, since reading it may have to wait for a GPU.
        """
        self._images += images
        self._last = step, loss
        if self._clock() >= self._due and self._live is not None:
            self._draw(self._live)

    def _draw(self, live: "Live", ending: str = "") -> None:
        step, loss = self._last
        parts = [self._epoch(step)] + ([] if loss is None else [f"loss {loss_text(loss())}"])
        now = Mark(self._clock(), step, self._images)  # after the loss: by then the device has caught up
        if not self._marks or step > self._marks[-1].step:
            self._marks.append(now)
        seconds, steps, images = (b - a for a, b in zip(self._marks[0], self._marks[-1], strict=True))
        if seconds > 0:
            parts.append(f"{rate_text(images / seconds)} images/s")
            ending = ending or f"{duration((self._total - step) * seconds / steps)} left"
        self._show(live, [*parts, ending], step)
        self._due = now.at + PAUSE

    def _epoch(self, step: int) -> str:
        return f"epoch {min((step - 1) // self._steps_per_epoch + 1, self._epochs)}/{self._epochs}"

    def _show(self, live: "Live", parts: list[str], done: int) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        label, text = self._label and f"{self._label}  ", "  ".join(parts).rstrip()
        width = min(20, live.console.width - len(label) - len(text) - 3)  # the bar gives way to the words
        line = Table.grid()
        if width >= 5:
            bar = ProgressBar(total=self._total, completed=done, width=width)
            line.add_row(Text(label), bar, Text(f"  {text}"))
        else:
            line.add_row(Text(label + text, no_wrap=True, overflow="ellipsis"))
        live.update(line, refresh=True)


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
