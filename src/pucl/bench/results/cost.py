"""What a run will cost: the time of its cells on this device, from the times that stored results have on it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

from pucl.bench.grid.cells import Baseline, Cell, Pipeline, units, variant_of
from pucl.bench.grid.identity import canonical
from pucl.bench.grid.recipes import FROZEN
from pucl.bench.results.line import ResultLine
from pucl.bench.tables.line import FitLine, TableCell, TableLine

EXACT = "the same configuration with any seed"
THREADS = (" thread", " threads")  # the end of the name of a processor; others are cards
NOT_SHARED = 0.9  # a part of the seconds from which on sharing the card makes no difference worth a word


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
    """A job that was done.

    Attributes:
        job: what was done.
        seconds: that it took.
        hardware: where.
        end: when it was done, in seconds since 1970, or None where that is not known.
        share: the part of these seconds that was its own, where it shared a card with others, see `shared`.
    """

    job: Job
    seconds: float
    hardware: str
    end: float | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Cost:
    """What jobs will take on one device, one after another.

    Attributes:
        hardware: the device, as results name it.
        seconds: of the jobs whose time is known.
        card_seconds: the same where several jobs share the card, as they did when the times were stored.
        known: how many these are, by what they are and how near the stored times are that were taken.
        unknown: how many have no stored time on this hardware, by what they are.
    """

    hardware: str
    seconds: float
    card_seconds: float
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
        time = f"about {_time(self.seconds)} on {self.hardware}, one after another"
        if self.card_seconds < NOT_SHARED * self.seconds:
            time += f", or about {_time(self.card_seconds)} where as many share it as when the times were stored"
        line = f"cost: {time}: {counted}, by stored times ({near})"
        return f"{line}; unknown: {lacking} without one" if lacking else line


class Times:
    """What stored times tell of jobs on one device.

        seconds of a job = a · median over the stored times of (seconds / a')

    where a and a' are the amounts of the job and of what was stored, and the stored times are those of the nearest kind
    that has any on this hardware.
    """

    def __init__(self, done: Iterable[Timed], hardware: str) -> None:
        self.hardware = hardware
        rates: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
        for timed in done:
            if timed.hardware == hardware:
                rate = timed.seconds / timed.job.amount
                for kind in timed.job.kinds:
                    rates[timed.job.what, *kind].append((rate, rate * timed.share))
        self._rates = {kind: tuple(map(median, zip(*own, strict=True))) for kind, own in rates.items()}

    def of(self, job: Job) -> tuple[str, float, float] | None:
        """How near the stored times are, the seconds of a job, and those of them that are its own; or nothing."""
        for kind in job.kinds:
            if (found := self._rates.get((job.what, *kind))) is not None:
                return kind[0], job.amount * found[0], job.amount * found[1]
        return None


def cost(jobs: Iterable[Job], times: Times) -> Cost:
    """What jobs will take: the sum over them, see `Times`."""
    seconds, card_seconds, known, unknown = 0.0, 0.0, Counter[tuple[str, str]](), Counter[str]()
    for job in jobs:
        found = times.of(job)
        if found is None:
            unknown[job.what] += 1
        else:
            known[job.what, found[0]] += 1
            seconds, card_seconds = seconds + found[1], card_seconds + found[2]
    return Cost(times.hardware, seconds, card_seconds, known, unknown)


def shared(done: Iterable[Timed]) -> list[Timed]:
    """The same with the part of its seconds that every job had a card for itself, as if all at work had equal parts.

        share = 1 / seconds · ∫ dt / (jobs at work on the card at the time t)

    so that the seconds · share of a session add up to what it took. Processors are not shared: their jobs have
    threads of their own.
    """
    done = list(done)
    spans = {
        at: (timed.end - timed.seconds, timed.end)
        for at, timed in enumerate(done)
        if timed.end is not None and timed.seconds > 0 and is_card(timed.hardware)
    }
    moments = sorted((when, begins, at) for at, span in spans.items() for begins, when in ((1, span[0]), (0, span[1])))
    own, at_work, before = defaultdict[int, float](float), dict[str, set[int]](), 0.0
    for when, begins, at in moments:
        for group in at_work.values():
            for other in group:
                own[other] += (when - before) / len(group)
        before, group = when, at_work.setdefault(done[at].hardware, set())
        (group.add if begins else group.remove)(at)
    return [replace(timed, share=own[at] / timed.seconds) if at in spans else timed for at, timed in enumerate(done)]


def is_card(hardware: str) -> bool:
    """Whether this is the name of a card, and not that of a processor with its threads."""
    return not hardware.endswith(THREADS)


def times_of_cells(lines: Iterable[ResultLine], hardware: str) -> Times:
    """What results tell of the times of cells and of encoders."""
    return Times(shared(_timed(lines)), hardware)


def cost_of_cells(cells: list[Cell], lines: Iterable[ResultLine], hardware: str) -> Cost:
    """What cells of the paper's benchmark will take, with every encoder trained anew, once for its cells."""
    jobs = [job for unit in units(cells) for job in (*map(job_of, unit), *training_of(unit[0]))]
    return cost(jobs, times_of_cells(lines, hardware))


def cost_of_tables(cells: Iterable[TableCell], lines: Iterable[TableLine], hardware: str) -> Cost:
    """What fits to real tables will take."""
    done = (
        Timed(_of_table(line.cell), line.metrics.cpu_seconds, line.origin.hardware)
        for line in lines
        if isinstance(line, FitLine) and not isinstance(line.metrics, str)
    )
    return cost(map(_of_table, cells), Times(done, hardware))


def _timed(lines: Iterable[ResultLine]) -> Iterator[Timed]:
    """The times in results: of cells, and of encoders; one encoder has the same time in the lines of all its cells.

    An encoder was done when the first of its cells began.
    """
    trained: dict[tuple[str, float], Timed] = {}
    for line in lines:
        hardware, end = line.origin.hardware, datetime.fromisoformat(line.time).timestamp()
        yield Timed(job_of(line.cell), line.seconds, hardware, end)
        for job in training_of(line.cell):
            if line.encoder_seconds is not None:
                own, begun = (job.kinds[0][1], line.encoder_seconds), end - line.seconds
                if own not in trained or begun < (trained[own].end or begun):
                    trained[own] = Timed(job, line.encoder_seconds, hardware, begun)
    yield from trained.values()


def job_of(cell: Cell) -> Job:
    """The work on a cell without its encoder."""
    method = ["method", cell.method] if isinstance(cell, Baseline) else ["readout", cell.readout.name]
    same = canonical([*method, cell.encoder])
    return Job("cell", (
        (EXACT, variant_of(cell)),
        ("the same task, encoder and method", canonical([cell.place.task, same])),
        ("the same encoder and method on other tasks", same),
    ))  # fmt: skip


def training_of(cell: Cell) -> Iterator[Job]:
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


def _time(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < 60 else f"{seconds / 60:,.0f} min"


def _number(what: str, n: int) -> str:
    return f"{n} {what}{'s' * (n > 1)}"
