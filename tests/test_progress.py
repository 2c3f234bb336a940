import io
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from rich.console import Console

from pucl.training.progress import PAUSE, Bar, duration, loss_text, rate_text


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Screen:
    """A terminal in memory, and what was drawn on it, one line per drawing."""

    def __init__(self, width: int = 100, *, terminal: bool = True) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=terminal, width=width)

    @property
    def lines(self) -> list[str]:
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())
        return [line.strip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


def run(
    screen: Screen,
    clock: Clock,
    *,
    steps: int,
    seconds: float,
    first: float = 60.0,
    images: int = 100,
    epochs: int = 10,
    steps_per_epoch: int = 10,
    first_step: int = 0,
    label: str = "",
    loss: Callable[[], float] | None = None,
) -> None:
    """A run whose first step takes `first` seconds and every other `seconds`."""
    with Bar(
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        first_step=first_step,
        label=label,
        console=screen.console,
        clock=clock,
    ) as bar:
        for done in range(first_step + 1, first_step + steps + 1):
            clock.now += first if done == first_step + 1 else seconds
            bar.update(done, loss, images)


def test_the_line_of_a_run() -> None:
    screen = Screen()
    run(screen, Clock(), steps=25, seconds=1.0, images=31_204, label="puCL", loss=lambda: 4.8123)
    assert screen.lines[0].endswith("epoch 1/10  starting"), "something to look at while the first step compiles"
    assert screen.lines[1].endswith("epoch 1/10  loss 4.812"), "no speed from the step that compiles"
    assert screen.lines[2].endswith("epoch 1/10  loss 4.812  31,204 images/s  0:01:38 left")
    assert screen.lines[10].endswith("epoch 1/10  loss 4.812  31,204 images/s  0:01:30 left"), "ten steps done"
    assert screen.lines[11].startswith("puCL") and "epoch 2/10" in screen.lines[11]
    assert screen.lines[25].endswith("epoch 3/10  loss 4.812  31,204 images/s  0:01:15 left")
    assert screen.lines[-1].endswith("epoch 3/10  loss 4.812  31,204 images/s  0:01:24 in all")
    assert all(line.startswith("puCL  ") for line in screen.lines)


def test_the_speed_is_the_recent_one() -> None:
    screen, clock = Screen(), Clock()
    with Bar(epochs=100, steps_per_epoch=10, console=screen.console, clock=clock) as bar:
        for step in range(100):
            clock.now += 1.0 if step < 50 else 4.0
            bar.update(step + 1, None, 400)
    speeds = [float(match[1]) for line in screen.lines if (match := re.search(r"([\d.]+) images/s", line))]
    assert speeds[0] == speeds[40] == 400 and speeds[-1] == 100
    assert "1:00:00 left" in screen.lines[-3], "900 steps of 4 seconds"


def test_a_run_that_goes_on_from_a_checkpoint() -> None:
    screen = Screen()
    run(screen, Clock(), steps=50, seconds=2.0, first_step=50, loss=lambda: 1.0)
    assert screen.lines[0].endswith("epoch 6/10  starting")
    assert screen.lines[2].endswith("epoch 6/10  loss 1.000  50.0 images/s  0:01:36 left")
    assert screen.lines[-1].endswith("epoch 10/10  loss 1.000  50.0 images/s  0:02:38 in all")


def test_draws_twice_a_second_at_most_and_reads_the_loss_only_then() -> None:
    screen, clock, read = Screen(), Clock(), []

    def loss() -> float:
        read.append(clock.now)
        return 1.0

    run(screen, clock, steps=1001, seconds=0.01, first=0.01, epochs=500, loss=loss)
    drawn = read[:-1]  # the last drawing closes the run
    assert len(drawn) == pytest.approx(10 / PAUSE, abs=2)
    assert all(b - a >= PAUSE - 1e-9 for a, b in pairwise(drawn))
    assert len(set(screen.lines)) <= len(read) + 1


def test_a_slow_loss_counts_as_time() -> None:
    # Steps only queue work; reading the loss waits until the device has done it.
    screen, clock = Screen(), Clock()
    queued = [0]

    def wait() -> float:
        clock.now += queued[0]
        queued[0] = 0
        return 1.0

    with Bar(epochs=10, steps_per_epoch=10, console=screen.console, clock=clock) as bar:
        for step in range(20):
            queued[0] += 2
            bar.update(step + 1, wait, 100)
            clock.now += 0.5
    assert "40.0 images/s" in screen.lines[-1]


def test_silent_in_a_pipe_and_when_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def unread() -> float:
        pytest.fail("the loss was read in vain")

    pipe = Screen(terminal=False)
    run(pipe, Clock(), steps=5, seconds=1.0, loss=unread)
    screen = Screen()
    with Bar(epochs=1, steps_per_epoch=5, enabled=False, console=screen.console) as bar:
        bar.update(1, unread, 8)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    with Bar(epochs=1, steps_per_epoch=5) as bar:
        bar.update(1, unread, 8)
    assert pipe.file.getvalue() == screen.file.getvalue() == "" and capsys.readouterr() == ("", "")


def test_an_error_passes_and_the_loss_is_left_alone() -> None:
    screen = Screen()
    read: list[int] = []

    def loss() -> float:
        read.append(len(read))
        if len(read) > 1:
            raise RuntimeError("the device is gone")
        return 1.0

    with pytest.raises(RuntimeError, match="the device is gone"):
        run(screen, Clock(), steps=9, seconds=1.0, loss=loss)
    assert read == [0, 1], "not read once more on the way out"
    assert screen.file.getvalue().endswith("\x1b[?25h"), "the cursor comes back"


def test_a_bar_that_is_closed_stays_silent() -> None:
    screen = Screen()
    with Bar(epochs=1, steps_per_epoch=9, console=screen.console) as bar:
        bar.update(1, None, 8)
    shown = screen.file.getvalue()
    bar.update(2, lambda: pytest.fail("read"), 8)
    assert screen.file.getvalue() == shown


def test_without_steps_there_is_nothing_to_sum_up() -> None:
    screen = Screen()
    run(screen, Clock(), steps=0, seconds=1.0)
    assert set(screen.lines) == {screen.lines[0]} and screen.lines[0].endswith("epoch 1/10  starting")


@pytest.mark.parametrize("width", [30, 62, 70, 200])
def test_narrow_terminals_keep_the_words_on_one_line(width: int) -> None:
    screen = Screen(width)
    run(screen, Clock(), steps=3, seconds=1.0, images=31_204, loss=lambda: 4.8123)
    assert all(len(line) <= width for line in screen.lines) and "\x1b[1A" not in screen.file.getvalue()
    words = "epoch 1/10  loss 4.812  31,204 images/s  0:01:37 left"
    assert any(line.endswith(words) for line in screen.lines) is (width > 60)
    assert any("━" in line for line in screen.lines if "images/s" in line) is (width > 60)


@pytest.mark.parametrize("terminal", [True, False])
def test_costs_next_to_nothing_between_drawings(terminal: bool) -> None:
    best = 1.0
    with Bar(epochs=9, steps_per_epoch=9, console=Screen(terminal=terminal).console, clock=lambda: 0.0) as bar:
        bar.update(1, float, 8)
        for _ in range(5):
            start = time.perf_counter()
            for step in range(2000):
                bar.update(step, float, 8)
            best = min(best, (time.perf_counter() - start) / 2000)
    assert best < 2e-6


@pytest.mark.slow
def test_rich_is_not_loaded_early() -> None:
    code = "import sys, pucl.training.progress; print('rich' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.0312, "0.031"), (3.1, "3.10"), (31.24, "31.2"), (312.4, "312"), (31_204.4, "31,204"), (3e5, "300,000")],
)
def test_rates(rate: float, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (4.8123, "4.812"),
        (0.0, "0.000"),
        (-0.5, "-0.500"),
        (1.234e-5, "1.23e-05"),
        (1.234e7, "1.23e+07"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_losses(loss: float, text: str) -> None:
    assert loss_text(loss) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0:00:00"),
        (0.4, "0:00:00"),
        (72, "0:01:12"),
        (7384, "2:03:04"),
        (100_000, "1 day, 3:46:40"),
        (1e12, "over 100 days"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
