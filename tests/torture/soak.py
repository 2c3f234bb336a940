"""A process that lives long: fit, predict and report again and again, often disturbed; its memory and open files."""

import gc
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType

import numpy as np

from torture.events import watch
from torture.inputs import write_inputs
from torture.processes import memory_of_this_process
from torture.verbs import PICTURES, TABLE, files, model

FAULTS = ("none", "none", "interrupt", "SIGTERM", "failing call")
SAID = Path("said.txt")  # by the last run
WARM_UP = 0.25  # share of the time before memory is looked at
PREDICT = ("predict", "m", "people.csv", "--out", "s.csv")
WORDS = (
    (*TABLE, "--prior", "0.3", "--resume", "--overwrite"),
    (*PICTURES[:-1], "p", "--resume", "--overwrite"),
    PREDICT,
    ("predict", "m", "parts/*.csv", "--out", "scores"),
    ("embed", "m", "people.csv", "--out", "e.parquet"),
    ("report", "m"),
)


@dataclass(frozen=True)
class Look:
    """The process after a round: seconds since the start, resident bytes, open files, threads."""

    seconds: float
    memory: int
    files: int
    threads: int


class _Disturbed:
    """Raises an error in the call of a number by which files are changed; switched on and off."""

    def __init__(self, root: Path) -> None:
        self.left = 0
        watch(root, self._hear, lambda _: None)

    def _hear(self, _: str) -> None:
        if self.left > 0:
            self.left -= 1
            if not self.left:
                raise OSError(28, "No space left on device")


def soak(minutes: float, seed: int) -> int:
    """Run for so many minutes and print how memory and open files went; 1 if a result was wrong or either grows."""
    rng = Random(seed)
    with tempfile.TemporaryDirectory(prefix="torture-soak-") as root, _inside(Path(root)):
        write_inputs(Path.cwd())
        disturbed = _Disturbed(Path.cwd())
        for words in WORDS:
            if _run(words):
                return _failed(f"{' '.join(words)} fails without a fault")
        good = {**model(Path.cwd()), **files("s.csv", "scores/*.csv", "e.parquet")(Path.cwd())}
        looks, began, counts = (
            [_look(time.monotonic())],
            time.monotonic(),
            {"runs": 0, "disturbed": 0, "ended early": 0},
        )
        while time.monotonic() - began < 60 * minutes:
            fault, words = rng.choice(FAULTS), rng.choice(WORDS)
            code = _disturbed_run(words, fault, rng, disturbed)
            counts["runs"] += 1
            counts["disturbed"] += fault != "none"
            counts["ended early"] += code != 0
            if fault == "none" and code:
                return _failed(f"{' '.join(words)} fails without a fault, after {counts}")
            if counts["runs"] % 20 == 0:
                for words in (WORDS[0], *WORDS[2:5]):
                    if _run(words):
                        return _failed(f"{' '.join(words)} fails without a fault, after {counts}")
                now = {**model(Path.cwd()), **files("s.csv", "scores/*.csv", "e.parquet")(Path.cwd())}
                if now != good:
                    return _failed(f"results differ after {counts}: {sorted(k for k in now if now[k] != good.get(k))}")
                looks.append(_look(began))
                print(_line(looks[-1], counts), flush=True)
        return _summary(looks, counts)


def _disturbed_run(words: tuple[str, ...], fault: str, rng: Random, disturbed: _Disturbed) -> int:
    disturbed.left = rng.randrange(1, 60) if fault == "failing call" else 0
    number = {"interrupt": signal.SIGINT, "SIGTERM": signal.SIGTERM}.get(fault)
    try:
        with _struck(number, rng.random() * 1.5):
            return _run(words)
    except (KeyboardInterrupt, SystemExit):  # it struck at the very end
        return 1
    finally:
        disturbed.left = 0


@contextmanager
def _struck(number: signal.Signals | None, seconds: float) -> Iterator[None]:
    """Send this process a signal after some seconds; outside of a run it is not heard."""

    def strike(_number: int, _frame: FrameType | None) -> None:
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGALRM, strike)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the command listens to it
    if number is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _run(words: tuple[str, ...]) -> int:
    """The command in this process; its exit code."""
    from pucl.cli.app import main

    sys.argv = ["pucl", *words]
    if words[-1] == "scores":  # of the model before
        shutil.rmtree("scores", ignore_errors=True)
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            main()
        except SystemExit as ended:
            SAID.write_text(said.getvalue(), encoding="utf-8")
            return int(ended.code or 0)
    return 0


@contextmanager
def _inside(root: Path) -> Iterator[None]:
    before = Path.cwd()
    (root / "tmp").mkdir()
    os.environ |= {"PUCL_CACHE": str(root / "cache"), "TMPDIR": str(root / "tmp")}
    tempfile.tempdir = None
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(before)


def _look(began: float) -> Look:
    gc.collect()
    handles = 0
    with suppress(OSError):
        handles = sum(1 for _ in Path("/proc/self/fd").iterdir())
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    return Look(time.monotonic() - began, memory_of_this_process("VmRSS"), handles, threads)


def _line(look: Look, counts: dict[str, int]) -> str:
    said = ", ".join(f"{name} {count}" for name, count in counts.items())
    figures = f"{look.memory / 1e6:.1f} MB, {look.files} open files, {look.threads} threads"
    return f"{look.seconds / 60:.1f} min: {figures}; {said}"


def _summary(looks: list[Look], counts: dict[str, int]) -> int:
    """How memory went after the warm-up, as a line through the looks."""
    after = [look for look in looks if look.seconds >= WARM_UP * looks[-1].seconds]
    hours, memory = np.array([look.seconds / 3600 for look in after]), np.array([look.memory / 1e6 for look in after])
    slope = float(np.polyfit(hours, memory, 1)[0]) if len(after) > 2 else float("nan")
    print(
        f"{counts['runs']} runs in {looks[-1].seconds / 60:.1f} min, {counts['disturbed']} disturbed; after the first "
        f"quarter memory went from {memory[0]:.1f} to {memory[-1]:.1f} MB (between {memory.min():.1f} and "
        f"{memory.max():.1f}; slope {slope:+.1f} MB an hour), open files from {after[0].files} to {after[-1].files}, "
        f"threads from {after[0].threads} to {after[-1].threads}"
    )
    return int(after[-1].files > after[0].files)


def _failed(text: str) -> int:
    said = SAID.read_text(encoding="utf-8").strip() if SAID.exists() else ""
    print(f"soak: {text}: {said[-600:]}")
    return 1
