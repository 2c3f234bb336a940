"""What can happen to a run: each fault with its moment, drawn from the figures of an undisturbed run."""

import ctypes
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from torture.events import SWAPS, kill_oneself, strike_at
from torture.processes import PAUSE, Sandbox, members, memory_of_this_process

YEAR = 365 * 86400
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
DAC = (1 << 1) | (1 << 2) | (1 << 3)  # the capabilities by which root ignores permissions
CAPABILITIES = 0x20080522  # the version of the structures


@dataclass(frozen=True)
class Figures:
    """What is known of a verb from an undisturbed run.

    Attributes:
        seconds: that it took.
        calls: by which it changed files, in their order.
        largest: bytes of the largest file written.
        written: bytes of all of them.
        memory: bytes that it took beyond those of its start.
    """

    seconds: float
    calls: tuple[str, ...]
    largest: int
    written: int
    memory: int


@dataclass(frozen=True)
class Fault:
    """One fault of one trial.

    Attributes:
        moment: when or how it strikes, in words.
        inside: called in the run before it starts.
        outside: called with the number of the process once it has started.
        prepare: called before the run, with the folders of the trial.
        lift: called after the run, so that it can be done again.
        twice: seconds after which a second run is started beside the first.
        deadly: whether a run may be killed by it, and can therefore not clean up.
    """

    moment: str
    inside: Callable[[Path], None] | None = None
    outside: Callable[[int], None] | None = None
    prepare: Callable[[Sandbox], None] | None = None
    lift: Callable[[Sandbox], None] | None = None
    twice: float | None = None
    deadly: bool = False


Draw = Callable[[Random, Figures], Fault]


def _signal(number: signal.Signals) -> Draw:
    def draw(rng: Random, figures: Figures) -> Fault:
        share = rng.random()

        def strike(process: int) -> None:
            time.sleep(share * figures.seconds)
            try:
                os.kill(process, number)
            except ProcessLookupError:
                return

        return Fault(f"at {share:.3f} of its time", outside=strike, deadly=number == signal.SIGKILL)

    return draw


def at_a_call(rng: Random, figures: Figures) -> tuple[int, bool, str]:
    """One of the calls by which files are changed, every second time a swap: its number, before or after, in words."""
    swaps = [i for i, name in enumerate(figures.calls) if name in SWAPS]
    number = rng.choice(swaps) if swaps and rng.random() < 0.5 else rng.randrange(max(1, len(figures.calls)))
    name = figures.calls[number] if figures.calls else "no call"
    late = rng.random() < 0.5 and name != "open"  # of which only the beginning is heard
    return number, late, f"{'after' if late else 'before'} call {number} of {len(figures.calls)} ({name})"


def _killed_at_a_call(rng: Random, figures: Figures) -> Fault:
    number, late, words = at_a_call(rng, figures)
    return Fault(words, inside=lambda root: strike_at(root, number, kill_oneself, late=late), deadly=True)


def _killed_in_a_file(rng: Random, figures: Figures) -> Fault:
    size = rng.randrange(1, max(2, figures.largest))

    def limit(_: Path) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return Fault(f"when a file has {size:,} bytes", inside=limit, deadly=True)


def _file_too_large(rng: Random, figures: Figures) -> Fault:
    size = rng.randrange(1, max(2, figures.largest))
    return Fault(
        f"when a file has {size:,} bytes",
        inside=lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def _failing_call(rng: Random, figures: Figures) -> Fault:
    number, _, words = at_a_call(rng, figures)
    code = rng.choice([errno.ENOSPC, errno.EIO])

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return Fault(f"{os.strerror(code)} {words}", inside=lambda root: strike_at(root, number, fail, late=False))


def _full_disc(rng: Random, figures: Figures) -> Fault:
    """A file system of its own, too small, where one can be mounted."""
    if not can_mount():
        return _file_too_large(rng, figures)
    free = rng.randrange(1 << 12, max(2 << 12, int(1.2 * figures.written)))

    def prepare(place: Sandbox) -> None:
        content = sum(4096 * (1 + path.stat().st_size // 4096) for path in place.work.rglob("*"))
        _on_small_disc(place, content + free)

    def lift(place: Sandbox) -> None:
        subprocess.run(["mount", "-o", "remount,size=256m", str(place.work)], check=True)

    return Fault(f"with {free:,} bytes free", prepare=prepare, lift=lift)


@cache
def can_mount() -> bool:
    """Whether this process may mount a file system, which root in a container often may not."""
    if not ROOT or shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as place:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "torture", place], capture_output=True, check=False)
        if mounted.returncode == 0:
            subprocess.run(["umount", place], check=True)
    return mounted.returncode == 0


def _on_small_disc(place: Sandbox, size: int) -> None:
    aside = place.work.rename(place.root / "aside")
    place.work.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "torture", str(place.work)], check=True)
    subprocess.run(["cp", "-a", f"{aside}/.", str(place.work)], check=True)


def _out_of_memory(rng: Random, figures: Figures) -> Fault:
    more = int((1 << 20) * max(2.0, figures.memory / (1 << 20)) ** rng.random())

    def limit(_: Path) -> None:
        size = memory_of_this_process("VmSize") + more
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return Fault(f"with {more >> 20} MiB more than at its start", inside=limit, deadly=True)


def _read_only(_rng: Random, _figures: Figures) -> Fault:
    def close(place: Sandbox) -> None:
        _chmod(place, 0o555)

    return Fault(
        "from its start", inside=lambda _: obey_permissions(), prepare=close, lift=lambda place: _chmod(place, 0o755)
    )


def _chmod(place: Sandbox, mode: int) -> None:
    for folder in (place.work, *(path for path in place.work.rglob("*") if path.is_dir())):
        folder.chmod(mode)


def obey_permissions() -> None:
    """Give up what lets root write everywhere, so that folders are read-only for this process too."""
    if not ROOT:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[0] &= ~DAC
    sets[1] &= ~DAC
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _two(rng: Random, figures: Figures) -> Fault:
    share = rng.random() * 0.6
    return Fault(f"the second one {share:.3f} of its time later", twice=share * figures.seconds)


def _clock_back(rng: Random, figures: Figures) -> Fault:
    """The run, which may be killed, has a clock that is a year ahead of that of the run after it."""
    killed = _signal(signal.SIGKILL)(rng, figures) if rng.random() < 0.5 else None

    def date(place: Sandbox) -> None:
        for path in place.work.rglob("*"):
            when = path.stat().st_mtime + YEAR
            os.utime(path, (when, when))

    return Fault(
        "by a year after it" + (f", killed {killed.moment}" if killed else ""),
        inside=lambda _: _shift_clock(YEAR),
        outside=killed.outside if killed else None,
        lift=date,
        deadly=killed is not None,
    )


def _shift_clock(seconds: float) -> None:
    """Make this process believe that it is later."""
    plain = time.time

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=seconds)

    time.time = lambda: plain() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("pucl.") and getattr(module, "datetime", None) is datetime:
            module.datetime = Later  # type: ignore[attr-defined]


def _killed_worker(rng: Random, figures: Figures) -> Fault:
    share = rng.random()

    def strike(process: int) -> None:
        time.sleep(share * figures.seconds)
        until = time.monotonic() + figures.seconds
        while time.monotonic() < until:
            workers = [number for number in members(process) if number != process and _is_worker(number)]
            if workers:
                os.kill(rng.choice(sorted(workers)), signal.SIGKILL)
                return
            time.sleep(PAUSE)

    return Fault(f"at {share:.3f} of its time", outside=strike)


def _is_worker(number: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    name: str
    draw: Draw
    only: tuple[str, ...] = field(default=())  # verbs


KINDS = (
    Kind("SIGKILL", _signal(signal.SIGKILL)),
    Kind("killed at a swap", _killed_at_a_call),
    Kind("killed in a file", _killed_in_a_file),
    Kind("SIGTERM", _signal(signal.SIGTERM)),
    Kind("SIGINT", _signal(signal.SIGINT)),
    Kind("memory", _out_of_memory),
    Kind("full disc", _full_disc),
    Kind("file limit", _file_too_large),
    Kind("failing call", _failing_call),
    Kind("read-only", _read_only),
    Kind("two at once", _two),
    Kind("clock back", _clock_back),
    Kind("worker killed", _killed_worker, only=("bench run, 2 jobs",)),
)
