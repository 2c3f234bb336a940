"""Tables of our results and the paper's, with mean, spread, number of seeds, difference and a paired test."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pucl.bench.grid.cells import ORACLE, TOLD, Baseline, Cell, Pipeline, variant_of
from pucl.bench.grid.decode import Options, resolved, values_of
from pucl.bench.grid.place import usual_setting
from pucl.bench.results import published as paper
from pucl.bench.results.line import ResultLine
from pucl.bench.results.published import PRETRAINED, TABLES, Column, Published
from pucl.bench.results.store import newest
from pucl.errors import unknown_name
from pucl.registry import entries


class RowLabel(NamedTuple):
    """The label of a row: method, recipe (with what differs from the paper's set-up), and the prior it was given."""

    method: str
    recipe: str
    prior: str


@dataclass
class Measured:
    """One row in one column: our values by seed, the paper's number, and p against the best row."""

    values: dict[int, float] = field(default_factory=dict)
    published: Published | None = None
    p_value: float | None = None
    best: bool = False
    tested_against: bool = False
    outdated: bool = False

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return sum(self.values.values()) / len(self.values)

    @property
    def std(self) -> float | None:
        """The sample standard deviation over seeds, √(Σ (v − mean)² / (n − 1)); None for a single seed."""
        n = len(self.values)
        return math.sqrt(sum((v - self.mean) ** 2 for v in self.values.values()) / (n - 1)) if n > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, where there are both."""
        return self.mean - self.published.accuracy if self.values and self.published is not None else None


@dataclass(frozen=True)
class Row:
    """A method with its entries by column; a reference saw every training label and is not ranked."""

    label: RowLabel
    entries: dict[Column, Measured]
    reference: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper with our rows in it."""

    name: str
    columns: list[Column]
    rows: list[Row]
    older: int = 0
    commits: tuple[str, ...] = ()


def make_table(name: str, lines: Iterable[ResultLine]) -> PaperTable:
    """The table of a name from lines of results.

    Args:
        name: one of `TABLES`, or `PRETRAINED`.
        lines: results of any grids; those that belong to the table are used, of every key the newest.
    """
    if name not in (*TABLES, PRETRAINED):
        raise unknown_name("table", name, (*TABLES, PRETRAINED))
    used = [line for line in newest(lines).values() if paper.belongs(name, line.cell)]
    groups: dict[tuple[RowLabel, Column], list[ResultLine]] = {}
    for line in used:
        place = line.cell.place
        groups.setdefault((label_of(name, line.cell), (place.task, place.n_labelled)), []).append(line)
    rows: dict[RowLabel, Row] = {}
    shown: list[ResultLine] = []
    for (label, column), group in groups.items():
        chosen = latest_variant(group)
        shown += chosen
        cell = chosen[0].cell
        row = rows.setdefault(label, Row(label, {}, cell.is_reference and name != "weak-supervision-knn"))
        row.entries[column] = measured(chosen, paper.published(name).get((paper.counterpart(name, cell) or "", column)))
    _add_published(name, rows, shown)
    for column in paper.columns_of(name):
        _test(column, list(rows.values()))
    order = list(dict.fromkeys(method for method, _ in paper.published(name)))
    commits = tuple(sorted({line.origin.commit for line in shown}))
    ordered = sorted(rows.values(), key=lambda row: _place(row, order))
    return PaperTable(name, paper.columns_of(name), ordered, len(used) - len(shown), commits)


def measured(lines: Iterable[ResultLine], published: Published | None = None) -> Measured:
    """Results of one configuration: accuracies by seed, and whether one of them is outdated."""
    lines = list(lines)
    values = {line.cell.place.seed: line.accuracy for line in lines}
    return Measured(values, published, outdated=any(line.is_outdated for line in lines))


def label_of(table: str | None, cell: Cell) -> RowLabel:
    """The row a cell belongs to, named with what differs from the paper: encoder, setting, a teacher's encoder."""
    task, setting = cell.place.task, cell.place.setting
    words = [] if isinstance(cell, Baseline) else [cell.recipe_name]
    if cell.encoder is not None and cell.encoder != paper.ENCODERS.get((table or "", task)):
        words.append(cell.encoder)
    words += [setting] if setting != usual_setting(task) else []
    words += taught_by(cell)
    words += [TOLD] if isinstance(cell, Pipeline) and cell.knows_classes else []
    prior = {None: "none", ORACLE: "oracle"}.get(cell.prior, f"estimated ({cell.prior})")
    return RowLabel(paper.method_name(table or "", cell), ", ".join(words) or "–", prior)


def taught_by(cell: Cell) -> list[str]:
    """Words for a teacher that has another encoder, if there is one."""
    teacher = None if isinstance(cell, Baseline) else cell.readout.teacher
    return [] if teacher is None or teacher.encoder == cell.encoder else [f"taught by {teacher.encoder}"]


def latest_variant(lines: list[ResultLine]) -> list[ResultLine]:
    """The lines of one configuration, the one run last, among lines that belong to the same entry of a table.

    For a baseline, lines with the settings of the package take precedence.
    """
    lines = [line for line in lines if isinstance(line.cell, Baseline) and _has_preset(line.cell)] or lines
    last = variant_of(max(lines, key=lambda line: (line.time, line.key)).cell)
    chosen = [line for line in lines if variant_of(line.cell) == last]
    return sorted(chosen, key=lambda line: line.cell.place.seed)


def preset_of(cell: Baseline) -> Options:
    """The settings of the package for the method and task of a baseline, as a cell holds them."""
    from pucl.baselines import settings_of

    name = cell.registered
    return resolved(name, values_of(settings_of(name, cell.place.task)), {}, without=("encoder",))


def _has_preset(cell: Baseline) -> bool:
    return cell.registered in entries("baselines") and cell.settings == preset_of(cell)


def paired_p(first: Mapping[int, float], second: Mapping[int, float]) -> float | None:
    """The two-sided p-value of Student's paired t-test over common seeds; None if they have fewer than two.

        t = mean(d) / (sd(d) / √n)

    where d are the differences seed by seed, against the t distribution with n − 1 degrees of freedom. Differences
    that are all alike have no spread: p is then 1 if they are 0, else 0.
    """
    seeds = sorted(first.keys() & second.keys())
    if len(seeds) < 2:
        return None
    differences = [first[seed] - second[seed] for seed in seeds]
    if max(differences) - min(differences) < 1e-9:
        return 1.0 if abs(differences[0]) < 1e-9 else 0.0
    from scipy.stats import ttest_rel

    return float(ttest_rel([first[seed] for seed in seeds], [second[seed] for seed in seeds]).pvalue)


def _add_published(name: str, rows: dict[RowLabel, Row], shown: list[ResultLine]) -> None:
    """A row for every published method that no row of ours carries, and the paper's number where ours is missing."""
    names = {label_of(name, line.cell): paper.counterpart(name, line.cell) for line in shown}
    for (method, column), number in paper.published(name).items():
        carrying = [label for label, known in names.items() if known == method]
        if not carrying:
            label = RowLabel(method, "published", "oracle" if number.with_prior else "none")
            rows.setdefault(label, Row(label, {}))
            carrying = [label]
        for label in carrying:
            rows[label].entries.setdefault(column, Measured(published=number))


def _test(column: Column, rows: list[Row]) -> None:
    """Mark our best row of a column, and compare the others with the best that has two seeds at least."""
    ours = [row.entries[column] for row in rows if column in row.entries and not row.reference]
    ours = [entry for entry in ours if entry.values]
    if not ours:
        return
    max(ours, key=lambda entry: entry.mean).best = True
    repeated = max(ours, key=lambda entry: (len(entry.values) > 1, entry.mean))
    for entry in ours:
        if entry is not repeated:
            entry.p_value = paired_p(repeated.values, entry.values)
            repeated.tested_against |= entry.p_value is not None


def _place(row: Row, order: list[str]) -> tuple[Any, ...]:
    """Rows in the order of the paper, ours after the published method they are compared with, references last."""
    numbers = [entry.published.method for entry in row.entries.values() if entry.published is not None]
    at = order.index(numbers[0]) if numbers else len(order)
    exact = row.label.method in order
    return (row.reference, at, not exact, row.label.method, row.label.recipe, row.label.prior)
