"""How a summary of tables is written: text for a terminal, Markdown, CSV for machines."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pucl.bench.pages.layouts import NOTHING
from pucl.bench.tables.line import TableLine
from pucl.bench.tables.summary import Comparison, PriorRow, PromiseRow, RoleSummary, failures, knows, summarise
from pucl.errors import unknown_name

Value = str | float | None
FIELDS = ("role", "part", "row", "measure", "value")


@dataclass(frozen=True)
class Sheet:
    """One part of the summary.

    Attributes:
        role: of the tables.
        part: its short name, for machines.
        title: for people.
        names: how many of the first columns name the row.
        heads: of the columns.
        digits: behind the point, for every column.
        rows: of values.
    """

    role: str
    part: str
    title: str
    names: int
    heads: tuple[str, ...]
    digits: tuple[int, ...]
    rows: list[tuple[Value, ...]]


def write(lines: Iterable[TableLine], form: str) -> str:
    """The summary of stored lines in one of `FORMATS`, ending in a line feed."""
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    return FORMATS[form](list(lines))


def as_text(lines: list[TableLine]) -> str:
    """Every part as a table of aligned columns."""
    parts = [f"{sheet.title}\n{_aligned(sheet)}" for sheet in sheets(lines)]
    return "\n\n".join(["tables", *parts, *notes(lines)]) + "\n"


def as_markdown(lines: list[TableLine], level: int = 2) -> str:
    """Every part as a table under a heading of some level, notes at the end."""
    parts = [f"{'#' * level} {sheet.title}\n\n{_piped(sheet)}" for sheet in sheets(lines)]
    return "\n\n".join([*parts, *notes(lines)]) + "\n"


def as_csv(lines: list[TableLine]) -> str:
    """One line for every row and measure, numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for sheet in sheets(lines):
        for row in sheet.rows:
            name = ", ".join(str(value) for value in row[: sheet.names])
            for head, value in zip(sheet.heads[sheet.names :], row[sheet.names :], strict=True):
                shown = "" if value is None else round(value, 5) if isinstance(value, float) else value
                writer.writerow([sheet.role, sheet.part, name, head, shown])
    return out.getvalue()


FORMATS: Mapping[str, Callable[[list[TableLine]], str]] = MappingProxyType(
    {"text": as_text, "markdown": as_markdown, "csv": as_csv}
)


def sheets(lines: Iterable[TableLine]) -> list[Sheet]:
    """The parts of the summary, for every role: methods, π̂, promises, AUC by table."""
    found = []
    for summary in summarise(lines):
        found += [_methods(summary, comparison) for comparison in summary.comparisons]
        found += [_priors(summary.role, summary.priors)] if summary.priors else []
        found += [_promises(summary.role, summary.promises)] if summary.promises else []
        found += [_sets(summary.role, summary.comparisons[-1])] if summary.comparisons else []
    return found


def notes(lines: list[TableLine]) -> list[str]:
    """What the columns mean, what failed, and where the numbers come from."""
    if not summarise(lines):
        return ["No results are stored yet."]
    texts = [
        "Methods: means over tables and labelled shares of the means over seeds, on the splits on which all methods "
        "ran. Ranks (1 is best) and gaps are among methods that are told nothing of the truth; * marks the others. F1 "
        "is at the method's own threshold, F1 at share with as many rows found as are positive. Worst gap: the AUC of "
        "the best other method less the own, on the table where that is largest.",
        "π̂: error and bias over all fits, a bound taken as π̂. Held: intervals (of 90 %) that hold π, and bounds that "
        "are not below it.",
        "Promised − true: on the unlabelled rows, where a fit shows the figure as an estimate. Recall is always shown.",
    ]
    if failed := failures(lines):
        methods = sorted({line.cell.method for line in failed})
        texts.append(f"Fits that ended with an error: {len(failed)} ({', '.join(methods)}).")
    return texts


def shown(method: str) -> str:
    """A method as tables name it: * for one that is told something of the truth."""
    return f"{method}*" if knows(method) else method


def _methods(summary: RoleSummary, comparison: Comparison) -> Sheet:
    heads = ("method", "AUC", "AUC rank", "F1", "F1 rank", "F1 at share", "worst gap", "on table", "CPU s")
    rows: list[tuple[Value, ...]] = [
        (
            shown(row.method), row.auc, row.auc_rank, row.f1, row.f1_rank, row.f1_at_share, row.worst_gap,
            row.worst_table, row.cpu_seconds,
        )
        for row in comparison.ranking
    ]  # fmt: skip
    place = f"{_counted(len(comparison.sets), 'table')}, {_counted(comparison.splits, 'split')}"
    title = f"Methods, {summary.role}: {place}"
    part = "methods" if comparison is summary.comparisons[0] else "methods with pucl"
    return Sheet(summary.role, part, title, 1, heads, (0, 3, 1, 3, 1, 3, 3, 0, 2), rows)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _priors(role: str, found: list[PriorRow]) -> Sheet:
    heads = ("method", "estimator", "estimates", "bounds", "error", "bias", "error of estimates", "held")
    rows: list[tuple[Value, ...]] = [
        (
            row.method, row.estimator, row.estimates, row.bounds, row.error, row.bias, row.error_of_estimates, row.held,
        )
        for row in found
    ]  # fmt: skip
    return Sheet(role, "prior", f"π̂, {role}", 2, heads, (0, 0, 0, 0, 3, 3, 3, 2), rows)


def _promises(role: str, found: list[PromiseRow]) -> Sheet:
    rows: list[tuple[Value, ...]] = [(row.method, row.what, row.fits, row.mean, row.largest) for row in found]
    heads = ("method", "what", "fits", "mean", "largest")
    return Sheet(role, "promises", f"Promised − true, {role}", 2, heads, (0, 0, 0, 3, 3), rows)


def _sets(role: str, comparison: Comparison) -> Sheet:
    methods = [row.method for row in comparison.ranking]
    rows: list[tuple[Value, ...]] = [
        (each.table, each.rows, each.columns, each.labelled, each.pi, *(each.auc[method] for method in methods))
        for each in comparison.sets
    ]
    heads = ("table", "rows", "columns", "labelled", "π", *map(shown, methods))
    return Sheet(role, "AUC", f"AUC by table, {role}", 1, heads, (0, 0, 0, 0, 2, *(3 for _ in methods)), rows)


def _texts(sheet: Sheet) -> list[list[str]]:
    """The cells of all rows as people read them."""
    return [[_text(value, digits) for value, digits in zip(row, sheet.digits, strict=True)] for row in sheet.rows]


def _text(value: Value, digits: int) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else f"{value:,.{digits}f}"


def _aligned(sheet: Sheet) -> str:
    lines = [list(sheet.heads), *_texts(sheet)]
    words = [any(isinstance(row[at], str) for row in sheet.rows) for at in range(len(sheet.heads))]
    widths = [max(len(line[at]) for line in lines) for at in range(len(sheet.heads))]
    written = [
        "  ".join(
            text.ljust(width) if word else text.rjust(width)
            for text, width, word in zip(line, widths, words, strict=True)
        )
        for line in lines
    ]
    return "\n".join([written[0].rstrip(), "-" * max(map(len, written)), *(line.rstrip() for line in written[1:])])


def _piped(sheet: Sheet) -> str:
    words = [any(isinstance(row[at], str) for row in sheet.rows) for at in range(len(sheet.heads))]
    lines = [sheet.heads, ["---" if word else "---:" for word in words], *_texts(sheet)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
