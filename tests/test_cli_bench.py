"""``pucl bench``: a sweep that is killed and goes on, merging, tables, and what people get wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.grid.grid import read_grid
from pucl.bench.results.store import read_results

from conftest import ROOT, Command

SMOKE = ROOT / "paper" / "smoke.toml"


@pytest.fixture
def pucl(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``pucl bench`` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "bench")


def start(*words: Any, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pucl", "bench", "run", *map(str, words), "--device", "cpu", "--commit", "here"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(condition: Callable[[], bool], seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Results of the smoke grid and what was said, made by the first process of the tests that needs them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke"
    results, said = folder / "r.jsonl", folder / "said.txt"
    try:
        folder.mkdir()
    except FileExistsError:
        wait_for(said.exists, seconds=300)
    else:
        out = killed_and_gone_on(results)
        (folder / "new").write_text(out, encoding="utf-8")
        (folder / "new").rename(said)
    return results, said.read_text(encoding="utf-8")


def killed_and_gone_on(results: Path) -> str:
    """A process that is killed after its first line, and one that goes on; what the second one said."""
    with start(SMOKE, "--results", results) as first:
        wait_for(lambda: lines_in(results) >= 1)
        first.kill()
    assert first.returncode == -signal.SIGKILL
    done = lines_in(results)
    assert 1 <= done < 12
    with results.open("ab") as file:
        file.write(results.read_bytes().splitlines()[0][:200])  # half a line
    with start(SMOKE, "--results", results) as second:
        out, err = second.communicate(timeout=300)
    assert (second.returncode, err) == (0, ""), err
    assert f"{done} already there" in out and f"\n{12 - done} ran in" in out
    return str(out)


@pytest.mark.slow
def test_a_killed_sweep_goes_on(smoke: tuple[Path, str]) -> None:
    results, out = smoke
    lines = [json.loads(row) for row in results.read_text(encoding="utf-8").splitlines()]
    assert sorted(line["key"] for line in lines) == sorted(cell.key for cell in read_grid(SMOKE))
    assert all(line["commit"] == "here" and line["hardware"].endswith(", 1 thread") for line in lines)
    assert len(list((results.parent / "encoders").glob("*/encoder.json"))) == 4  # two objectives, two seeds
    assert "] digits 100 seed 1 pucl+kernel_cvir (quick, small_cnn): accuracy " in out


@pytest.mark.slow
def test_nothing_is_run_twice(smoke: tuple[Path, str], pucl: Command, tmp_path: Path) -> None:
    shutil.copy(smoke[0], tmp_path / "r.jsonl")
    code, out, _ = pucl("run", SMOKE, "--results", "r.jsonl", "--device", "cpu")
    assert (code, out) == (0, "0 ran in 0 s, 12 already there, 0 skipped, 0 failed\n")
    changed = SMOKE.read_text(encoding="utf-8").replace("epochs = 2", "epochs = 3")
    (tmp_path / "changed.toml").write_text(changed, encoding="utf-8")
    code, out, _ = pucl("run", "changed.toml", "--results", "r.jsonl", "--dry-run")
    assert code == 0 and out.endswith("8 to run, 4 already there, 0 to skip\n")
    assert "would run: digits 100 seed 0 sscl+pupl (quick, small_cnn)\n" in out
    code, out, _ = pucl("run", SMOKE, "--results", "r.jsonl", "--force", "--only", "naive", "--only", "seed=0",
                        "--device", "cpu")  # fmt: skip
    assert code == 0 and out.count("1 ran in ") == 1 and lines_in(tmp_path / "r.jsonl") == 13
    code, out, _ = pucl("add", "r.jsonl", "--results", "r.jsonl")
    assert (code, lines_in(tmp_path / "r.jsonl")) == (0, 12)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes as Linux shows them")
def test_several_workers_and_an_interrupt(tmp_path: Path) -> None:
    results, long = tmp_path / "r.jsonl", tmp_path / "long.toml"
    long.write_text(SMOKE.read_text(encoding="utf-8").replace("epochs = 2", "epochs = 2000"), encoding="utf-8")
    with start(long, "--results", results, "--jobs", 2) as run:
        wait_for(lambda: lines_in(results) >= 1)
        assert len(workers := workers_of(run.pid)) == 2
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130 and err == "pucl: stopped; the same command continues\n"
    found = read_results(results)
    counted = re.search(r"^(\d+) ran in", out, re.MULTILINE)  # one less if stopped between a line and its count
    assert counted and 1 <= len(found) <= 4 and len(found) - int(counted[1]) in (0, 1)
    assert all(line.origin.hardware.endswith(", 1 thread") for line in found)  # as the environment says
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def workers_of(parent: int) -> list[int]:
    """The processes that this one has spawned, as Linux tells; not the one that cleans up after them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            own = int(stat.read_text().rsplit(")", 1)[1].split()[1]) == parent
            if own and "spawn_main" in stat.with_name("cmdline").read_text():
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes as Linux shows them")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    results, long = tmp_path / "r.jsonl", tmp_path / "long.toml"
    long.write_text(SMOKE.read_text(encoding="utf-8").replace("epochs = 2", "epochs = 2000"), encoding="utf-8")
    with start(long, "--results", results, "--jobs", 2) as run:
        wait_for(lambda: lines_in(results) >= 1)
        workers = workers_of(run.pid)
        assert len(workers) == 2
        run.kill()
        wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


@pytest.mark.slow
def test_merging_on_the_command_line(smoke: tuple[Path, str], pucl: Command, tmp_path: Path) -> None:
    rows = smoke[0].read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_text("".join(rows[:8]), encoding="utf-8")
    other = json.loads(rows[5])
    other["metrics"]["accuracy"], other["time"] = 1.0, "2000-01-01T00:00:00.000+00:00"
    (tmp_path / "b.jsonl").write_text("".join(rows[4:]) + json.dumps(other) + "\n", encoding="utf-8")
    code, out, _ = pucl("add", "a.jsonl", "b.jsonl", "--results", "all.jsonl")
    assert code == 0 and out.endswith("all.jsonl: 12 cells, 12 new, 5 older or equal lines dropped\n")
    assert out.startswith("conflict: ") and f"({other['key']})" in out
    assert sorted((tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)) == sorted(rows)


@pytest.mark.slow
def test_earlier_revisions_are_said(smoke: tuple[Path, str], pucl: Command, tmp_path: Path) -> None:
    rows = [json.loads(row) for row in smoke[0].read_text(encoding="utf-8").splitlines()]
    for row in rows[:3]:
        row["revisions"], row["commit"] = {"stage/grading": 0}, "1234567"
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for words in ((), ("--dry-run",)):
        code, out, _ = pucl("run", SMOKE, "--results", "r.jsonl", *words)
        said = "3 of 12 cells were made by an earlier revision of the code (commit 1234567) and are kept; --stale runs"
        assert code == 0 and out.startswith(said)


@pytest.mark.slow
def test_tables_and_pages(smoke: tuple[Path, str], pucl: Command, tmp_path: Path) -> None:
    for name in ("pu-benchmark-1", "downstream-head", "weak-supervision-knn", "pu-benchmark-2"):
        code, out, _ = pucl("table", name)  # no results yet: the paper's numbers
        assert code == 0 and out.startswith(f"{name}\n") and "puCL" in out and "–" in out
    for form, start_ in (("markdown", "| method | recipe | prior | fmnist1, 1,000 |"), ("latex", "% pu-benchmark-1"),
                         ("csv", "table,method,recipe")):  # fmt: skip
        code, out, _ = pucl("table", "pu-benchmark-1", "--format", form, "--results", smoke[0])
        assert code == 0 and out.startswith(start_)
    code, out, _ = pucl("leaderboard", "--results", smoke[0], "--out", "docs/page.md")
    page = (tmp_path / "docs" / "page.md").read_text(encoding="utf-8")
    assert code == 0 and "### digits, 100 labelled" in page and "| labelled_centroid | raw | baseline |" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "nowhere.toml"), "pucl bench run: GRID must be a TOML file that exists; got 'nowhere.toml'"),
        (
            ("run", SMOKE, "--only", "cifar"),
            "--only must be text or key=value that matches a cell of the grid; got 'cifar'",
        ),
        (("run", SMOKE, "--jobs", "0"), "pucl bench run: --jobs must be a whole number ≥ 1; got 0"),
        (("run", SMOKE, "--jobs", "two"), "pucl bench run: --jobs must be a whole number; got 'two'"),
        (("run", SMOKE, "--device", "cud"), "device must be"),
        (("run",), "Missing argument 'grid'"),
        (("table", "pu-benchmark-3"), "unknown table 'pu-benchmark-3': did you mean 'pu-benchmark-"),
        (("table", "pu-benchmark-1", "--format", "tex"), "unknown format 'tex': did you mean 'text'?"),
        (("table", "pu-benchmark-1", "--results", "none.jsonl"), "--results must be a file that exists"),
        (("table", "pu-benchmark-1", "--results", SMOKE), "line 1, must be a result of 'pucl bench run'; got not JSON"),
        (("add", "none.jsonl"), "FILES must be a file that exists"),
        (("leaderboard", "--results", "none.jsonl"), "--results must be a file that exists"),
        (("tabel",), "No such command 'tabel'"),
    ],
)
def test_what_people_get_wrong_is_one_line(pucl: Command, tmp_path: Path, words: tuple[Any, ...], message: str) -> None:
    code, out, err = pucl(*words)
    err = err.replace("argument 'GRID'", "argument 'grid'")  # as older versions of typer write it
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize("verb", ["run", "add", "table", "leaderboard", "tables", "maps"])
def test_every_verb_has_an_example(pucl: Command, verb: str) -> None:
    code, out, _ = pucl(verb, "--help")
    assert code == 0 and f"Example: pucl bench {verb} " in out
