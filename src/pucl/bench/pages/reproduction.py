"""Published numbers of the paper's pipelines that ours misses, with what the true labels say of the same encoders."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pucl.bench.grid.cells import Baseline
from pucl.bench.pages.layouts import NOTHING, ours
from pucl.bench.pages.tables import Measured, label_of, latest_variant, measured
from pucl.bench.results.line import ResultLine
from pucl.bench.results.published import TABLES, Column, belongs, method_name, published
from pucl.bench.results.store import newest
from pucl.errors import InputError
from pucl.files import replace_file

OWNER = "pucl bench reproduction"
RECIPE = "paper"  # what the paper's text says
NEAR = 2.0  # points from the published number that need no explanation
BEGIN, END = "<!-- begin: written by 'pucl bench reproduction' -->", "<!-- end -->"


@dataclass(frozen=True)
class Comparison:
    """One published number and our results of the same pipeline with the recipe `paper` and the paper's encoder.

    Attributes:
        table: of the paper.
        method: its name there.
        column: task and number of labelled rows.
        entry: our accuracies and the published one.
        knn: mean accuracy of kNN on the true labels, on the same encoders.
    """

    table: str
    method: str
    column: Column
    entry: Measured
    knn: float | None

    @property
    def is_miss(self) -> bool:
        """Whether ours differs by more than two points."""
        return self.entry.difference is not None and abs(self.entry.difference) > NEAR


def comparisons(lines: Iterable[ResultLine]) -> list[Comparison]:
    """All published numbers of the paper's own pipelines that have results of ours, in the order of the paper."""
    stored = [line for line in newest(lines).values() if not isinstance(line.cell, Baseline)]
    found = []
    for table in TABLES:
        groups: dict[tuple[str, Column], list[ResultLine]] = {}
        for line in stored:
            if belongs(table, line.cell) and label_of(table, line.cell).recipe == RECIPE:
                place = line.cell.place
                groups.setdefault((method_name(table, line.cell), (place.task, place.n_labelled)), []).append(line)
        for (method, column), number in published(table).items():
            if (method, column) in groups:
                chosen = latest_variant(groups[method, column])
                near = [line.metrics["knn"] for line in chosen if "knn" in line.metrics]
                knn = sum(near) / len(near) if near else None
                found.append(Comparison(table, method, column, measured(chosen, number), knn))
    return found


def as_markdown(lines: Iterable[ResultLine]) -> str:
    """The numbers that ours misses: published, ours, and kNN on the true labels of the same encoders."""
    every = comparisons(lines)
    rows = [
        "| table | method | task, labelled | published | ours | difference | kNN, true labels | kNN − published |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for one in every:
        number = one.entry.published
        if one.is_miss and number is not None:
            task, n = one.column
            near = (NOTHING, NOTHING) if one.knn is None else (f"{one.knn:.1f}", f"{one.knn - number.accuracy:+.1f}")
            cells = (one.table, one.method, f"{task}, {n:,}", number.shown, ours(one.entry))
            rows.append(f"| {' | '.join(cells)} | {one.entry.difference:+.1f} | {' | '.join(near)} |")
    count = f"{sum(one.is_miss for one in every)} of {len(every)} compared numbers differ by more than {NEAR:g} points."
    return "\n".join([count, "", *rows])


def write_page(page: Path, lines: Iterable[ResultLine]) -> None:
    """Write the table into a page, between its two marks; the rest of the page stays as it is."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    marks = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not marks.search(text):
        raise InputError(f"{page} has no place for the table: {BEGIN} … {END}", owner=OWNER)
    table = f"{BEGIN}\n\n{as_markdown(lines)}\n\n{END}"
    replace_file(page, marks.sub(lambda _: table, text).encode())
