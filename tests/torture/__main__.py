"""`python -m torture`: faults at random moments, and a table of what was survived."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from random import Random

os.environ["OMP_NUM_THREADS"] = "1"

from torture.faults import KINDS, Kind
from torture.inputs import offer, serve
from torture.trial import Bench, Outcome
from torture.verbs import VERBS, Verb

SHORT = "short"  # of --only
# Loaded before runs are forked, so that none of them takes time for it: by every form, and by the long one.
LOADED = (
    *("pucl.cli.app", "pucl.cli.fit", "pucl.cli.resume", "pucl.fitting.from_files", "pucl.models.folder"),
    *("pucl.models.scoring", "pucl.data.download", "pucl.registry", "pucl.data.own", "pucl.cache"),
)
LOADED_TOO = (
    *("pucl.models.many_files", "pucl.report", "pucl.models.export", "pucl.bench.run.runner", "pucl.training"),
    *("pyarrow.parquet", "pyarrow.csv", "onnx", "onnxscript", "torch.onnx", "sklearn.datasets"),
)  # not onnxruntime: it waits at the end of a process for threads that a fork does not have


def combinations(only: str) -> list[tuple[Verb, Kind]]:
    """Every verb with every fault that can happen to it; the short form has quick verbs, and every fault once."""
    if only == SHORT:
        quick = [verb for verb in VERBS if verb.quick]
        return [(quick[i % len(quick)], kind) for i, kind in enumerate(kind for kind in KINDS if not kind.only)]
    every = [(verb, kind) for kind in KINDS for verb in VERBS if not kind.only or verb.name in kind.only]
    return [(verb, kind) for verb, kind in every if only in f"{verb.name}: {kind.name}"]


def order(only: str, seed: int, rounds: int) -> list[tuple[Verb, Kind]]:
    """Rounds of all combinations, each in an order of its own."""
    found = []
    for number in range(rounds):
        some = combinations(only)
        Random(f"{seed} {number}").shuffle(some)
        found += some
    return found


def table(outcomes: list[Outcome]) -> str:
    """Of every verb and fault, how many were survived of how many tried."""
    cells: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        cells[outcome.verb, outcome.fault].append(outcome)
    verbs = [verb.name for verb in VERBS if any(name == verb.name for name, _ in cells)]
    kinds = [kind.name for kind in KINDS if any(name == kind.name for _, name in cells)]
    lines = [f"| verb | {' | '.join(kinds)} | all |", f"|---|{'---|' * (len(kinds) + 1)}"]
    for verb in [*verbs, "all"]:
        row = []
        for kind in [*kinds, "all"]:
            some = [
                each for (a, b), found in cells.items() for each in found if verb in (a, "all") and kind in (b, "all")
            ]
            row.append(f"{sum(not each.problems for each in some)}/{len(some)}" if some else "")
        lines.append(f"| {verb} | {' | '.join(row)} |")
    return "\n".join(lines)


def stored(paths: list[Path]) -> list[Outcome]:
    """The outcomes that `--out` has written to files."""
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    names = [each.name for each in fields(Outcome)]
    return [Outcome(**{name: line[name] for name in names}) for line in lines]


def torture(faults: int, seed: int, only: str, trial: int | None, out: Path | None) -> list[Outcome]:
    """Try that many faults, or one of them; with `out`, that file gets every outcome as a line of JSON."""
    every = order(only, seed, rounds=1 + (faults if trial is None else trial) // len(combinations(only)))
    outcomes: list[Outcome] = []
    server, port = serve()
    try:
        for module in LOADED if only == SHORT else (*LOADED, *LOADED_TOO):
            import_module(module)
        with tempfile.TemporaryDirectory(prefix="torture-") as root:
            bench = Bench(Path(root), offer(port))
            for number in range(faults) if trial is None else [trial]:
                verb, kind = every[number]
                outcome = bench.trial(verb, kind, number, Random(f"{seed} trial {number}"))
                outcomes.append(outcome)
                if out is not None:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"seed": seed, "trial": number, "only": only, **asdict(outcome)}) + "\n")
                print(f"{number}: {outcome.line()}", file=sys.stderr)
                for problem in outcome.problems:
                    where = f"--seed {seed} --trial {number}" + (f" --only '{only}'" if only else "")
                    print(f"{where}: {outcome.verb}: {outcome.fault} {outcome.moment}: {problem}", flush=True)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    return outcomes


def main() -> None:
    """Parse, torture, print."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same faults")
    parser.add_argument("--only", default="", help="those with this in 'verb: fault'; short for a few quick ones")
    parser.add_argument("--trial", type=int, help="only the fault of this number, as a failure names it")
    parser.add_argument("--out", type=Path, help="a file that gets every outcome as a line of JSON")
    parser.add_argument("--table", type=Path, nargs="+", help="instead, the table of such files")
    parser.add_argument("--soak", type=float, help="instead, minutes of fit, predict and report in one process")
    parser.add_argument("--looks", type=Path, help="of --soak: a file for memory and open files over time (JSON lines)")
    given = parser.parse_args()
    if given.table:
        print(table(stored(given.table)))
        return
    if not sys.platform.startswith("linux"):
        parser.exit(2, "torture: it needs Linux (/proc, process sessions)\n")
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking
    if given.soak is not None:
        from torture.soak import soak

        sys.exit(soak(given.soak, given.seed, given.looks and given.looks.absolute()))
    began = time.perf_counter()
    outcomes = torture(given.faults, given.seed, given.only, given.trial, given.out and given.out.absolute())
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    killed = sum(outcome.code < 0 for outcome in outcomes)
    done = sum(outcome.code == 0 for outcome in outcomes)
    print(f"\n{table(outcomes)}\n")
    print(
        f"{len(outcomes)} faults, {failed} not survived; {killed} runs were killed, "
        f"{len(outcomes) - killed - done} ended with an error, {done} finished in spite of it; "
        f"{sum(outcome.left_in_tmp for outcome in outcomes)} files left in TMPDIR by killed runs; "
        f"seed {given.seed}, {time.perf_counter() - began:.0f} s"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
