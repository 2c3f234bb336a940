"""Runs as processes of their own: forked from this one, which has loaded torch already, and watched until they end."""

import io
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

Step = Callable[[], None]
LIMIT = 120.0  # seconds for a run on a busy machine, after which it counts as hung
LINGER = 20.0  # seconds for what a run has started to end after it
PAUSE = 0.005
HUNG = 99999


@dataclass(frozen=True)
class Sandbox:
    """A folder for one trial: `work` is where runs are, `tmp` is for temporary files, `said` for what they print."""

    root: Path

    @property
    def work(self) -> Path:
        """Where the inputs and results lie."""
        return self.root / "work"

    @property
    def tmp(self) -> Path:
        """TMPDIR of the runs."""
        return self.root / "tmp"

    @property
    def said(self) -> Path:
        """What the last runs have printed."""
        return self.root / "said.txt"

    def environment(self) -> dict[str, str]:
        """What a run finds in its environment."""
        return {
            "TMPDIR": str(self.tmp), "PUCL_CACHE": str(self.work / "cache"), "PUCL_DATA": str(self.work / "data"),
            "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default",
        }  # fmt: skip


def start(action: Step, place: Sandbox, words: tuple[str, ...], before: Step | None = None) -> int:
    """Fork a run of `action` in a session of its own; `before` is called in it first. Returns the process's number."""
    sys.stdout.flush()
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        _settle_in(place, words)
        if before is not None:
            before()
        action()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)
    raise AssertionError


def _settle_in(place: Sandbox, words: tuple[str, ...]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(place.work)
    os.environ.update(place.environment())
    tempfile.tempdir = None
    said = os.open(place.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(handle, number)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    sys.argv = ["pucl", *words]
    program = ModuleType("__main__")
    program.__package__ = ""
    sys.modules["__main__"] = program  # workers of a pool load this


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 1
    os._exit(code & 255)


def end(number: int, limit: float = LIMIT) -> int:
    """Wait for a run; its exit code, negative for a signal, or `HUNG`."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(PAUSE)
    kill_all(number)
    os.waitpid(number, 0)
    return HUNG


def left_behind(session: int) -> list[int]:
    """The processes that a run has started and that do not end soon after it."""
    until = time.monotonic() + LINGER
    while (left := list(members(session))) and time.monotonic() < until:
        time.sleep(4 * PAUSE)
    kill_all(session)
    return left


def kill_all(session: int) -> None:
    """End what is left of a run."""
    for number in members(session):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


def members(session: int) -> Iterator[int]:
    """The processes of a session that have not ended."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            yield int(folder.name)


def memory_of_this_process(name: str) -> int:
    """A figure of /proc/self/status in bytes, such as VmPeak."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
