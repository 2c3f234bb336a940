"""`python -m fuzz.guided`: as `python -m fuzz`, but what inputs reach in the code of pucl decides which are changed on.

It needs Linux and the package atheris, which nothing else uses. Every reader has a process of its own for some
CPU time. An input is a whole folder: each change takes one of its files and changes bytes, or values as the seeded
inputs do, and mends the checksums. A finding is kept as a file, and `--again FILE` reads it again.
"""

import argparse
import json
import os
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PUCL_CACHE"] = "off"

SIZE = struct.Struct("<HI")  # of the name and of the content of a file
LONGEST = 1 << 20  # bytes of an input
HANGS = 120  # seconds after which an input hangs
ADDRESSES = 8 << 30  # bytes of addresses of a process
MISSING = "fuzz.guided: nothing was tried, as the package atheris is not installed: pip install atheris\n"
TALLY = "tally.json"  # in the folder of a process: how its inputs have ended so far


@dataclass
class Tally:
    """How the inputs of a reader ended, the largest memory (bytes) and the slowest input (CPU seconds)."""

    inputs: int = 0
    refused: int = 0
    read: int = 0
    found: int = 0
    memory: int = 0
    slowest: float = 0.0
    cpu: float = 0.0  # of the whole process
    status: int = 0

    def add(self, outcome: Any) -> None:
        """Count an input; its end is the name of a count."""
        self.inputs += 1
        setattr(self, outcome.end, getattr(self, outcome.end) + 1)
        self.memory, self.slowest = max(self.memory, outcome.memory), max(self.slowest, outcome.seconds)

    def row(self, name: str) -> str:
        """A line of the table."""
        counts = " | ".join(f"{count:,}" for count in (self.inputs, self.refused, self.read, self.found))
        end = f" died with status {self.status}" if self.status else ""
        return f"| {name} | {counts} | {self.memory >> 20:,} | {self.slowest:.1f} | {self.cpu:.0f} |{end}"


def packed(files: dict[str, bytes]) -> bytes:
    """A folder as one input."""
    parts = ((name.encode("utf-8", "surrogateescape"), data) for name, data in sorted(files.items()))
    return b"".join(SIZE.pack(len(name), len(data)) + name + data for name, data in parts)


def unpacked(data: bytes) -> dict[str, bytes]:
    """The folder that was packed; a ValueError for anything else."""
    files, at = {}, 0
    while at < len(data):
        if at + SIZE.size > len(data):
            raise ValueError("no folder")
        n_name, n_data = SIZE.unpack_from(data, at)
        at += SIZE.size
        name, content = data[at : at + n_name], data[at + n_name : at + n_name + n_data]
        at += n_name + n_data
        if at > len(data):
            raise ValueError("no folder")
        files[name.decode("utf-8", "surrogateescape")] = content
    return files


def changed(reader: Any, seeds: Sequence[dict[str, bytes]], data: bytes, seed: int, mutate: Any) -> bytes:
    """The input with a change: of bytes by libFuzzer or by our mutators, or of values by those of the reader."""
    from fuzz.mutators import mutated

    rng = Random(seed)
    try:
        files = unpacked(data)
    except ValueError:
        files = {}
    files = files or dict(rng.choice(seeds))
    kinds = [kind for kind in reader.hostile if kind not in reader.once]
    how = rng.random()
    if how < 0.25 and kinds:
        try:
            files = reader.hostile[rng.choice(kinds)](rng, [files])
        except Exception:  # it changes valid inputs only
            files = reader.hostile[rng.choice(kinds)](rng, seeds)
    else:
        name = rng.choice(sorted(files))
        content = files[name]
        changed_ = mutate(content, max(64, 2 * len(content))) if how < 0.75 and content else mutated(rng, content)
        files = {**files, name: changed_}
    if reader.mended is not None and rng.random() < 0.9:
        files = reader.mended(files)
    found = packed(files)
    return found if len(found) <= LONGEST else data


def work(reader: Any, seconds: int, seed: int, place: Path, out: Path) -> None:
    """Try inputs of one reader."""
    import atheris

    from fuzz.trial import FOUND, Outcome, Watch, trial

    for folder in ("seeds", "corpus", "run"):
        (place / folder).mkdir()
    seeds = [files for files in reader.seeds(place / "seeds") if len(packed(files)) <= LONGEST]
    for i, files in enumerate(seeds):
        (place / "corpus" / str(i)).write_bytes(packed(files))
    watch, seen, tally = Watch(place), set(), Tally()
    os.chdir(place / "run")

    def keep(outcome: Outcome, data: bytes) -> None:
        kept = out / f"{short(reader)}-{seed}-{outcome.number}"
        kept.write_bytes(data)
        with (out / "found.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**asdict(outcome), "file": kept.name}) + "\n")

    def once(data: bytes) -> None:
        if time.process_time() > seconds:
            os._exit(0)
        try:
            files = unpacked(data)
        except ValueError:
            return
        if not files:
            return
        outcome = trial(reader, files, place / "run" / "heap", watch, number=tally.inputs + 1, kind="guided")
        tally.add(outcome)
        (place / TALLY).write_text(json.dumps(asdict(tally)), encoding="ascii")
        if outcome.end == FOUND and (why := outcome.why[:60]) not in seen:
            seen.add(why)
            keep(outcome, data)

    def mutate(data: bytes, _most: int, seed: int) -> bytes:
        return changed(reader, seeds, data, seed, atheris.Mutate)

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    # Seed 0 would be another one every time.
    options = [
        f"-seed={seed + 1}", f"-max_len={LONGEST}", f"-timeout={HANGS}", "-rss_limit_mb=0", "-len_control=0",
        f"-artifact_prefix={out / short(reader)}-died-", str(place / "corpus"),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], once, custom_mutator=mutate)
    atheris.Fuzz()


def short(reader: Any) -> str:
    """The name of a reader as that of a file."""
    return str(reader.name).replace(" ", "-").strip(".")


def guided(reader: Any, seconds: int, seed: int, out: Path) -> "Tally":
    """Try inputs of one reader in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            log = os.open(out / f"{short(reader)}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            work(reader, seconds, seed, Path(place), out)
            os._exit(0)
        _, status, spent = os.wait4(pid, 0)
        file = Path(place, TALLY)
        tally = Tally(**json.loads(file.read_text(encoding="ascii"))) if file.exists() else Tally()
    tally.cpu, tally.status = spent.ru_utime + spent.ru_stime, status
    return tally


def again(reader: Any, file: Path) -> None:
    """Read a kept input, and print how it ends."""
    from fuzz.readers import tried

    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        print(tried(reader.name, unpacked(file.read_bytes()), Path(place)))


def main() -> None:
    """Parse, try, print."""
    parser = argparse.ArgumentParser(prog="fuzz.guided", description=__doc__)
    parser.add_argument("--reader", nargs="*", default=[""], help="readers with one of these in their name")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("found"), help="folder for findings and logs")
    parser.add_argument("--again", type=Path, help="read a kept input of the reader again")
    given = parser.parse_args()
    if given.again is not None:
        from fuzz.readers import READERS

        again(next(reader for reader in READERS if given.reader[0] in reader.name), given.again)
        return
    if not sys.platform.startswith("linux"):
        parser.exit(2, "fuzz.guided: it needs Linux (limits of processes)\n")
    if find_spec("atheris") is None:
        parser.exit(2, MISSING)
    sys.exit(every(given.reader, given.seconds, given.seed, given.out.resolve()))


def every(names: Sequence[str], seconds: int, seed: int, out: Path) -> bool:
    """Try the readers with one of these in their name, and print a table; whether anything was found."""
    import atheris

    out.mkdir(parents=True, exist_ok=True)
    print("| reader | inputs | refused in one line | read | found | memory, MB | slowest, CPU s | CPU s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with atheris.instrument_imports(include=["pucl"]):
        from fuzz.readers import READERS

        tallies = []
        for reader in READERS:
            if any(name in reader.name for name in names):
                tallies.append(guided(reader, seconds, seed, out))
                print(tallies[-1].row(reader.name), flush=True)
    found = any(tally.found or tally.status for tally in tallies)
    if found:
        print(f"\nWhat was found is in {out}.")
    return found


if __name__ == "__main__":
    main()
