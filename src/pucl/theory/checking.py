"""Statements by name, or by their label in the paper, checked one after another: a row for every figure."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pucl.errors import check_count, unknown_name
from pucl.registry import Entry, entries
from pucl.theory.comparison import Comparison, Relation, Verdict, interval, judge

FAMILY = "statements"


@dataclass(frozen=True)
class Row:
    """One figure of a statement, judged.

    Attributes:
        statement: its name.
        label: its label in the paper.
        compared: what the figure is, and on which problem.
        relation: how `measured` should stand to `predicted`.
        predicted: by the paper.
        corrected: by the corrected form; None where there is none.
        measured: the figure.
        low: lower end of its interval, which covers all figures of the statement together with probability 0.99.
        high: upper end.
        verdict: on the figure.
        note: the counter-example or the correction in words.
        seconds: how long the whole statement took.
    """

    statement: str
    label: str
    compared: str
    relation: Relation
    predicted: float
    corrected: float | None
    measured: float
    low: float
    high: float
    verdict: Verdict
    note: str
    seconds: float


def check(
    names: Sequence[str] = (), *, seed: int = 0, on_statement: Callable[[str, float], None] = lambda _name, _done: None
) -> tuple[Row, ...]:
    """Check statements of the paper, all of them when none is named.

    Args:
        names: registered names, or labels of the paper such as ``"th:scl_pu_bias"``.
        seed: of everything random.
        on_statement: called before each with its name and the share of statements that are done.
    """
    check_count("pucl.theory.check", "seed", seed, low=0)
    chosen = [find(name) for name in dict.fromkeys(names)] or list(entries(FAMILY).values())
    rows: list[Row] = []
    for done, entry in enumerate(chosen):
        on_statement(entry.name, done / len(chosen))
        rows.extend(_rows(entry, seed))
    return tuple(rows)


def find(name: str) -> Entry:
    """A statement by its name or by its label in the paper."""
    known = entries(FAMILY)
    by_label = {entry.reference: entry for entry in known.values()}
    if name not in known and name not in by_label:
        raise unknown_name(FAMILY, name, [*known, *by_label])
    return known[name] if name in known else by_label[name]


def _rows(entry: Entry, seed: int) -> Iterator[Row]:
    began = time.perf_counter()
    compared: tuple[Comparison, ...] = entry.function(seed=seed)
    seconds = time.perf_counter() - began
    uncertain = sum(each.measured.error > 0 for each in compared)
    for each in compared:
        low, high = interval(each.measured, uncertain)
        yield Row(
            entry.name, entry.reference, each.compared, each.relation, each.written, each.corrected,
            each.measured.value, low, high, judge(each, low, high), each.note, round(seconds, 2),
        )  # fmt: skip
