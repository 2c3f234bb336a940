"""What a run will cost: sums of stored times, the nearest kind first, and what is said where none is known."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from pucl.bench.grid.cells import Cell
from pucl.bench.results.cost import EXACT, Cost, Job, Timed, cost_of_cells, cost_of_tables, shared
from pucl.bench.results.line import Origin, ResultLine
from pucl.bench.results.store import write_results
from pucl.bench.run.provenance import hardware_of
from pucl.bench.tables.line import FitLine, Measures, TableCell

from bench_examples import baseline, cells_of, line_of, two_baselines
from conftest import Command

HERE = "this card"


def timed(cell: Cell, seconds: float, encoder: float | None = None, hardware: str = HERE) -> ResultLine:
    return replace(line_of(cell), seconds=seconds, encoder_seconds=encoder, origin=Origin({}, hardware, "abc"))


def cost_of(cells: Iterable[Cell], *lines: ResultLine) -> Cost:
    return cost_of_cells(list(cells), lines, HERE)


def test_cells_cost_their_median_and_every_encoder_counts_once() -> None:
    first, second = cells_of(readouts=["pupl", "kernel_cvir"])
    other = cells_of(readouts=["pupl", "kernel_cvir"], seeds=[7, 8])
    lines = [timed(cell, seconds, 100.0) for cell, seconds in zip((first, second), (1.0, 5.0), strict=True)]
    found = cost_of(other, *lines, timed(first, 2.0, 100.0), timed(first, 30.0, 100.0), timed(first, 9e9, 9e9, "other"))
    assert found.seconds == 2 * (2.0 + 5.0) + 2 * 100.0  # two seeds, two readouts; 2 is the median of 1, 2 and 30
    assert found.known == {("cell", EXACT): 4, ("encoder", EXACT): 2} and not found.unknown
    assert str(found) == (
        f"cost: about 4 min on {HERE}, one after another: 4 cells and 2 encoders, by stored times (6 by {EXACT})"
    )


def test_the_nearest_kind_is_taken_and_said() -> None:
    def cell(epochs: int, **changes: object) -> Cell:
        (found,) = cells_of(**changes, recipes=["quick"])
        return replace(found, recipe=replace(found.recipe, training=replace(found.recipe.training, epochs=epochs)))

    far, near = timed(cell(10, tasks=["fmnist1"]), 50.0, 80.0), timed(cell(10), 3.0, 20.0)
    (found, same) = (cost_of([cell(30)], far, line) for line in (near, timed(cell(30), 4.0, 61.0)))
    assert found.seconds == 3.0 + 60.0 and same.seconds == 4.0 + 61.0  # an encoder costs in proportion to its epochs
    assert {reason for _, reason in found.known} == {
        "the same task, encoder and method", "the same task and encoder, for each epoch",
    }  # fmt: skip
    only_far = cost_of([cell(30)], far)
    assert only_far.seconds == 50.0 + 240.0 and "on other tasks, for each epoch" in str(only_far)


def test_what_has_no_stored_time_is_counted() -> None:
    known, unknown = baseline("naive"), baseline("labelled_centroid")
    found = cost_of([known, unknown], timed(known, 12.0))
    assert (found.seconds, found.unknown) == (12.0, {"cell": 1})
    assert str(found).startswith("cost: about 12 s on") and str(found).endswith("; unknown: 1 cell without one")
    elsewhere = cost_of([known], timed(known, 12.0, hardware="another card"))
    assert str(elsewhere) == f"cost: unknown: 1 cell without a stored time on {HERE}"


def test_jobs_that_share_a_card_have_parts_of_it() -> None:
    job = Job("cell", ((EXACT, "any"),))

    def done(begin: float, end: float, hardware: str = HERE) -> Timed:
        return Timed(job, end - begin, hardware, end)

    both, alone, elsewhere = done(0.0, 10.0), done(10.0, 14.0), done(0.0, 14.0, "another card")
    found = shared([both, done(6.0, 10.0), alone, elsewhere, done(0.0, 14.0, "CPU, 1 thread"), done(5.0, 5.0)])
    assert [timed.share for timed in found] == [pytest.approx(0.8), 0.5, 1.0, 1.0, 1.0, 1.0]
    assert sum(timed.seconds * timed.share for timed in found[:3]) == pytest.approx(14.0)  # what the session took
    assert shared([replace(both, end=None)]) == [replace(both, end=None)]


def test_the_cost_says_what_sharing_the_card_saves() -> None:
    cell, other = cells_of(readouts=["pupl", "kernel_cvir"])
    lines = [replace(timed(one, 300.0), time="2026-01-01T00:10:00+00:00") for one in (cell, other)]
    found = cost_of([cell, other], *lines)
    assert (found.seconds, found.card_seconds) == (600.0, 300.0)
    assert "about 10 min on this card, one after another, or about 5 min where as many share it as " in str(found)
    apart = cost_of([cell, other], lines[0], replace(lines[1], time="2026-01-01T00:20:00+00:00"))
    assert apart.card_seconds == apart.seconds == 600.0 and "share" not in str(apart)


def test_a_readout_is_not_taken_for_the_baseline_of_its_name() -> None:
    (readout,) = cells_of(readouts=["nnpu"], encoder="raw")
    found = cost_of([baseline("nnpu", prior="oracle")], timed(readout, 1.0))
    assert found.unknown == {"cell": 1} and not found.seconds


def test_tables_cost_the_processor_time_of_their_fits() -> None:
    def line(cell: TableCell, seconds: float, hardware: str = HERE) -> FitLine:
        return FitLine(
            cell, "held back", Measures(seconds, 0.5, 0.5, 0.5, 0.5, 9, 9, 9, 0.5), Origin({}, hardware, "abc")
        )

    cell = TableCell("german", 0.3, 0, "bag")
    failed = replace(line(cell, 0.0), metrics="RuntimeError: no luck")
    lines = [line(cell, 2.0), failed, line(replace(cell, share=0.1), 7.0), line(replace(cell, method="elsewhere"), 1.0)]
    cells = [replace(cell, seed=4), replace(cell, table="pima"), replace(cell, method="pucl")]
    found = cost_of_tables(cells, lines, HERE)
    assert found.seconds == 2.0 + 4.5 and found.unknown == {"cell": 1}  # 4.5: the median of 2 and 7
    assert found.known == {("cell", EXACT): 1, ("cell", "the same method on other tables"): 1}


@pytest.mark.parametrize("words", [("--dry-run",), ()])
def test_a_run_says_its_cost_before_it_starts(bench: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    cells = two_baselines()
    write_results(tmp_path / "r.jsonl", [timed(cells[0], 70.0, hardware=hardware_of())])
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu", *words)
    said = (
        f"cost: about 70 s on {hardware_of()}, one after another: 1 cell, by stored times (1 by {EXACT}); unknown: 2 "
    )
    assert code == 0 and said.replace("70 s", "1 min") in out.splitlines()[0]
    assert len(out.splitlines()) > 3
    if not words:  # all are there now: nothing to say
        assert "cost" not in bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu").out


def test_the_cost_on_other_hardware_by_its_name(bench: Command, tmp_path: Path) -> None:
    cells = two_baselines()
    write_results(tmp_path / "r.jsonl", [timed(cells[0], 50.0), timed(cells[0], 7.0, hardware=hardware_of())])
    words = ("run", "g.toml", "--results", "r.jsonl", "--device", "cpu", "--force", "--dry-run", "--hardware")
    assert bench(*words, HERE).out.splitlines()[1].startswith(f"cost: about 2 min on {HERE}, ")  # 50 s each
    code, _, err = bench(*words, "this cart")
    known = ", ".join(map(repr, sorted([HERE, hardware_of()])))
    allowed = f"--hardware must be the hardware of stored results: {known}; got 'this cart'"
    assert (code, err.strip()) == (2, f"pucl bench run: {allowed}")


def test_cells_that_would_be_skipped_are_grouped_by_reason(
    bench: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path))
    grid = 'tasks = ["cifar1", "fmnist1"]\nn_labelled = 1000\nseeds = [0, 1]\n[[block]]\nmethods = ["naive"]\n'
    (tmp_path / "two.toml").write_text(grid, encoding="utf-8")
    lines = bench("run", "two.toml", "--results", "r.jsonl", "--device", "cpu", "--dry-run").out.splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines[:-1]] == [
        "cifar1 1000 seed 0 naive (cnn7) and 1 more", "fmnist1 1000 seed 0 naive (lenet5) and 1 more",
    ]  # fmt: skip
    assert lines[-1] == "0 to run, 0 already there, 4 to skip"
