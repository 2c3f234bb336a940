"""Running cells: nothing is lost in silence, what is run again and what is not, and where a line says it comes from."""

import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.bench.grid.cells import Config, key_of, teacher_of
from pucl.bench.grid.grid import Grid
from pucl.bench.results.store import read_results, write_results
from pucl.bench.run import pool as crew
from pucl.bench.run import provenance, runner, work
from pucl.bench.run.encoding import Kept
from pucl.bench.run.fingerprint import Sources
from pucl.bench.run.problem import pose
from pucl.bench.run.runner import plan, sweep
from pucl.bench.run.stages import Score, fit_top
from pucl.encoders.inputs import to_float

from conftest import Command

GRID = """
tasks = ["digits"]
n_labelled = [100]
seeds = [0, 1]

[[block]]
methods = ["labelled_centroid", "naive"]
encoder = "raw"
"""
CELLS = 4
PLACE = {"tasks": ["digits"], "n_labelled": [100], "seeds": [0]}
RECIPE = {"epochs": 1, "batch_size": 256, "learning_rate": 4.0, "view": "small_image"}
WORKER = """
import json, os, sys
from pathlib import Path
sys.stdin.readline()
for row in sys.stdin:
    {before}
    for cell in json.loads(row):
        print(json.dumps({{"key": cell["key"], "line": {{"threads": os.environ["OMP_NUM_THREADS"]}}}}))
    print(flush=True)
"""


@pytest.fixture
def bench(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``pucl bench`` in this process, in a folder with a small grid of baselines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.toml").write_text(GRID, encoding="utf-8")
    return partial(command, "bench")


def cells() -> list[Config]:
    block = {"methods": ["labelled_centroid", "naive"], "encoder": "raw"}
    return Grid("g", {**PLACE, "seeds": [0, 1], "block": [block]}).cells()


def aged(path: Path, *numbers: int) -> list[Config]:
    """The lines of a file, of which some are now by other code."""
    lines = read_results(path)
    for number in numbers:
        lines[number] |= {"code": "older", "commit": "1234567+changes"}
    write_results(path, lines)
    return lines


# Workers


def hired(folder: Path, monkeypatch: pytest.MonkeyPatch, *, before: str = "pass") -> crew.Crew:
    """Two workers that do as the text says with every unit."""
    (folder / "worker_of_tests.py").write_text(WORKER.format(before=before), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(crew, "MODULE", "worker_of_tests")
    for module in (crew, work):
        monkeypatch.setattr(module, "key_of", lambda cell: cell["key"])
    return crew.Crew(2, {}, 3)


UNITS: list[list[Config]] = [[{"key": f"{n}{part}"} for part in "ab"] for n in range(3)]
KEYS = sorted(cell["key"] for unit in UNITS for cell in unit)


@pytest.mark.parametrize(
    ("torn", "code"),
    [
        ("""os.write(1, b'{"key": "0a", "lin'); os._exit(3)""", 3),
        ("""os.write(1, b'{"key": "\\xc3'); os._exit(3)""", 3),  # half a letter
        ("""print("nonsense", flush=True)""", -9),  # and stays
        ("""print(flush=True)""", -9),
    ],
)
def test_a_line_that_is_no_outcome_fails_the_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: str, code: int
) -> None:
    monkeypatch.setattr(crew, "PATIENCE", 0.2 if code < 0 else 20.0)
    team = hired(tmp_path, monkeypatch, before=f"""if '"1a"' in row: {torn}""")
    found = list(team.run(UNITS))
    assert sorted(one.key for one in found) == KEYS
    reason = f"the worker ended with code {code} in the middle of it"
    assert {one.key: one.failed for one in found if one.failed} == dict.fromkeys(["1a", "1b"], reason)
    assert all(process.poll() is not None for process in team._alive)


def test_workers_that_cannot_be_started_fail_their_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team, started, popen = hired(tmp_path, monkeypatch), [], subprocess.Popen

    def refuse(*words: Any, **how: Any) -> Any:
        started.append(words)
        if len(started) <= 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return popen(*words, **how)

    monkeypatch.setattr(subprocess, "Popen", refuse)
    found = list(team.run(UNITS))
    assert sorted(one.key for one in found) == KEYS
    failed = [one.failed for one in found if one.failed]
    assert set(failed) == {"no worker could be started: Resource temporarily unavailable; try fewer --jobs"}
    assert len(failed) == 4 and sum(one.line is not None for one in found) == 2


def test_a_sweep_without_workers_ends_with_an_error(bench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--jobs", "2", "--device", "cpu", "--commit", "x")
    assert code == 1 and f"0 already there, 0 skipped, {CELLS} failed\n" in out
    assert "naive (raw): no worker could be started: Cannot allocate memory; try fewer --jobs\n" in out


@pytest.mark.parametrize(("own", "threads"), [("5", "5"), (None, "3")])
def test_the_users_number_of_threads_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, threads: str
) -> None:
    for name in crew.THREADS:
        monkeypatch.delenv(name, raising=False)
    if own is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", own)
    found = list(hired(tmp_path, monkeypatch).run(UNITS[:1]))
    assert [one.line for one in found] == [{"threads": threads}] * 2


def test_torch_has_the_threads_of_the_environment() -> None:
    code = "import torch; print(torch.get_num_threads())"
    environment = {**os.environ, **dict.fromkeys(crew.THREADS, "1")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "1\n"


# Metrics


def test_a_metric_that_is_not_finite_fails_its_cell_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = work._more

    def odd(cell: Config, *rest: Any) -> Config:
        return {**more(cell, *rest), **({"told_prior": float("nan")} if cell["seed"] == 0 else {})}

    monkeypatch.setattr(work, "_more", odd)
    said: list[str] = []
    summary = sweep(cells(), tmp_path / "r.jsonl", device="cpu", tell=said.append)
    assert (summary.ran, len(summary.failed)) == (2, 2)
    assert {why for _, why in summary.failed} == {"bench: told_prior is nan, not a finite number"}
    assert {line["config"]["seed"] for line in read_results(tmp_path / "r.jsonl")} == {1}


# What is run again


def test_stale_cells_are_run_again_and_once(bench: Command, tmp_path: Path) -> None:
    run, results = ("run", "g.toml", "--results", "r.jsonl"), tmp_path / "r.jsonl"
    assert bench(*run, "--device", "cpu", "--only", "seed=0").code == 0
    old = aged(results, 1)
    code, out, _ = bench(*run, "--dry-run")
    assert code == 0 and "1 of 2 cells were made by other code (commit 1234567+changes); kept; --stale runs them" in out
    assert out.endswith("2 to run, 2 already there, 0 to skip\n")
    code, out, _ = bench(*run, "--stale", "--dry-run")
    assert code == 0 and out.splitlines() == [
        "1 of 3 cells to run have a result already; the new one counts",
        "would run again: digits 100 seed 0 naive (raw)",
        "would run: digits 100 seed 1 labelled_centroid (raw)",
        "would run: digits 100 seed 1 naive (raw)",
        "3 to run, 1 already there, 0 to skip",
    ]
    code, out, _ = bench(*run, "--stale", "--device", "cpu", "--only", "seed=0")
    lines = read_results(results)
    assert code == 0 and "1 ran in " in out and len(lines) == 3
    assert lines[-1]["key"] == old[1]["key"] and lines[-1]["metrics"] == old[1]["metrics"]
    assert lines[-1]["code"] != "older"
    code, out, _ = bench(*run, "--stale", "--device", "cpu")
    assert code == 0 and re.search(r"2 ran in \d+ s, 2 already there, 0 skipped, 0 failed\n$", out)
    code, out, _ = bench(*run, "--stale", "--device", "cpu")
    assert (code, out) == (0, f"0 ran in 0 s, {CELLS} already there, 0 skipped, 0 failed\n")
    code, out, _ = bench(*run, "--force", "--dry-run")
    assert code == 0 and out.count("would run again: ") == CELLS


def test_encoders_of_stale_cells_follow_their_own_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = {"objectives": ["pucl"], "encoder": "small_cnn", "recipes": ["quick"], "tops": ["pupl"]}
    unit = Grid("g", {**PLACE, "recipe": {"quick": RECIPE}, "block": [block]}).cells()
    path = tmp_path / "r.jsonl"
    run = partial(sweep, unit, path, device="cpu", tell=lambda _: None)
    assert run().ran == 1
    aged(path, 0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("trained again")

    monkeypatch.setattr("pucl.bench.run.encoding.pretrain", refuse)
    assert "trained again" in run(force=True).failed[0][1]
    assert run(stale=True).ran == 1 and run(stale=True).there == 1


def test_a_stale_cell_that_cannot_be_run_keeps_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    sweep(cells()[:1], path, device="cpu", tell=lambda _: None)
    lines = aged(path, 0)
    monkeypatch.setattr(runner, "why_not_run", lambda _: "no data")
    found = plan(cells()[:1], lines, stale=True)
    assert (found.missing, found.there, found.other, found.again) == ([], 0, [], frozenset())
    assert found.skipped == [(cells()[0], "no data")] and key_of(cells()[0]) == lines[0]["key"]


def test_a_fine_tuned_teacher_is_kept_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {name: {**RECIPE, "epochs": epochs} for name, epochs in (("a", 1), ("b", 2))}
    tops = {
        "tuned": {"labeller": "pupl", "head": "finetune", "head_options": {"epochs": 1}},
        "taught": {
            "labeller": "teacher", "head": "finetune", "head_options": {"epochs": 1, "renew": False, "match": True},
            "teacher": {"encoder": "small_cnn", "recipe": "a", "top": "tuned"},
        },
    }  # fmt: skip
    block = {"objectives": ["pucl"], "encoder": "mlp", "recipes": ["a", "b"], "tops": ["taught"]}
    pupils = Grid("g", {**PLACE, "recipe": recipes, "top": tops, "block": [block]}).cells()
    teacher = teacher_of(pupils[0])
    fitted: list[str] = []

    def watched(cell: Config, *rest: Any) -> Any:
        fitted.append(cell["top"])
        if cell["top"] == "tuned":
            warnings.warn("of the teacher", stacklevel=1)
        return fit_top(cell, *rest)

    def run(cell: Config) -> tuple[Any, Config]:
        """What the teacher thinks of all rows and of a batch, and the pupil's line."""
        fitted.clear()
        bench = work.Bench(tmp_path, "cpu", "here")
        (done,) = bench.run([cell])
        assert done.line is not None, done.failed
        score, x = bench._fitted[key_of(teacher)].score, pose(cell)[0].x
        assert isinstance(score, Score)
        with torch.no_grad():
            return torch.cat([score(x), score.opinion(to_float(torch.as_tensor(x[:100])))]), done.line

    monkeypatch.setattr(work, "fit_top", watched)
    first, line = run(pupils[0])
    assert fitted == ["taught", "tuned"] and line["warnings"] == ["of the teacher"]
    kept, again = run(pupils[0])
    assert fitted == ["taught"] and torch.equal(kept, first)
    assert again["metrics"] == line["metrics"] and again["warnings"] == line["warnings"]
    assert torch.equal(run(pupils[1])[0], first) and fitted == ["taught"]  # of another encoder, with the same teacher
    (place,) = (path for path in tmp_path.glob("*/encoder.json") if '"layer"' in path.read_text(encoding="utf-8"))
    about = json.loads(place.read_text(encoding="utf-8"))
    place.write_text(json.dumps({**about, "extra": {**about["extra"], "code": "older"}}), encoding="utf-8")
    run(pupils[0])
    assert fitted == ["taught", "tuned"]
    sources = Sources()
    code, kept_there = sources.code_of(teacher), Kept(tmp_path, "cpu", sources)
    assert kept_there.stored(place.parent, teacher, code) is not None
    assert kept_there.stored(place.parent, {**teacher, "seed": 9}, code) is None
    assert replace(kept_there, anew=True).stored(place.parent, teacher, code) is None
    assert {"bench/run/teachers.py", "heads/finetune.py", "pseudo_labels/pupl.py"} <= set(sources.files_of(teacher))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "pucl: stopped; the same command goes on\n"),
        (("--stale",), "pucl: stopped; the same command goes on\n"),
        (
            ("--force",),
            "pucl: stopped; with --force the same command starts anew; without it, it goes on with cells that have no"
            " result\n",
        ),
    ],
)
def test_what_is_said_when_stopped(
    bench: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(work.Bench, "run", stop)
    code, _, err = bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu", *words)
    assert (code, err) == (130, said) and not Path("r.jsonl").exists()


# What people get wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stale", "--force"), "--stale must be given without --force, which runs all; got both"),
        (("--encoders", "g.toml"), "--encoders must be a folder that can be written to; got g.toml: Not a directory"),
        (("--encoders", "g.toml/enc"), "--encoders must be a folder that can be written to; got g.toml/enc: Not a dir"),
        (("--device", "xpuu", "--dry-run"), "device must be 'cpu', 'cuda', 'cuda:1' …; got 'xpuu'"),
    ],
)
def test_bad_input_is_one_line_before_any_work(bench: Command, words: tuple[str, ...], message: str) -> None:
    code, out, err = bench("run", "g.toml", "--results", "r.jsonl", *words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["g.toml"]


def test_a_folder_that_cannot_be_written_to(bench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root may write anywhere
    code, _, err = bench("run", "g.toml", "--results", "r.jsonl", "--encoders", "new/enc")
    assert code == 2 and "got new/enc: Permission denied\n" in err and not Path("r.jsonl").exists()
    code, _, err = bench("run", "g.toml", "--results", "g.toml/r.jsonl")
    assert code == 1 and err.startswith("pucl bench: cannot write to g.toml/r.jsonl: ")  # encoders are beside it


def test_no_empty_file_is_left(bench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(work, "fit_method", fail)
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu")
    assert code == 1 and f"{CELLS} failed\n" in out and not Path("r.jsonl").exists()
    monkeypatch.setattr(runner, "why_not_run", lambda _: "no data")
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu")
    assert code == 0 and f"skipped {CELLS}: no data\n" in out and not Path("r.jsonl").exists()


# Where a line comes from


def test_the_commit_says_whether_the_package_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "src" / "pucl" / "bench" / "provenance.py"
    here.parent.mkdir(parents=True)
    here.write_text("")
    monkeypatch.setattr(provenance, "__file__", str(here))

    def commit() -> str:
        return str(provenance.provenance()["commit"])

    def git(*words: str) -> None:
        who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit() == "unknown"
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    clean = commit()
    assert re.fullmatch(r"[0-9a-f]{7,}", clean)
    (tmp_path / "results.jsonl").write_text("{}\n")  # of the sweep itself
    assert commit() == clean
    (here.parent / "new.py").write_text("")
    assert commit() == f"{clean}+changes"
    assert provenance.provenance(commit="mine")["commit"] == "mine"
    monkeypatch.setenv("PATH", "")
    assert commit() == "unknown"


def test_the_hardware_is_what_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {torch.device(device).index}")
    assert provenance.provenance("cuda:1", "x")["hardware"] == "card 1"
    for count, words in ((1, "1 thread"), (8, "8 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
        model, threads = provenance.provenance("cpu", "x")["hardware"].rsplit(", ", 1)
        assert model and threads == words
    monkeypatch.setattr(provenance, "_processor", lambda: "Some CPU @ 2 GHz")
    assert provenance.provenance("cpu:0", "x")["hardware"] == "Some CPU @ 2 GHz, 8 threads"
    found = provenance.provenance("cpu", "x")["versions"]
    assert list(found) == ["pucl", "torch", "python", "numpy", "scipy", "scikit-learn"]
    assert all(re.match(r"\d+\.\d+", version) for version in found.values())
