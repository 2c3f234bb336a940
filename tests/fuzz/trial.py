"""Trials in a forked process: time, memory and what a file may cause are limited, and whatever goes wrong is named."""

import faulthandler
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fuzz.reader import MB, Files, Reader, write
from pucl.errors import InputError, RunError, RunWarning

READ, REFUSED, FOUND = "read", "refused", "found"
ADDRESSES = 6 << 30  # bytes of addresses that a process may have beyond those at its start
AT_ONCE = 400  # inputs that one process takes
WALL = 600.0  # seconds without an answer after which a process is taken to hang
LONGEST = 1000  # characters of a message
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "pickle.find_class",
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OURS = re.compile(
    r"^(constant columns are dropped|column '|labels|column|array|label|\d+ of \d+ images|\d+ unreadable)"
)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    reader: str
    number: int
    kind: str
    end: str
    why: str = ""
    seconds: float = 0.0
    memory: int = 0


def trials(reader: Reader, seeds: Sequence[Files], seed: int, numbers: Sequence[int], place: Path) -> Iterator[Outcome]:
    """Every number's outcome, by as many processes as it takes."""
    left = list(numbers)
    while left:
        yield from (done := list(_batch(reader, seeds, seed, left[:AT_ONCE], place)))
        left = left[len(done) :]


def _batch(reader: Reader, seeds: Sequence[Files], seed: int, numbers: Sequence[int], place: Path) -> Iterator[Outcome]:
    """The outcomes of one process; the last may be how it died."""
    sys.stdout.flush()
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(there)
        _work(reader, seeds, seed, numbers, place, here)
    os.close(here)
    count, running = 0, True
    try:
        with os.fdopen(there, "rb") as pipe:
            while running and select.select([pipe], [], [], WALL)[0] and (line := pipe.readline()):
                outcome = Outcome(**json.loads(line))
                running = outcome.end != FOUND
                count += 1
                yield outcome
    finally:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if running and count < len(numbers):
        by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"code {status}"
        why = {"SIGXCPU": "took too long", "SIGKILL": "hangs or was killed"}.get(by, f"died: {by}")
        kind = reader.make(seeds, seed, numbers[count])[0]
        yield Outcome(reader.name, numbers[count], kind, FOUND, why, reader.seconds)


def _work(reader: Reader, seeds: Sequence[Files], seed: int, numbers: Sequence[int], place: Path, out: int) -> None:
    """What the process does; it never returns."""
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        addresses = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        watch = Watch(place)
        os.chdir(place)
        for number in numbers:
            kind, files = reader.make(seeds, seed, number)
            spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            resource.setrlimit(resource.RLIMIT_CPU, (int(spent + reader.seconds) + 1, resource.RLIM_INFINITY))
            outcome = trial(reader, files, place / "heap", watch, number=number, kind=kind)
            os.write(out, json.dumps(asdict(outcome)).encode() + b"\n")
    except BaseException:
        os.write(out, json.dumps(asdict(Outcome(reader.name, -1, "", FOUND, traceback.format_exc()))).encode() + b"\n")
    finally:
        os._exit(0)


class Watch:
    """Notes whatever a trial does that a reader must not: programs, sockets, pickles, files written elsewhere."""

    def __init__(self, place: Path) -> None:
        self.seen: list[str] = []
        self.on, self._place = False, os.fspath(place)
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {args!r:.80}")
        elif event == "open" and isinstance(args[2], int) and args[2] & WRITES and isinstance(args[0], str | bytes):
            path = os.path.abspath(os.fsdecode(args[0]))  # noqa: PTH100  (links are not followed)
            if not path.startswith((self._place, "/dev/")):
                self.seen.append(f"writes {path}")


def trial(reader: Reader, files: Files, folder: Path, watch: Watch, *, number: int = 0, kind: str = "") -> Outcome:
    """Read one input and judge what comes of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write(folder, files)
    Path("/proc/self/clear_refs").write_text("5")  # the largest memory from here on
    before, began = _largest(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watch.seen.clear()
        watch.on = True
        try:
            reader.read(folder)
            end, why = READ, ""
        except (InputError, RunError) as refusal:
            end, why = judged(str(refusal), files, (*reader.names, folder.name))
        except BaseException as error:
            end, why = FOUND, described(error)
        finally:
            watch.on = False
    seconds, memory = time.process_time() - began, _largest() - before
    foreign = [each for each in caught if not _is_ours(each)]
    problems = [f"{each.category.__name__}: {' '.join(str(each.message).split())[:120]}" for each in foreign[:1]]
    problems += [f"does {act}" for act in watch.seen[:1]]
    problems += [f"took {seconds:.1f} s"] * (seconds > reader.seconds)
    problems += [f"took {memory // MB} MB"] * (memory > reader.memory)
    problems += [f"a valid input is refused: {why}"] * (kind == "valid" and end == REFUSED)
    if problems:
        end, why = FOUND, "; ".join([*problems, *([why] if why and kind != "valid" else [])])
    return Outcome(reader.name, number, kind, end, why[:LONGEST], round(seconds, 3), memory)


def judged(text: str, files: Files, names: Sequence[str]) -> tuple[str, str]:
    """A refusal is one short line that names the file, or another word for the input."""
    known = {*names, *(part for name in files for part in name.split("/"))}
    if "\n" in text or "\r" in text:
        return FOUND, f"more than one line: {text!r}"
    if len(text) > LONGEST:
        return FOUND, f"{len(text)} characters: {text[:200]}"
    if not any(name in text for name in known):
        return FOUND, f"names no file: {text}"
    return REFUSED, text


def described(error: BaseException) -> str:
    """An error that is not ours, and where it was let through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/pucl/" in frame.filename]
    place = f" at {ours[-1].filename.rsplit('/pucl/')[-1]}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}{place}"


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _is_ours(caught: warnings.WarningMessage) -> bool:
    from pucl.data.own.rules import ColumnWarning

    return issubclass(caught.category, ColumnWarning | RunWarning) or (
        caught.category is UserWarning and bool(OURS.match(str(caught.message)))
    )
