"""Figures of stored results: accuracy over one quantity, a curve for each method, a panel for each task."""

import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from types import MappingProxyType

from pucl.bench.figures.picture import Curve, Panel, Picture
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.line import ResultLine
from pucl.bench.results.notebooks import Point, points
from pucl.bench.results.store import newest
from pucl.bench.run.runner import select
from pucl.errors import Described, InputError, bad_argument
from pucl.registry import entries

OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {"sscl": "ssCL", "scl": "sCL", "scl_pu": "sCL-PU", "mcl": "mCL", "pucl": "puCL", "punce": "puNCE"}
)
READOUTS: Mapping[str, str] = MappingProxyType({"knn": "kNN (200 neighbours that have true labels)"})
GAMMA = "γ = n_P / n_U"
ACCURACY = "test accuracy (%)"
N_U = "n_U\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
Values = dict[float, list[float]]  # of a curve: the accuracies of all seeds, by where they lie
Lines = Sequence[ResultLine]


def gamma_of(cell: Cell) -> float:
    """γ = n_P / n_U of a cell, which has to say n_U."""
    place = cell.place
    if place.n_unlabelled is None:
        raise bad_argument(f"cell '{cell.name}'", "n_unlabelled", "given in the grid of a figure over γ", None)
    return place.n_labelled / place.n_unlabelled


def task_of(cell: Cell) -> str:
    """The task of a cell."""
    return cell.place.task


def shown_name(task: str) -> str:
    """What the paper calls a task; any other title as it is."""
    known = entries("datasets").get(task)
    return task if known is None else known.summary.partition(":")[0]


def objective_of(cell: Cell) -> str:
    """The name of a cell's objective, as the paper writes it."""
    if not isinstance(cell, Pipeline):
        raise bad_argument(f"cell '{cell.name}'", "its kind", "a pipeline", Described("a baseline"))
    return OBJECTIVES.get(cell.objective, cell.objective)


@dataclass(frozen=True)
class Published:
    """Which numbers of the authors' notebooks stand beside ours: a group, and where each belongs.

    Attributes:
        group: of `pucl.bench.results.notebooks.GROUPS`.
        curve: the curve that a number belongs to; None leaves it out.
        x: where it lies; None leaves it out, but on a curve that knows no labels.
    """

    group: str
    curve: Callable[[Point], str | None]
    x: Callable[[Point], float | None] = field(default=lambda point: point.gamma)


@dataclass(frozen=True)
class Sweep:
    """A figure of stored results.

    Attributes:
        title: above the picture.
        only: which cells of the grid it shows, as ``pucl bench run --only`` has it.
        x_label: of the axis, with the unit.
        curve: the name of the curve that a cell belongs to; None leaves it out.
        x: where a cell lies on the axis.
        panel: the title of the panel that a cell belongs to.
        without_labels: curves of objectives that see no labels, or all: one value, drawn over the whole axis.
        published: of the authors, in the panel of their task.
        more: other panels, from the results.
        joined: whether the points of a curve are joined by a line.
        order: of the panels; the others come after those named, as the grid has them.
        more_first: whether `more` comes before.
        same_scale: whether panels of one quantity have the same axis of it.
        height: of a row of panels in inches.
        readout: what to say of the readout in place of the names of the cells.
    """

    title: str
    only: tuple[str, ...]
    x_label: str = GAMMA
    curve: Callable[[Cell], str | None] = objective_of
    x: Callable[[Cell], float] = gamma_of
    panel: Callable[[Cell], str] = task_of
    without_labels: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    more: Callable[[Lines], tuple[Panel, ...]] = field(default=lambda _: ())
    joined: bool = True
    order: tuple[str, ...] = ()
    more_first: bool = False
    same_scale: bool = True
    height: float = 2.7
    readout: str = ""


@dataclass(frozen=True)
class Stored:
    """The cells that fill a sweep and those of their results that are there."""

    sweep: Sweep
    grid: Path
    cells: list[Cell]
    lines: list[ResultLine]

    @classmethod
    def of(cls, sweep: Sweep, grid: Path, cells: list[Cell], results: Iterable[ResultLine]) -> "Stored":
        """Those of the cells of a grid that the sweep shows, and their newest results."""
        latest = newest(results)
        shown = [cell for cell in shown_cells(sweep.only, grid, cells) if sweep.curve(cell) is not None]
        return cls(sweep, grid, shown, [latest[cell.key] for cell in shown if cell.key in latest])

    @property
    def command(self) -> str:
        """What fills the figure."""
        return command_of("run", self.grid, self.sweep.only)

    @property
    def encoders(self) -> int:
        """How many encoders have to be trained for all of its cells."""
        return len({cell.encoder_cell.key for cell in self.cells if isinstance(cell, Pipeline)})


def shown_cells(only: Sequence[str], grid: Path, cells: list[Cell]) -> list[Cell]:
    """The cells of a grid that a figure shows; none is an error."""
    try:
        return select(cells, [*only])
    except InputError:
        allowed = f"a grid that has cells with {', '.join(only)}"
        raise bad_argument("pucl bench figure", "--grid", allowed, str(grid)) from None


def command_of(verb: str, grid: Path, only: Sequence[str]) -> str:
    """The command that fills a figure."""
    return " ".join([f"pucl bench {verb}", str(grid), *(f"--only {shlex.quote(text)}" for text in only)])


def draw_sweep(name: str, stored: Stored) -> Picture:
    """The picture of what is stored; nothing stored is an error that says which grid to run."""
    if not stored.lines:
        how_long = "--dry-run says how long it takes here, with --hardware elsewhere"
        cost = f"{len(stored.cells)} cells on {stored.encoders} encoders; {how_long}"
        raise InputError(f"figure {name!r}: no results are stored; run: {stored.command} ({cost})")
    sweep = stored.sweep
    panels = []
    found = measured(stored.lines, sweep, name)
    for title in sorted(found, key=lambda one: sweep.order.index(one) if one in sweep.order else len(sweep.order)):
        ours = found[title]
        theirs = [curve for one in sweep.published for curve in published(one, title, sweep.without_labels)]
        own = [x for curve in (*ours, *theirs) if curve.series not in sweep.without_labels for x in curve.x]
        ends = (min(own), max(own)) if own else (0.0, 1.0)
        flat = tuple(over(ends, curve) if curve.series in sweep.without_labels else curve for curve in (*ours, *theirs))
        panels.append(Panel(shown_name(title), sweep.x_label, ACCURACY, flat))
    more = [*sweep.more(stored.lines)]
    panels = more + panels if sweep.more_first else panels + more
    dashed = any(curve.source == "published" for panel in panels for curve in panel.curves)
    seeds = len({line.cell.place.seed for line in stored.lines})
    said = conditions(stored, dashed=dashed, uneven=_uneven(panels, seeds))
    columns = min(len(panels), 3)
    return Picture(sweep.title, said, tuple(panels), columns, seeds, sweep.same_scale, sweep.height)


def _uneven(panels: Sequence[Panel], seeds: int) -> bool:
    """Whether some point has fewer seeds than there are."""
    counts = [n for panel in panels for curve in panel.curves for n in curve.seeds]
    return any(n < seeds for n in counts)


def measured(lines: Lines, sweep: Sweep, name: str) -> dict[str, list[Curve]]:
    """The curves of results by panel; two of one seed at one place are of different conditions: an error."""
    groups: dict[str, dict[str, Values]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    there: dict[tuple[object, ...], ResultLine] = {}
    for line in lines:
        panel, curve, x = sweep.panel(line.cell), sweep.curve(line.cell), sweep.x(line.cell)
        if curve is None:
            continue
        other = there.setdefault((panel, curve, x, line.cell.place.seed), line)
        if other is not line:
            both = Described(f"both '{other.cell.name}' and '{line.cell.name}'")
            raise bad_argument(f"figure {name!r}", "the grid", "one with a single cell for every point and seed", both)
        groups[panel][curve][x].append(line.accuracy)
    return {
        panel: [replace(measured_curve(series, values), joined=sweep.joined) for series, values in curves.items()]
        for panel, curves in groups.items()
    }


def conditions(stored: Stored, *, dashed: bool, uneven: bool) -> str:
    """Encoders, epochs, readouts, settings, n_U, seeds, and how much of it there is."""
    readout = stored.sweep.readout
    pipelines = [line.cell for line in stored.lines if isinstance(line.cell, Pipeline)]
    seeds = {line.cell.place.seed for line in stored.lines}
    said = [
        _some({cell.encoder for cell in pipelines}),
        f"{_some({cell.recipe.training.epochs for cell in pipelines})} epochs",
        readout or f"readout {_some({READOUTS.get(cell.readout.name, cell.readout.name) for cell in pipelines})}",
        _some({line.cell.place.setting for line in stored.lines}),
        f"{N_U}{_some({line.cell.place.n_unlabelled for line in stored.lines})}",
        f"mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else "one seed",
    ]
    if len(hardware := {line.origin.hardware for line in stored.lines}) > 1:
        said.append(f"run on {_some(hardware)}")
    if uneven:
        said.append("open: fewer seeds")
    if dashed:
        said.append("dashed: the authors' notebooks, ResNet-18")
    if len(stored.lines) < len(stored.cells):
        said.append(f"{len(stored.lines)} of {len(stored.cells)} cells are there{_missing(stored)}")
    return "; ".join(said) + "."


def _missing(stored: Stored) -> str:
    """What all cells without a result have in common and not every cell has: their tasks, n_P, π and seeds."""
    there = {line.cell.key for line in stored.lines}
    missing = [cell.place for cell in stored.cells if cell.key not in there]
    said = []
    for label, name in (("task", "task"), ("n_P =", "n_labelled"), ("π =", "true_prior"), ("seed", "seed")):
        values = {getattr(place, name) for place in missing}
        if values < {getattr(cell.place, name) for cell in stored.cells}:
            plural = "s" if name in ("task", "seed") and len(values) > 1 else ""
            said.append(f"{label}{plural} {_some(values)}".replace("_P = ", "_P\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"))
    return f" (missing: {'; '.join(said)})" if said else ""


def measured_curve(series: str, values: Values) -> Curve:
    """Means and standard deviations over seeds; one seed has none."""
    x = tuple(sorted(values))
    spread = tuple(stdev(values[at]) if len(values[at]) > 1 else math.nan for at in x)
    error = () if all(math.isnan(one) for one in spread) else spread
    return Curve(series, x, tuple(fmean(values[at]) for at in x), error, tuple(len(values[at]) for at in x), "measured")


def published(one: Published, task: str, without_labels: tuple[str, ...] = ()) -> list[Curve]:
    """The curves of a group for a task; several numbers at one place, of several settings, are averaged."""
    found: dict[str, Values] = defaultdict(lambda: defaultdict(list))
    for point in points(one.group):
        series, x = one.curve(point), one.x(point)
        if point.task != task or series is None:
            continue
        x = 0.0 if series in without_labels else x
        if x is not None:
            found[series][x].append(point.accuracy)
    curves = (measured_curve(series, values) for series, values in found.items())
    return [replace(curve, error=(), seeds=(), source="published") for curve in curves]


def over(ends: tuple[float, float], curve: Curve) -> Curve:
    """One value, the mean of a curve's, from end to end."""

    def twice(values: Sequence[float]) -> tuple[float, ...]:
        return (fmean(values),) * 2 if values else ()

    seeds = (sum(curve.seeds),) * 2 if curve.seeds else ()
    return replace(curve, x=ends, y=twice(curve.y), error=twice(curve.error), seeds=seeds)


def _some(values: Iterable[object]) -> str:
    in_order = sorted(values, key=lambda value: (str(type(value)), value))
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in in_order)
