"""A process that lives long: fit, predict and report again and again, often disturbed; its memory and open files."""

import gc
import io
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import numpy as np

from torture.events import watch
from torture.inputs import write_inputs
from torture.processes import memory_of_this_process
from torture.verbs import PICTURES, TABLE, files, model

FAULTS = ("none", "none", "interrupt", "SIGTERM", "failing call")
OUT, SAID = io.StringIO(), io.StringIO()  # the same for all runs: click keeps every one that it has met
WARM_UP = 0.25  # share of the time before memory is looked at
GROWTH = 1.05  # of memory from its first third after the warm-up to its last, at most
# Disturbed runs for each file that may stay open: a signal that strikes between the opening of a file and the name that
# Python gives it is lost to any program.
PER_FILE = 500
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


@dataclass
class Runs:
    """How many there were, how many were disturbed, how many ended early, and in how many cases something was wrong."""

    runs: int = 0
    disturbed: int = 0
    ended_early: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        wrong = f", {self.wrong} WRONG" if self.wrong else ""
        return f"{self.runs} runs, {self.disturbed} disturbed, {self.ended_early} ended early{wrong}"

    def found(self, problem: str) -> None:
        """Count what should not be, and print it."""
        self.wrong += 1
        print(f"soak: after {self}: {problem}", flush=True)


def soak(minutes: float, seed: int, looks_to: Path | None = None) -> int:
    """Run for so many minutes and print how memory and open files went; 1 if a result was wrong or either grows.

    Args:
        minutes: to run.
        seed: the same seed gives the same runs and faults.
        looks_to: a file to write every look to, as a line of JSON after one that says what ran.
    """
    runs = Runs()
    _write(looks_to, _conditions(minutes, seed), "w")
    with tempfile.TemporaryDirectory(prefix="torture-soak-") as root, _inside(Path(root)):
        looks = _looks(60 * minutes, Random(seed), runs, looks_to)
    grows = _summary(looks, runs)
    return int(grows or runs.wrong > 0)


def _looks(seconds: float, rng: Random, runs: Runs, looks_to: Path | None) -> list[Look]:
    """Run again and again, disturbed more often than not; every 20 runs compare the results and look."""
    write_inputs(Path.cwd())
    disturbed, looks = _Disturbed(Path.cwd()), []
    for words in WORDS:
        _undisturbed(words, runs)
    good, began = _results(), time.monotonic()
    while time.monotonic() - began < seconds:
        fault, words = rng.choice(FAULTS), rng.choice(WORDS)
        _disturbed_run(words, fault, rng, disturbed, runs)
        if runs.runs % 20 == 0:
            for words in (WORDS[0], *WORDS[2:5]):
                _undisturbed(words, runs)
            now = _results()
            differ = sorted(name for name in {*now, *good} if now.get(name) != good.get(name))
            if differ:
                runs.found(f"results differ: {differ}")
            looks.append(_look(began))
            _write(looks_to, asdict(looks[-1]) | asdict(runs), "a")
            print(_line(looks[-1], runs), flush=True)
    return looks


def _results() -> dict[str, str]:
    return {**model(Path.cwd()), **files("s.csv", "scores/*.csv", "e.parquet")(Path.cwd())}


def _undisturbed(words: tuple[str, ...], runs: Runs) -> None:
    code, said = _run(words)
    if code:
        runs.found(f"{' '.join(words)} ends with {code} without a fault: {said}")


def _disturbed_run(words: tuple[str, ...], fault: str, rng: Random, disturbed: _Disturbed, runs: Runs) -> None:
    disturbed.left = rng.randrange(1, 60) if fault == "failing call" else 0
    number = {"interrupt": signal.SIGINT, "SIGTERM": signal.SIGTERM}.get(fault)
    runs.runs += 1
    runs.disturbed += fault != "none"
    try:
        with _struck(number, rng.random() * 1.5):
            if fault == "none":
                _undisturbed(words, runs)
            else:
                runs.ended_early += _run(words)[0] != 0
    except (KeyboardInterrupt, SystemExit):  # it struck at the very end
        runs.ended_early += 1
    except Exception:
        runs.found(f"{' '.join(words)} with {fault}: {traceback.format_exc()}")
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


def _run(words: tuple[str, ...]) -> tuple[int, str]:
    """The command in this process; its exit code and what it says of what is wrong."""
    from pucl.cli.app import main

    sys.argv = ["pucl", *words]
    if words[-1] == "scores":  # of the model before
        shutil.rmtree("scores", ignore_errors=True)
    for buffer in (OUT, SAID):
        buffer.seek(0)
        buffer.truncate()
    with redirect_stdout(OUT), redirect_stderr(SAID):
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0), SAID.getvalue().strip()[-600:]
    return 0, ""


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


def _conditions(minutes: float, seed: int) -> dict[str, Any]:
    import torch

    return {"minutes": minutes, "seed": seed, "python": platform.python_version(), "torch": torch.__version__}


def _write(path: Path | None, about: dict[str, Any], mode: str) -> None:
    if path is not None:
        with path.open(mode, encoding="utf-8") as file:
            file.write(json.dumps(about) + "\n")


def _line(look: Look, runs: Runs) -> str:
    figures = f"{look.memory / 1e6:.1f} MB, {look.files} open files, {look.threads} threads"
    return f"{look.seconds / 60:.1f} min: {figures}; {runs}"


def _summary(looks: list[Look], runs: Runs) -> int:
    """How memory went after the warm-up, as a line through the looks; 1 if it or the number of open files grows."""
    if len(looks) < 8:
        print(f"soak: {len(looks)} looks are too few to tell whether anything grows; {runs}")
        return 1
    after = [look for look in looks if look.seconds >= WARM_UP * looks[-1].seconds]
    hours, memory = np.array([look.seconds / 3600 for look in after]), np.array([look.memory / 1e6 for look in after])
    slope = float(np.polyfit(hours, memory, 1)[0])
    print(
        f"{runs} in {looks[-1].seconds / 60:.1f} min; after the first quarter memory went from {memory[0]:.1f} to "
        f"{memory[-1]:.1f} MB (between {memory.min():.1f} and {memory.max():.1f}; slope {slope:+.1f} MB an hour), "
        f"open files from {after[0].files} to {after[-1].files}, threads from {after[0].threads} to {after[-1].threads}"
    )
    thirds = np.array_split(memory, 3)
    files = after[-1].files - after[0].files
    return int(files > runs.disturbed / PER_FILE or np.median(thirds[2]) > GROWTH * np.median(thirds[0]))
