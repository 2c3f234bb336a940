"""A sweep over a grid: find the cells without a result, run them, store each when it is finished, and report."""

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path

from pucl.bench.grid import renames
from pucl.bench.grid.cells import EPOCH, PRIOR_ERROR, Baseline, Cell, units
from pucl.bench.grid.decode import Options
from pucl.bench.grid.place import Place
from pucl.bench.grid.readouts import STANDS_FOR
from pucl.bench.results.cost import cost_of_cells, times_of_cells
from pucl.bench.results.line import ResultLine
from pucl.bench.results.store import newest, read_results, writing
from pucl.bench.run.draws import check_draws
from pucl.bench.run.encoding import EncoderStore
from pucl.bench.run.matching import matching
from pucl.bench.run.pool import run_by_ray, run_in_pool
from pucl.bench.run.provenance import hardware_of
from pucl.bench.run.skips import why_not_run
from pucl.bench.run.time_box import TimeBox
from pucl.bench.run.work import Bench, Outcome
from pucl.bench.run.worker import Orders, threads_of
from pucl.deprecation import warn_renamed
from pucl.device import pick_device
from pucl.engines import HERE, Engine
from pucl.errors import Described, bad_argument
from pucl.models.places import why_not_written

Say = Callable[[str], None]  # one line for people
OF_PLACE = tuple(field.name for field in fields(Place))
WORDS = (*OF_PLACE, "encoder", "prior", PRIOR_ERROR, "objective", "recipe_name", "readout", EPOCH, "method")


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do.

    Attributes:
        missing: the cells to run.
        there: how many have their line already.
        outdated: the commits of those lines that are outdated and kept.
        skipped: cells that cannot be run here, with the reason.
        again: the keys of cells to run that have a line too.
    """

    missing: list[Cell]
    there: int
    outdated: list[str]
    skipped: list[tuple[Cell, str]]
    again: frozenset[str] = frozenset()


@dataclass
class SweepSummary:
    """How many cells a sweep ran, skipped and failed, and why, and how many it left because its time was over."""

    ran: int = 0
    there: int = 0
    left: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people: the counts, then why cells were skipped and what failed."""
        counts = f"{self.there} already there, {len(self.skipped)} skipped, {len(self.failed)} failed"
        counts += f", {self.left} left for another run: no time" if self.left else ""
        yield f"{self.ran} ran in {self.seconds:.0f} s, {counts}"
        for reason, count in Counter(reason for _, reason in self.skipped).items():
            yield f"skipped {count}: {reason}"
        for name, error in self.failed:
            yield f"failed: {name}: {error}"


def select(cells: list[Cell], only: list[str]) -> list[Cell]:
    """The cells that fit all of `only`, see `matching`; keys are also the options of objectives."""
    keys = (*WORDS, *sorted({name for cell in cells for name in _options(cell)}))
    return matching(cells, [_renamed(text) for text in only], keys, _value)


def _renamed(text: str) -> str:
    """A word of ``--only`` with the new name of its key, and readouts by the name of what they stand for."""
    key, equals, value = text.partition("=")
    if equals and key in renames.TEACHER:
        warn_renamed("pucl bench run --only", key, renames.TEACHER[key])
        key = renames.TEACHER[key]
    if key == "readout":
        value = ",".join(STANDS_FOR.get(name, name) for name in value.split(","))
    return f"{key}{equals}{value}"


def _value(cell: Cell, key: str) -> object:
    """What a cell has under a key of ``--only``."""
    if key in OF_PLACE:
        return getattr(cell.place, key)
    if key == "readout":
        return None if isinstance(cell, Baseline) else cell.readout.name
    return _options(cell)[key] if key in _options(cell) else getattr(cell, key, None)


def _options(cell: Cell) -> Options:
    """The options of its objective."""
    return {} if isinstance(cell, Baseline) else cell.objective_options


def plan(cells: list[Cell], lines: list[ResultLine], *, force: bool = False, stale: bool = False) -> SweepPlan:
    """Which cells to run, as far as they can be run here; a draw that the data do not allow is an error.

    These are the cells without a line; when `stale` also those whose line is outdated; when forced all.
    """
    latest = newest(lines)
    known = {cell.key: latest[cell.key] for cell in cells if cell.key in latest}
    old = {key for key, line in known.items() if line.is_outdated}
    kept = set[str]() if force else known.keys() - (old if stale else set())
    missing: list[Cell] = []
    skipped = []
    for cell in cells:
        if cell.key not in kept:
            reason = why_not_run(cell)
            if reason is None:
                missing.append(cell)
            else:
                skipped.append((cell, reason))
    check_draws(missing)
    outdated = [known[key].origin.commit for key in old & kept]
    again = frozenset(known.keys() & {cell.key for cell in missing})
    return SweepPlan(missing, len(kept), outdated, skipped, again)


def sweep(
    cells: list[Cell],
    results: Path,
    *,
    encoders: Path | None = None,
    jobs: int = 1,
    force: bool = False,
    stale: bool = False,
    device: str | None = None,
    commit: str | None = None,
    engine: Engine = HERE,
    minutes: float | None = None,
    on_progress: Say,
) -> SweepSummary:
    """Run the missing cells of a grid, see `plan`, and append their lines to `results` as they come.

    With several jobs, or on a cluster, workers take whole units (the cells of one encoder); this process alone writes.
    It may be killed at any time: what is lost is what was not finished. The workers of a cluster share the folder of
    encoders. With `minutes` nothing is begun that should not be done by then, see `TimeBox`, and nothing goes on.
    """
    pick_device(device)  # an unusable device is an error before any work
    folder = encoders or results.parent / "encoders"
    if encoders is not None:
        _check_folder(encoders)
    known = read_results(results) if results.is_file() else []
    plan(cells, known, force=force, stale=stale)  # what it refuses leaves no file
    with writing(results) as writer:
        _check_folder(folder)
        to_do = plan(cells, writer.lines, force=force, stale=stale)
        say_outdated(to_do, on_progress)
        say_cost(to_do, writer.lines, on_progress, device=device, jobs=jobs)
        names = {cell.key: cell.name for cell in cells}
        summary = SweepSummary(there=to_do.there, skipped=[(cell.name, reason) for cell, reason in to_do.skipped])
        began, done = time.perf_counter(), 0
        orders = Orders(folder.resolve(), device, commit, force, _threads(jobs))
        box = None if minutes is None else _time_box(60 * minutes, writer.lines, orders, jobs)
        try:
            with closing(_outcomes(units(to_do.missing), jobs, orders, engine, box)) as outcomes:
                for outcome in outcomes:
                    done += 1
                    if outcome.line is not None:
                        writer.add(outcome.line)
                        if box is not None:
                            box.saw(outcome.line)
                    _count(summary, outcome, names[outcome.key])
                    on_progress(f"[{done}/{len(to_do.missing)}] {names[outcome.key]}: {_said(outcome)}")
            summary.left = len(to_do.missing) - done
        finally:
            summary.seconds = time.perf_counter() - began
            for text in summary.lines():
                on_progress(text)
    return summary


def say_outdated(to_do: SweepPlan, say: Say) -> None:
    """Report outdated lines that are kept, and cells that are run again."""
    if to_do.outdated:
        commits = ", ".join(sorted(set(to_do.outdated)))
        count = f"{len(to_do.outdated)} of {to_do.there} cells"
        made = f"were made by an earlier revision of the code (commit {commits})"
        say(f"{count} {made} and are kept; --stale runs them again")
    if to_do.again:
        say(f"{len(to_do.again)} of {len(to_do.missing)} cells to run have a result already; the new one counts")


def say_cost(
    to_do: SweepPlan,
    lines: list[ResultLine],
    say: Say,
    *,
    device: str | None = None,
    jobs: int = 1,
    hardware: str | None = None,
) -> None:
    """Report what the cells to run will cost on this device, or other hardware, as far as stored times tell."""
    if to_do.missing:
        say(str(cost_of_cells(to_do.missing, lines, hardware or _hardware(device, jobs))))


def _hardware(device: str | None, jobs: int) -> str:
    """The device of a run, as results name it."""
    return hardware_of(str(pick_device(device)), None if jobs == 1 else threads_of(_threads(jobs)))


def _time_box(seconds: float, lines: list[ResultLine], orders: Orders, jobs: int) -> TimeBox:
    """The seconds of a run, with what results and stored encoders tell of what its cells will take."""
    store = EncoderStore(orders.encoders, str(pick_device(orders.device)), orders.anew)
    return TimeBox(seconds, times_of_cells(lines, _hardware(orders.device, jobs)), store.has)


def _threads(jobs: int) -> int:
    """The threads of every worker, where the environment does not say how many."""
    return max(1, (os.cpu_count() or 1) // jobs)


def _check_folder(encoders: Path) -> None:
    """Refuse a folder that cannot be written to; it is made when the first encoder is stored."""
    if (reason := why_not_written(encoders)) is not None:
        got = Described(f"{encoders}: {reason}")
        raise bad_argument("pucl bench run", "--encoders", "a folder that can be written to", got)


def _outcomes(
    work: list[list[Cell]], jobs: int, orders: Orders, engine: Engine, box: TimeBox | None
) -> Generator[Outcome, None, None]:
    if engine.name == "ray" and work:
        yield from run_by_ray(work, orders, engine.address)
    elif jobs > 1 or box is not None:  # only another process can be ended in the middle of a cell
        yield from run_in_pool(work, jobs, orders, limit=box)
    elif work:
        bench = Bench(orders.encoders, orders.device, orders.commit, anew=orders.anew)
        for unit in work:
            yield from bench.run(unit)


def _count(summary: SweepSummary, outcome: Outcome, name: str) -> None:
    if outcome.line is not None:
        summary.ran += 1
    elif outcome.skipped is not None:
        summary.skipped.append((name, outcome.skipped))
    else:
        summary.failed.append((name, str(outcome.failed)))


def _said(outcome: Outcome) -> str:
    if outcome.line is None:
        return f"skipped: {outcome.skipped}" if outcome.skipped is not None else f"failed: {outcome.failed}"
    return f"accuracy {outcome.line.accuracy:.2f}, {outcome.line.seconds:.1f} s"
