"""Revisions of the code: which results and encoders are outdated, and what is run again."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.grid.cells import BY_BASELINE, Baseline, Cell, Pipeline
from pucl.bench.results import revisions
from pucl.bench.results.line import ResultLine
from pucl.bench.results.store import newest, read_results, write_results
from pucl.bench.run import runner
from pucl.bench.run.runner import SweepPlan, plan, say_outdated, sweep
from pucl.errors import InputError
from pucl.registry import Entry, entries, register

from bench_examples import N_CELLS, baseline, cells_of, line_of, two_baselines
from conftest import ROOT, Command

EARLIER = "were made by an earlier revision of the code"


@pytest.fixture(scope="module")
def stored() -> list[ResultLine]:
    return read_results(ROOT / "results" / "benchmark.jsonl")


def raised(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One entry or stage, named as in stored results, has a higher revision."""
    family, own = name.split("/")
    if family == "stage":
        monkeypatch.setattr(revisions, "STAGES", {**revisions.STAGES, own: revisions.STAGES[own] + 1})
        return

    def changed(asked: str) -> dict[str, Entry]:
        known = dict(entries(asked))
        return known | ({own: replace(known[own], revision=known[own].revision + 1)} if asked == family else {})

    monkeypatch.setattr(revisions, "entries", changed)


def with_teachers(cell: Cell) -> list[Pipeline]:
    """A pipeline and those it learns from."""
    found = []
    while isinstance(cell, Pipeline):
        found.append(cell)
        if cell.readout.teacher is None:
            break
        cell = cell.readout.teacher
    return found


def trained_by_baseline(cell: Cell) -> bool:
    """Whether a baseline trains the network, or the head on an embedding."""
    if isinstance(cell, Baseline):
        return cell.encoder != "tfidf"
    return any_pipeline(lambda cell: cell.readout.head == BY_BASELINE)(cell)


def any_pipeline(uses: Callable[[Pipeline], bool]) -> Callable[[Cell], bool]:
    return lambda cell: any(uses(pipeline) for pipeline in with_teachers(cell))


def test_outdated_are_the_stored_results_of_the_former_lars(stored: list[ResultLine]) -> None:
    assert len(stored) >= 649
    for line in stored:
        made, today = line.revisions.get("stage/lars", 1), revisions.revisions_of(line.cell)
        assert line.is_outdated == (made < today.get("stage/lars", 1)) == (line.revisions != today)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("losses/pucl", any_pipeline(lambda cell: cell.objective == "pucl")),
        (
            "losses/sscl",  # also where a prior is estimated for another objective
            any_pipeline(lambda cell: cell.objective == "sscl" or cell.encoder_prior not in (None, "oracle")),
        ),
        ("encoders/cnn7", lambda cell: any(c.encoder == "cnn7" for c in (cell, *with_teachers(cell)))),
        ("datasets/fmnist1", lambda cell: cell.place.task == "fmnist1"),
        ("rankers/stacked", any_pipeline(lambda cell: cell.readout.labeller == "stacked")),
        ("heads/linear", any_pipeline(lambda cell: cell.readout.head == "linear")),
        ("baselines/nnpu", lambda cell: isinstance(cell, Baseline) and cell.method == "nnpu"),
        ("stage/training", any_pipeline(lambda cell: cell.recipe.tune != "frozen")),
        ("stage/lars", any_pipeline(lambda cell: cell.recipe.to_dict().get("optimiser") == "lars")),
        ("stage/fine_tuning", any_pipeline(lambda cell: cell.readout.head == "finetune")),
        ("stage/teaching", lambda cell: len(with_teachers(cell)) > 1),
        ("stage/baselines", trained_by_baseline),
        ("stage/texts", lambda cell: cell.place.task == "news1"),
        ("stage/grading", lambda _: True),
    ],
)
def test_a_raised_revision_outdates_what_uses_it_and_nothing_else(
    stored: list[ResultLine], monkeypatch: pytest.MonkeyPatch, name: str, uses: Callable[[Cell], bool]
) -> None:
    now = [revisions.revisions_of(line.cell) for line in stored]
    raised(monkeypatch, name)
    lines = [replace(line, revisions=made) for line, made in zip(stored, now, strict=True)]
    outdated = {line.key for line in lines if line.is_outdated}
    assert outdated == {line.key for line in lines if uses(line.cell)}
    assert outdated, "some stored result uses it"


def test_moving_labels_have_a_revision_of_their_own() -> None:
    moving, still, tuned = cells_of(readouts=["moving_labels", "moving_ceiling", "stacked_finetune"])
    of_moving, of_tuned = revisions.revisions_of(moving), revisions.revisions_of(tuned)
    assert of_moving.keys() - of_tuned.keys() == {"stage/moving_labels"} and of_tuned.keys() < of_moving.keys()
    assert still.is_reference and still.readout.head_options["label_momentum"] == 1.0 and not moving.is_reference


def test_revisions_of_an_encoder_are_part_of_those_of_its_cells() -> None:
    (cell,) = cells_of(objectives=["punce"], prior="bbe", readouts=["nnpu"])
    own, all_of_it = revisions.revisions_of(cell.encoder_cell), revisions.revisions_of(cell)
    assert own.items() < all_of_it.items()
    assert {"losses/punce", "losses/sscl", "priors/bbe", "stage/priors", "stage/training"} <= own.keys()
    assert {"heads/nnpu", "stage/heads", "stage/grading"} <= all_of_it.keys() - own.keys()
    assert not [name for name in all_of_it if name.startswith("pseudo-labellers/")]
    assert "baselines/naive" in revisions.revisions_of(baseline("supervised")), "whose network it trains"


def test_a_result_of_what_was_later_given_a_revision_of_its_own() -> None:
    cell = baseline()
    assert not revisions.is_outdated({}, cell) and not revisions.is_outdated({"stage/gone": 1}, cell)
    assert revisions.is_outdated({"baselines/naive": 0}, cell)


def test_a_revision_is_a_whole_number() -> None:
    assert {entry.revision for entry in entries("heads").values()} == {1}
    with pytest.raises(InputError, match="revision must be a whole number ≥ 1; got 0"):
        register("losses", reference="x", revision=0)


# What is run again


def aged(path: Path, *numbers: int) -> list[ResultLine]:
    """The lines of a file, of which some are now of an earlier revision."""
    lines = read_results(path)
    for number in numbers:
        origin = replace(lines[number].origin, commit="1234567+changes")
        lines[number] = replace(lines[number], revisions={"stage/grading": 0}, origin=origin)
    write_results(path, lines)
    return lines


def test_outdated_lines_are_kept_with_a_word(tmp_path: Path) -> None:
    path, cells = tmp_path / "r.jsonl", list[Cell]([baseline(), *cells_of()])
    sweep([baseline()], path, device="cpu", on_progress=lambda _: None)
    write_results(path, [*read_results(path), line_of(cells[1], outdated=True)])
    found = plan(cells, read_results(path))
    assert found.missing == [] and found.there == 2 and found.outdated == ["abc"]
    said: list[str] = []
    say_outdated(found, said.append)
    assert said == [f"1 of 2 cells {EARLIER} (commit abc) and are kept; --stale runs them again"]
    say_outdated(SweepPlan([], 2, [], []), said.append)
    assert len(said) == 1
    before = read_results(path)
    assert sweep([baseline()], path, force=True, device="cpu", on_progress=said.append).ran == 1
    after = read_results(path)
    assert len(after) == 3 and newest(after)[before[0].key] == after[-1]  # a new line, which counts


def test_stale_cells_are_run_again_and_once(bench: Command, tmp_path: Path) -> None:
    run, results = ("run", "g.toml", "--results", "r.jsonl"), tmp_path / "r.jsonl"
    assert bench(*run, "--device", "cpu", "--only", "seed=0").code == 0
    old = aged(results, 1)
    code, out, _ = bench(*run, "--dry-run")
    assert code == 0 and f"1 of 2 cells {EARLIER} (commit 1234567+changes) and are kept; --stale runs them" in out
    assert out.endswith("2 to run, 2 already there, 0 to skip\n")
    code, out, _ = bench(*run, "--stale", "--dry-run")
    said = out.splitlines()
    assert code == 0 and said.pop(1).startswith("cost: about ")
    assert said == [
        "1 of 3 cells to run have a result already; the new one counts",
        "would run again: digits 100 seed 0 naive (raw)",
        "would run: digits 100 seed 1 labelled_centroid (raw)",
        "would run: digits 100 seed 1 naive (raw)",
        "3 to run, 1 already there, 0 to skip",
    ]
    code, out, _ = bench(*run, "--stale", "--device", "cpu", "--only", "seed=0")
    lines = read_results(results)
    assert code == 0 and "1 ran in " in out and len(lines) == 3
    assert lines[-1].key == old[1].key and lines[-1].metrics == old[1].metrics
    assert not lines[-1].is_outdated
    code, out, _ = bench(*run, "--stale", "--device", "cpu")
    assert code == 0 and re.search(r"2 ran in \d+ s, 2 already there, 0 skipped, 0 failed\n$", out)
    code, out, _ = bench(*run, "--stale", "--device", "cpu")
    assert (code, out) == (0, f"0 ran in 0 s, {N_CELLS} already there, 0 skipped, 0 failed\n")
    code, out, _ = bench(*run, "--force", "--dry-run")
    assert code == 0 and out.count("would run again: ") == N_CELLS


@pytest.mark.slow
def test_encoders_of_stale_cells_have_revisions_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    run = partial(sweep, list[Cell](cells_of()), path, device="cpu", on_progress=lambda _: None)
    assert run().ran == 1
    aged(path, 0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("trained again")

    monkeypatch.setattr("pucl.bench.run.encoding.prepare", refuse)
    assert "trained again" in run(force=True).failed[0][1]
    assert run(stale=True).ran == 1 and run(stale=True).there == 1
    raised(monkeypatch, "losses/pucl")
    assert "trained again" in run(stale=True).failed[0][1]


def test_a_stale_cell_that_cannot_be_run_keeps_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    sweep(two_baselines()[:1], path, device="cpu", on_progress=lambda _: None)
    lines = aged(path, 0)
    monkeypatch.setattr(runner, "why_not_run", lambda _: "no data")
    found = plan(two_baselines()[:1], lines, stale=True)
    assert (found.missing, found.there, found.outdated, found.again) == ([], 0, [], frozenset())
    assert found.skipped == [(two_baselines()[0], "no data")] and two_baselines()[0].key == lines[0].key
