"""The leaderboard: a page of the documentation, generated from stored results alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from pucl.bench.grid.cells import Baseline
from pucl.bench.pages import reach
from pucl.bench.pages.layouts import as_markdown, ours
from pucl.bench.pages.tables import RowLabel, label_of, latest_variant, make_table, measured
from pucl.bench.results.line import ResultLine
from pucl.bench.results.published import PRETRAINED, TABLES
from pucl.bench.results.store import newest
from pucl.files import replace_file

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "pu-benchmark-1": "First benchmark",
        "downstream-head": "Objectives and readouts",
        "weak-supervision-knn": "Quality of the embeddings: kNN on the true labels",
        "pu-benchmark-2": "Second benchmark",
    }
)
HEAD = """# Leaderboard

<!-- Written by 'pucl bench leaderboard' from results/benchmark.jsonl; do not edit. -->

Our numbers come from `pucl bench run` under the [protocols](benchmark.md#protocols) of the benchmark, which also
explains [recipes and readouts](benchmark.md#recipes-and-readouts). Treat numbers from a single seed with care: seeds of
the same method can differ by several points.
"""


def leaderboard(lines: Iterable[ResultLine], goals: Iterable[reach.Goal] = ()) -> str:
    """The page: the paper's four tables, our goals, every task with the methods that were given no class prior.

    Encoders with published weights and texts come last, in a part of their own.
    """
    stored = list(newest(lines).values())
    parts = [HEAD]
    if not stored:
        parts.append("No results are stored yet.\n")
    for name in TABLES:
        parts.append(f"## {TITLES[name]}\n\n{as_markdown(make_table(name, stored))}")
    if goals := list(goals):
        parts.append(
            f"## Ours without a class prior, the paper with the true one\n\n{reach.as_markdown(goals, stored)}"
        )
    parts.append(f"## Ranking of methods that are given no class prior\n\n{_rankings(stored)}")
    if any(line.cell.in_own_track for line in stored):
        table = as_markdown(make_table(PRETRAINED, stored))
        parts.append(f"## Encoders that come with published weights, and texts\n\n{table}")
    return "\n".join(parts)


def write_leaderboard(out: Path, lines: Iterable[ResultLine], goals: Path | None) -> None:
    """Write the page, whole or not at all."""
    lines = list(lines)
    readouts = {line.cell.readout.name for line in lines if not isinstance(line.cell, Baseline)}
    page = leaderboard(lines, [] if goals is None else reach.read_goals(goals, readouts))
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, page.encode())


def _rankings(lines: list[ResultLine]) -> str:
    groups: dict[tuple[str, int], dict[RowLabel, list[ResultLine]]] = {}
    for line in lines:
        cell = line.cell
        if cell.prior is None and not (cell.is_reference or cell.changes or cell.in_own_track):
            place = groups.setdefault((cell.place.task, cell.place.n_labelled), {})
            place.setdefault(label_of(None, cell), []).append(line)
    if not groups:
        return "No results are stored yet.\n"
    return "\n".join(_ranking(*place, rows) for place, rows in sorted(groups.items()))


def _ranking(task: str, n: int, rows: dict[RowLabel, list[ResultLine]]) -> str:
    """One task and number of labels, best first; equal means by name."""
    entries = []
    for label, group in rows.items():
        chosen = latest_variant(group)
        entry = measured(chosen)
        kind = "baseline" if isinstance(chosen[0].cell, Baseline) else "pipeline"
        entries.append((-entry.mean, label.method, label.recipe, kind, ours(entry)))
    table = [f"| {at} | {name} | {recipe} | {kind} | {text} |" for at, (_, name, recipe, kind, text)
             in enumerate(sorted(entries), start=1)]  # fmt: skip
    head = ["| | method | recipe, encoder | kind | accuracy |", "|---:|---|---|---|---:|"]
    return "\n".join([f"### {task}, {n:,} labelled", "", *head, *table, ""])
