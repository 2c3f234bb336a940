"""A sweep: nothing is lost in silence, what is said when it ends early, and where a line says it comes from."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.bench.results.store import read_results
from pucl.bench.run import provenance, runner, work
from pucl.bench.run.exam import Exam, Metrics
from pucl.bench.run.runner import sweep

from bench_examples import N_CELLS, two_baselines
from conftest import Command


def test_a_metric_that_is_not_finite_fails_its_cell_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graded: list[Metrics] = []

    def odd(exam: Exam, *given: Any) -> Metrics:
        graded.append(grade(exam, *given))
        return graded[-1] | ({"f1": float("nan")} if len(graded) <= 2 else {})

    grade = Exam.grade
    monkeypatch.setattr(Exam, "grade", odd)
    summary = sweep(two_baselines(), tmp_path / "r.jsonl", device="cpu", on_progress=lambda _: None)
    assert (summary.ran, len(summary.failed)) == (2, 2)
    assert {why for _, why in summary.failed} == {"bench: f1 is nan, not a finite number"}
    assert {line.cell.place.seed for line in read_results(tmp_path / "r.jsonl")} == {1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "pucl: stopped; the same command continues\n"),
        (("--stale",), "pucl: stopped; the same command continues\n"),
        (
            ("--force",),
            "pucl: stopped; the same command starts again from the first cell; without --force it continues with the "
            "missing cells\n",
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
    assert code == 1 and err.startswith("pucl bench run: cannot write to g.toml/r.jsonl: ")  # encoders are beside it


def test_no_empty_file_is_left(bench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(work, "fit_method", fail)
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu")
    assert code == 1 and f"{N_CELLS} failed\n" in out and not Path("r.jsonl").exists()
    monkeypatch.setattr(runner, "why_not_run", lambda _: "no data")
    code, out, _ = bench("run", "g.toml", "--results", "r.jsonl", "--device", "cpu")
    assert code == 0 and f"skipped {N_CELLS}: no data\n" in out and not Path("r.jsonl").exists()


def test_the_commit_says_whether_the_package_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "src" / "pucl" / "bench" / "run" / "provenance.py"
    here.parent.mkdir(parents=True)
    here.write_text("")
    monkeypatch.setattr(provenance, "__file__", str(here))

    def commit() -> str:
        return str(provenance.provenance().commit)

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
    assert provenance.provenance(commit="mine").commit == "mine"
    monkeypatch.setenv("PATH", "")
    assert commit() == "unknown"


def test_the_hardware_is_what_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {torch.device(device).index}")
    assert provenance.provenance("cuda:1", "x").hardware == "card 1"
    for count, words in ((1, "1 thread"), (8, "8 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
        model, threads = provenance.provenance("cpu", "x").hardware.rsplit(", ", 1)
        assert model and threads == words
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "flags: x\nmodel name\t: Some CPU @ 2 GHz\n")
    assert provenance.provenance("cpu:0", "x").hardware == "Some CPU @ 2 GHz, 8 threads"
    monkeypatch.undo()
    found = provenance.provenance("cpu", "x").versions
    assert list(found) == ["pucl", "torch", "python", "numpy", "scipy", "scikit-learn"]
    assert all(re.match(r"\d+\.\d+", version) for version in found.values())
