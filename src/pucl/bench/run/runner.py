"""A sweep over a grid: which cells are missing, running them, storing each as it is finished, and what came of it."""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pucl.bench.grid.cells import Config, key_of, name_of, units
from pucl.bench.results.store import newest, writing
from pucl.bench.run.fingerprint import Sources
from pucl.bench.run.pool import Crew
from pucl.bench.run.skips import why_not_run
from pucl.bench.run.work import Bench, Outcome
from pucl.device import pick_device
from pucl.errors import Described, bad_argument, unknown_name
from pucl.models.places import why_not_written

Tell = Callable[[str], None]
WORDS = ("task", "setting", "n_labelled", "seed", "encoder", "prior", "objective", "recipe_name", "top", "method")


@dataclass(frozen=True)
class Plan:
    """What a sweep would do.

    Attributes:
        missing: the cells to run.
        there: how many have their line already.
        other: the commits of those lines that were made by other code.
        skipped: cells that cannot be run here, with the reason.
        again: the keys of cells to run that have a line too.
    """

    missing: list[Config]
    there: int
    other: list[str]
    skipped: list[tuple[Config, str]]
    again: frozenset[str] = frozenset()


@dataclass
class Summary:
    """What came of a sweep."""

    ran: int = 0
    there: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people: the counts, then why cells were skipped and what failed."""
        counts = f"{self.there} already there, {len(self.skipped)} skipped, {len(self.failed)} failed"
        yield f"{self.ran} ran in {self.seconds:.0f} s, {counts}"
        for reason, count in Counter(reason for _, reason in self.skipped).items():
            yield f"skipped {count}: {reason}"
        for name, error in self.failed:
            yield f"failed: {name}: {error}"


def select(cells: list[Config], only: list[str]) -> list[Config]:
    """The cells that fit all of `only`: ``key=value`` (``key=a,b`` for either), or words that occur in their name.

    Numbers in a name are whole: "seed 1" is not a part of "seed 10".
    """
    for text in only:
        key, equals, value = text.partition("=")
        if equals and key not in WORDS:
            raise unknown_name("key of --only", key, WORDS)
        wanted = value.split(",")
        if equals:
            cells = [cell for cell in cells if str(cell.get(key)) in wanted]
        else:
            words = _with_whole_numbers(text)
            cells = [cell for cell in cells if words.search(name_of(cell))]
        if not cells:
            raise bad_argument("pucl bench run", "--only", "what fits some cell of the grid", text)
    return cells


def _with_whole_numbers(text: str) -> re.Pattern[str]:
    """Finds a text where no digit stands beside one at its ends."""
    before, after = r"(?<![0-9])" * text[:1].isdecimal(), r"(?![0-9])" * text[-1:].isdecimal()
    return re.compile(before + re.escape(text) + after)


def plan(cells: list[Config], lines: list[Config], *, force: bool = False, stale: bool = False) -> Plan:
    """Which cells to run, as far as they can be run here.

    These are the cells without a line; when `stale` also those whose line was made by other code; when forced all.
    """
    found, sources = newest(lines), Sources()
    known = {key: found[key] for cell in cells if (key := key_of(cell)) in found}
    old = {key for key, line in known.items() if line["code"] != sources.code_of(line["config"])}
    kept = set[str]() if force else known.keys() - (old if stale else set())
    missing, skipped = [], []
    for cell in cells:
        if key_of(cell) not in kept:
            reason = why_not_run(cell)
            if reason is None:
                missing.append(cell)
            else:
                skipped.append((cell, reason))
    other = [known[key]["commit"] for key in old & kept]
    return Plan(missing, len(kept), other, skipped, frozenset(known.keys() & map(key_of, missing)))


def sweep(
    cells: list[Config],
    results: Path,
    *,
    encoders: Path | None = None,
    jobs: int = 1,
    force: bool = False,
    stale: bool = False,
    device: str | None = None,
    commit: str | None = None,
    tell: Tell,
) -> Summary:
    """Run the missing cells of a grid, see `plan`, and append their lines to `results` as they come.

    With several jobs, workers take whole units (the cells of one encoder); this process alone writes. It may be killed
    at any time: what is lost is what was not finished.
    """
    place = encoders or results.parent / "encoders"
    pick_device(device)  # or one error, before any work
    with writing(results) as writer:
        _check_folder(place)
        to_do = plan(cells, writer.lines, force=force, stale=stale)
        say_other(to_do, tell)
        names = {key_of(cell): name_of(cell) for cell in cells}
        summary = Summary(there=to_do.there, skipped=[(name_of(cell), reason) for cell, reason in to_do.skipped])
        began, done = time.perf_counter(), 0
        try:
            for outcome in _outcomes(to_do.missing, place, jobs, force, device, commit):
                done += 1
                if outcome.line is not None:
                    writer.add(outcome.line)
                _count(summary, outcome, names[outcome.key])
                tell(f"[{done}/{len(to_do.missing)}] {names[outcome.key]}: {_said(outcome)}")
        finally:
            summary.seconds = time.perf_counter() - began
            for text in summary.lines():
                tell(text)
    return summary


def say_other(to_do: Plan, tell: Tell) -> None:
    """Lines by other code are kept, and cells are run again, but not without a word."""
    if to_do.other:
        commits = ", ".join(sorted(set(to_do.other)))
        count = f"{len(to_do.other)} of {to_do.there} cells"
        tell(f"{count} were made by other code (commit {commits}); kept; --stale runs them again")
    if to_do.again:
        tell(f"{len(to_do.again)} of {len(to_do.missing)} cells to run have a result already; the new one counts")


def _check_folder(encoders: Path) -> None:
    """Encoders can be kept there, or one error; the folder is made when there is one to keep."""
    if (reason := why_not_written(encoders)) is not None:
        got = Described(f"{encoders}: {reason}")
        raise bad_argument("pucl bench run", "--encoders", "a folder that can be written to", got)


def _outcomes(
    missing: list[Config], encoders: Path, jobs: int, force: bool, device: str | None, commit: str | None
) -> Iterator[Outcome]:
    work = units(missing)
    if not work:
        return
    if jobs == 1:
        bench = Bench(encoders, device, commit, anew=force)
        for unit in work:
            yield from bench.run(unit)
        return
    how = {"encoders": str(encoders), "device": device, "commit": commit, "anew": force}
    yield from Crew(jobs, how, max(1, (os.cpu_count() or 1) // jobs)).run(work)


def _count(summary: Summary, outcome: Outcome, name: str) -> None:
    if outcome.line is not None:
        summary.ran += 1
    elif outcome.skipped is not None:
        summary.skipped.append((name, outcome.skipped))
    else:
        summary.failed.append((name, str(outcome.failed)))


def _said(outcome: Outcome) -> str:
    if outcome.line is None:
        return f"skipped: {outcome.skipped}" if outcome.skipped is not None else f"failed: {outcome.failed}"
    metrics, seconds = outcome.line["metrics"], outcome.line["seconds"]
    return f"accuracy {metrics['accuracy']:.2f}, {seconds:.1f} s"
