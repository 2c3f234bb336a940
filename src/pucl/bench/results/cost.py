"""What a run will cost: the time of its cells on this device, from the times that stored results have on it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from pucl.bench.grid.cells import Baseline, Cell, Pipeline, units, variant_of
from pucl.bench.grid.identity import canonical
from pucl.bench.grid.recipes import FROZEN
from pucl.bench.results.line import ResultLine
from pucl.bench.tables.line import FitLine, TableCell, TableLine

EXACT = "the same configuration with any seed"


@dataclass(frozen=True)
class Job:
    """Something that takes time: a cell without its encoder, or the training of an encoder.

    Attributes:
        what: "cell" or "encoder".
        kinds: what stored times it may be judged by, as (how near they are, which they are), the nearest first.
        amount: what the time is proportional to within a kind, such as epochs.
    """

    what: str
    kinds: tuple[tuple[str, str], ...]
    amount: float = 1.0


@dataclass(frozen=True)
class Timed:
    """A job that was done: its seconds, and the hardware."""

    job: Job
    seconds: float
    hardware: str


@dataclass(frozen=True)
class Cost:
    """What jobs will take on one device, one after another.

    Attributes:
        hardware: the device, as results name it.
        seconds: of the jobs whose time is known.
        known: how many these are, by what they are and how near the stored times are that were taken.
        unknown: how many have no stored time on this hardware, by what they are.
    """

    hardware: str
    seconds: float
    known: Counter[tuple[str, str]]
    unknown: Counter[str]

    def __str__(self) -> str:
        lacking = " and ".join(_number(what, n) for what, n in self.unknown.items())
        if not self.known:
            return f"cost: unknown: {lacking} without a stored time on {self.hardware}"
        counts, reasons = Counter[str](), Counter[str]()
        for (what, reason), n in self.known.items():
            counts[what] += n
            reasons[reason] += n
        counted = " and ".join(_number(what, n) for what, n in counts.items())
        near = "; ".join(f"{n} by {reason}" for reason, n in reasons.items())
        time = f"{max(self.seconds, 1):.0f} s" if self.seconds < 60 else f"{self.seconds / 60:,.0f} min"
        line = f"cost: about {time} on {self.hardware}, one after another: {counted}, by stored times ({near})"
        return f"{line}; unknown: {lacking} without one" if lacking else line


def cost(jobs: Iterable[Job], done: Iterable[Timed], hardware: str) -> Cost:
    """What jobs will take: the sum over jobs of a · median over the stored times of (seconds / a').

    where a and a' are the amounts of the job and of what was stored, and the stored times are those of the nearest kind
    that has any on this hardware.
    """
    rates: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for timed in done:
        if timed.hardware == hardware:
            for kind in timed.job.kinds:
                rates[timed.job.what, *kind].append(timed.seconds / timed.job.amount)
    seconds, known, unknown = 0.0, Counter[tuple[str, str]](), Counter[str]()
    for job in jobs:
        near = [kind for kind in job.kinds if (job.what, *kind) in rates]
        if near:
            seconds += job.amount * median(rates[job.what, *near[0]])
            known[job.what, near[0][0]] += 1
        else:
            unknown[job.what] += 1
    return Cost(hardware, seconds, known, unknown)


def cost_of_cells(cells: list[Cell], lines: Iterable[ResultLine], hardware: str) -> Cost:
    """What cells of the paper's benchmark will take, with every encoder trained anew, once for its cells."""
    jobs = [job for unit in units(cells) for job in (*map(_of_cell, unit), *_of_encoder(unit[0]))]
    return cost(jobs, _timed(lines), hardware)


def cost_of_tables(cells: Iterable[TableCell], lines: Iterable[TableLine], hardware: str) -> Cost:
    """What fits to real tables will take."""
    done = (
        Timed(_of_table(line.cell), line.metrics.cpu_seconds, line.origin.hardware)
        for line in lines
        if isinstance(line, FitLine) and not isinstance(line.metrics, str)
    )
    return cost(map(_of_table, cells), done, hardware)


def _timed(lines: Iterable[ResultLine]) -> Iterator[Timed]:
    """The times in results: of cells, and of encoders; one encoder has the same time in the lines of all its cells."""
    seen = set[tuple[str, float]]()
    for line in lines:
        hardware = line.origin.hardware
        yield Timed(_of_cell(line.cell), line.seconds, hardware)
        for job in _of_encoder(line.cell):
            if line.encoder_seconds is not None and (own := (job.kinds[0][1], line.encoder_seconds)) not in seen:
                seen.add(own)
                yield Timed(job, line.encoder_seconds, hardware)


def _of_cell(cell: Cell) -> Job:
    """The work on a cell without its encoder."""
    method = cell.method if isinstance(cell, Baseline) else cell.readout.name
    same = canonical([method, cell.encoder])
    return Job("cell", (
        (EXACT, variant_of(cell)),
        ("the same task, encoder and method", canonical([cell.place.task, same])),
        ("the same encoder and method on other tasks", same),
    ))  # fmt: skip


def _of_encoder(cell: Cell) -> Iterator[Job]:
    """The training of the encoder of a cell, if it is trained."""
    if not isinstance(cell, Pipeline) or cell.recipe.tune == FROZEN:
        return
    own = replace(cell.encoder_cell, place=replace(cell.place, seed=0))
    network = canonical([cell.encoder, cell.recipe.tune])
    yield Job("encoder", (
        (EXACT, own.key),
        ("the same task, encoder and recipe", canonical([cell.place.task, network, cell.recipe.to_dict()])),
        ("the same task and encoder, for each epoch", canonical([cell.place.task, network])),
        ("the same encoder on other tasks, for each epoch", network),
    ), cell.recipe.training.epochs)  # fmt: skip


def _of_table(cell: TableCell) -> Job:
    return Job("cell", (
        (EXACT, canonical([cell.table, cell.share, cell.method])),
        ("the same table and method", canonical([cell.table, cell.method])),
        ("the same method on other tables", cell.method),
    ))  # fmt: skip


def _number(what: str, n: int) -> str:
    return f"{n} {what}{'s' * (n > 1)}"
