"""`python -m fuzz`: damaged and hostile files for every reader, and a table of what came of them."""

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PUCL_CACHE"] = "off"

from fuzz.reader import MB, Reader
from fuzz.readers import READERS
from fuzz.trial import FOUND, READ, REFUSED, Outcome, trials


def fuzz(readers: list[Reader], inputs: int, seed: int, first: int = 0, out: Path | None = None) -> list[Outcome]:
    """Try that many inputs of every reader, from number `first` on; the file `out` gets findings as lines of JSON."""
    outcomes: list[Outcome] = []
    for reader in readers:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            place = Path(folder)
            (place / "seeds").mkdir()
            seeds = reader.seeds(place / "seeds")
            (place / "run").mkdir()
            for outcome in trials(reader, seeds, seed, range(first, first + inputs), place / "run"):
                outcomes.append(outcome)
                if outcome.end == FOUND:
                    print(
                        f"{reader.name} --seed {seed} --number {outcome.number} ({outcome.kind}): {outcome.why}",
                        flush=True,
                    )
                    if out is not None:
                        with out.open("a", encoding="utf-8") as file:
                            file.write(json.dumps({"seed": seed, **asdict(outcome)}) + "\n")
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """Of every reader, how many inputs ended in which way, the largest memory and the slowest input."""
    lines = [
        "| reader | inputs | refused in one line | read | found | memory, MB | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    names = list(dict.fromkeys(outcome.reader for outcome in outcomes))
    for name in [*names, "all"]:
        some = [outcome for outcome in outcomes if name in (outcome.reader, "all")]
        ends = Counter(outcome.end for outcome in some)
        cells = (len(some), ends[REFUSED], ends[READ], ends[FOUND], max(each.memory for each in some) // MB)
        lines.append(
            f"| {name} | {' | '.join(f'{cell:,}' for cell in cells)} | {max(each.seconds for each in some):.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse, try, print."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--reader", default="", help="readers with this in their name")
    parser.add_argument("--inputs", type=int, default=200, help="how many for each reader")
    parser.add_argument("--all", type=int, help="instead, how many in all, spread by the weight of the readers")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same inputs")
    parser.add_argument("--number", type=int, help="only the input of this number, as a finding names it")
    parser.add_argument("--keep", type=Path, help="with --number: write the input into this folder and do not read it")
    parser.add_argument("--out", type=Path, help="a file that gets every finding as a line of JSON")
    given = parser.parse_args()
    if not sys.platform.startswith("linux"):
        parser.exit(2, "fuzz: it needs Linux (limits of processes)\n")
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking
    readers = [reader for reader in READERS if given.reader in reader.name]
    first, inputs = (0, given.inputs) if given.number is None else (given.number, 1)
    if given.keep is not None:
        keep(readers[0], given.seed, first, given.keep)
        return
    outcomes = []
    total = sum(reader.share for reader in readers)
    for reader in readers:
        n = inputs if given.all is None else max(1, given.all * reader.share // total)
        done = fuzz([reader], n, given.seed, first, given.out)
        print(table(done).splitlines()[2], file=sys.stderr, flush=True)
        outcomes += done
    print(f"\n{table(outcomes)}")
    sys.exit(any(outcome.end == FOUND for outcome in outcomes))


def keep(reader: Reader, seed: int, number: int, folder: Path) -> None:
    """Write the input of a number into a folder."""
    from fuzz.reader import write

    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        write(folder, reader.make(reader.seeds(Path(place)), seed, number)[1])


if __name__ == "__main__":
    main()
