"""A sweep with so many minutes: what it begins, when it ends, and that what is done is stored."""

import multiprocessing
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.grid.cells import Cell
from pucl.bench.results.cost import times_of_cells
from pucl.bench.results.line import Origin, ResultLine
from pucl.bench.results.store import read_results
from pucl.bench.run.pool import run_in_pool
from pucl.bench.run.time_box import TimeBox
from pucl.bench.run.work import Outcome
from pucl.bench.run.worker import Orders

from bench_examples import N_CELLS, baseline, cells_of, line_of
from conftest import Command

HERE = "this card"


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def timed(cell: Cell, seconds: float, encoder: float | None = None) -> ResultLine:
    return replace(line_of(cell), seconds=seconds, encoder_seconds=encoder, origin=Origin({}, HERE, "abc"))


def unit_of(*cells: Cell) -> list[Cell]:
    return list(cells)


def box_of(seconds: float, lines: Iterable[ResultLine], *, trained: bool = False) -> tuple[TimeBox, Clock]:
    clock = Clock()
    return TimeBox(seconds, times_of_cells(lines, HERE), lambda _: trained, clock), clock


def taken(box: TimeBox, *units: list[Cell]) -> list[list[Cell]]:
    """What a box takes out one after another."""
    waiting, found = deque(list(unit) for unit in units), []
    while (unit := box.take(waiting)) is not None:
        found.append(unit)
    return found


def test_the_first_unit_that_fits_is_begun() -> None:
    slow, quick = unit_of(baseline("naive", seeds=[7])), unit_of(baseline("labelled_centroid", seeds=[7]))
    lines = [timed(baseline("naive"), 60.0), timed(baseline("labelled_centroid"), 20.0)]
    box, clock = box_of(90.0, lines)
    assert taken(box, slow, quick) == [slow, quick]
    clock.now += 40.0
    assert taken(box, slow, quick) == [quick]  # 50 seconds are left
    clock.now += 50.0
    assert box.left == 0.0 and taken(box, slow, quick) == []


def test_of_a_unit_that_is_too_long_the_first_cells_are_begun() -> None:
    unit = unit_of(*cells_of(readouts=["pupl", "kernel_cvir", "nnpu"]))
    lines = [timed(cell, seconds, 100.0) for cell, seconds in zip(unit, (5.0, 10.0, 40.0), strict=True)]
    waiting = deque([list(unit)])
    assert box_of(120.0, lines)[0].take(waiting) == unit[:2] and list(waiting) == [unit[2:]]
    assert taken(box_of(104.0, lines)[0], unit) == []  # not even the encoder and its first cell
    assert taken(box_of(20.0, lines, trained=True)[0], unit) == [unit[:2]]  # the encoder is there


def test_what_has_no_stored_time_is_begun_until_the_end() -> None:
    unit = unit_of(baseline("naive"))
    box, clock = box_of(10.0, [])
    clock.now += 9.9
    assert taken(box, unit) == [unit]
    clock.now += 0.1
    assert taken(box, unit) == []


def test_a_slower_card_is_learnt_from_what_is_finished() -> None:
    first, second, third = (unit_of(cell) for cell in cells_of(readouts=["pupl"], seeds=[0, 1, 2]))
    lines = [timed(first[0], 10.0, 30.0)]
    box, clock = box_of(200.0, lines)
    assert box.take(deque([second])) == second
    box.saw(timed(first[0], 500.0, 500.0))  # which this run has not begun
    clock.now += 120.0
    assert box.take(deque([third])) == third  # 40 of the 80 seconds that are left
    box.saw(timed(second[0], 30.0, 90.0))  # three times as long
    assert taken(box, first) == []


def hangs_after_one(_: Orders, connection: Connection) -> None:
    connection.send(Outcome(connection.recv()[0].key))
    time.sleep(600)


@pytest.mark.slow
def test_workers_end_with_the_time(tmp_path: Path) -> None:
    units: list[list[Cell]] = [
        [baseline(name, seeds=[seed]) for name in ("naive", "labelled_centroid")] for seed in range(3)
    ]
    box = TimeBox(20.0, times_of_cells([], HERE), lambda _: False)
    orders, began, found = Orders(tmp_path, "cpu", "here", anew=False), time.monotonic(), []
    for outcome in run_in_pool(units, 1, orders, hangs_after_one, limit=box):
        found.append(outcome.key)
        box.end = min(box.end, time.monotonic() + 1.0)
    assert found == [units[0][0].key] and time.monotonic() - began < 25
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_run_that_has_no_time_left_ends_well_and_the_next_one_continues(bench: Command) -> None:
    words = ("run", "g.toml", "--results", "r.jsonl", "--device", "cpu", "--minutes")
    code, out, _ = bench(*words, "1e-6")
    assert code == 0 and not Path("r.jsonl").exists()
    assert out.splitlines()[-1].endswith(f"0 failed, {N_CELLS} left for another run: no time")
    code, out, _ = bench(*words, "9")
    assert code == 0 and f"{N_CELLS} ran in" in out and "no time" not in out
    assert len(read_results(Path("r.jsonl"))) == N_CELLS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--minutes", "0"), "--minutes must be a finite number > 0; got 0.0"),
        (("--minutes", "nan"), "--minutes must be a finite number > 0; got nan"),
        (("--minutes", "-3"), "--minutes must be a finite number > 0; got -3.0"),
        (("--minutes", "5", "--dry-run"), "--minutes must be left out with --dry-run; got 5.0"),
        (("--minutes", "5", "--engine", "ray"), "--minutes must be left out with --engine; got 5.0"),
    ],
)
def test_wrong_minutes_are_one_line(
    bench: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...], message: str
) -> None:
    monkeypatch.setattr("pucl.engines.Engine.check", lambda *_: None)
    code, out, err = bench("run", "g.toml", "--results", "r.jsonl", *words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_tables_have_no_minutes(bench: Command) -> None:
    Path("t.toml").write_text('tables = ["german"]\nshares = [0.1]\nseeds = [0]\nmethods = ["bag"]\n', encoding="utf-8")
    code, _, err = bench("run", "t.toml", "--minutes", "5")
    assert (code, err) == (2, "pucl bench run: --minutes must be left out for a grid of tables; got 5.0\n")
