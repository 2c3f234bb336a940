"""`python -m fuzz.guided`: as `python -m fuzz`, but what inputs reach in the code of pucl decides which are changed on.

It needs Linux and the package atheris, which nothing else uses. Every reader has a process of its own for some time.
An input is a whole folder: each change takes one of its files and changes bytes, or values as the seeded inputs do, and
mends the checksums. A finding is kept as a file, and `--again FILE` reads it again.
"""

import argparse
import json
import os
import resource
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PUCL_CACHE"] = "off"

SIZE = struct.Struct("<HI")  # of the name and of the content of a file
LONGEST = 1 << 20  # bytes of an input
HANGS = 120  # seconds after which an input hangs
ADDRESSES = 8 << 30  # bytes of addresses of a process


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

    from fuzz.trial import FOUND, Watch, trial

    for folder in ("seeds", "corpus", "run"):
        (place / folder).mkdir()
    seeds = [files for files in reader.seeds(place / "seeds") if len(packed(files)) <= LONGEST]
    for i, files in enumerate(seeds):
        (place / "corpus" / str(i)).write_bytes(packed(files))
    watch, seen, count = Watch(place), set(), 0
    os.chdir(place / "run")

    def once(data: bytes) -> None:
        nonlocal count
        try:
            files = unpacked(data)
        except ValueError:
            return
        if not files:
            return
        count += 1
        outcome = trial(reader, files, place / "run" / "heap", watch, number=count, kind="guided")
        (place / "count").write_text(str(count), encoding="ascii")
        if outcome.end == FOUND and (why := outcome.why[:60]) not in seen:
            seen.add(why)
            kept = out / f"{short(reader)}-{seed}-{count}"
            kept.write_bytes(data)
            with (out / "found.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({**asdict(outcome), "file": kept.name}) + "\n")

    def mutate(data: bytes, _most: int, seed: int) -> bytes:
        return changed(reader, seeds, data, seed, atheris.Mutate)

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    options = [
        f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST}", f"-timeout={HANGS}", "-rss_limit_mb=0",
        f"-artifact_prefix={out / short(reader)}-died-", "-len_control=0", str(place / "corpus"),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], once, custom_mutator=mutate)
    atheris.Fuzz()


def short(reader: Any) -> str:
    """The name of a reader as that of a file."""
    return str(reader.name).replace(" ", "-").strip(".")


def guided(reader: Any, seconds: int, seed: int, out: Path) -> str:
    """Try inputs of one reader in a process of its own; how many, and how it ended."""
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
        number = Path(place, "count")
        count = int(number.read_text(encoding="ascii") or 0) if number.exists() else 0
    end = "" if status == 0 else f", died with status {status}"
    return f"{reader.name}: {count:,} inputs in {spent.ru_utime + spent.ru_stime:.0f} CPU seconds{end}"


def again(reader: Any, file: Path) -> None:
    """Read a kept input, and print how it ends."""
    from fuzz.readers import tried

    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        print(tried(reader.name, unpacked(file.read_bytes()), Path(place)))


def main() -> None:
    """Parse, try, print."""
    parser = argparse.ArgumentParser(prog="fuzz.guided", description=__doc__)
    parser.add_argument("--reader", nargs="*", default=[""], help="readers with one of these in their name")
    parser.add_argument("--seconds", type=int, default=60, help="for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("found"), help="folder for findings and logs")
    parser.add_argument("--again", type=Path, help="read a kept input of the reader again")
    given = parser.parse_args()
    if given.again is not None:
        from fuzz.readers import READERS

        again(next(reader for reader in READERS if given.reader[0] in reader.name), given.again)
        return
    import atheris

    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["pucl"]):
        from fuzz.readers import READERS

        for reader in READERS:
            if any(name in reader.name for name in given.reader):
                print(guided(reader, given.seconds, given.seed, out), flush=True)


if __name__ == "__main__":
    main()
