"""What kills, other processes and wrong clocks leave, verb by verb; `make torture` tries many more moments."""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_examples import random_model, table_model
from pucl.bench.results.store import newest, read_results, writing
from pucl.cli.app import main
from pucl.data.download import prepare
from pucl.data.sources import Archive, File, Source
from pucl.errors import InputError, RunError
from pucl.files import alone_at, alone_in
from pucl.fitting.resuming import Resumable, only_fit
from pucl.models import swap
from pucl.models.folder import check_out, load_model, read_card, save_model
from pucl.models.many_files import score_files
from pucl.models.model import Model
from pucl.models.schema import Schema

from bench_examples import baseline, line_of
from conftest import ROOT, SRC, Command, environment

VECTOR = Schema("vector", (4,))
FIT = ("fit", "people.csv", "--label", "known", "--encoder", "raw", "--labeller", "pupl", "--head", "linear",
       "--prior", "0.3", "--device", "cpu", "--out", "m")  # fmt: skip


@pytest.fixture
def model() -> Model:
    return random_model(VECTOR, "mlp")


def other(model: Model) -> Model:
    return replace(model, record=replace(model.record, seed=99))


def test_half_a_file_of_a_killed_save_is_no_pickle(tmp_path: Path, model: Model) -> None:
    """The first byte of a safetensors file is that of a length, and may be that of a pickle."""
    save_model(tmp_path, model)
    half = tmp_path / ".head.safetensors.tmp"
    half.write_bytes(b"\x80\x00\x00")
    load_model(tmp_path)
    check_out(tmp_path)
    save_model(tmp_path, model)
    assert not half.exists()


def test_two_processes_that_save_to_one_folder_take_turns(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "WAIT", 0.1)
    save_model(tmp_path, model)
    told = "cannot write to .*: another process is working there; wait for it"
    with alone_in(tmp_path), pytest.raises(RunError, match=told):
        save_model(tmp_path, other(model))
    assert load_model(tmp_path).record.seed == model.record.seed
    save_model(tmp_path, other(model))
    assert load_model(tmp_path).record.seed == 99


@pytest.mark.parametrize("read", [load_model, read_card])
def test_a_model_that_is_replaced_while_it_is_read(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch, read: Any
) -> None:
    save_model(tmp_path, model)
    loads, real = [0], json.loads

    def slow(*given: Any, **options: Any) -> Any:
        content = real(*given, **options)
        loads[0] += 1
        if loads[0] == 1:  # after model.json was read
            save_model(tmp_path, random_model(VECTOR, "mlp", "kernel"))
        return content

    monkeypatch.setattr(json, "loads", slow)
    assert read(tmp_path).record.choices.head == "kernel"


def test_half_a_beginning_of_a_fit_is_no_other_file(pucl: Command) -> None:
    Path("m/.fit").mkdir(parents=True)
    Path("m/.fit/.fit.json.tmp").write_bytes(b'{"ver')
    assert pucl(*FIT).code == 0
    assert sorted(path.name for path in Path("m").iterdir()) == sorted(
        f"{name}.{kind}" for name, kind in [
            ("encoder", "json"), ("encoder", "safetensors"), ("evidence", "safetensors"), ("head", "safetensors"),
            ("model", "json"),
        ]
    )  # fmt: skip


def test_a_second_fit_into_one_folder_is_refused(pucl: Command) -> None:
    with only_fit(Resumable(Path("m/.fit")), "pucl fit"):
        run = pucl(*FIT)
        assert run.code == 1 and run.err.count("\n") == 1
        assert run.err.startswith("pucl fit: cannot work in m/.fit: another process is working there; wait for it")
    assert not Path("m").exists()
    assert pucl(*FIT).code == 0


@pytest.mark.slow
def test_a_second_pretraining_into_one_folder_is_refused(pucl: Command) -> None:
    words = ("pretrain", "people.csv", "--label", "known", "--epochs", "1", "--device", "cpu", "--out", "r")
    with alone_in(Path("r")):
        run = pucl(*words)
        assert run.code == 1 and run.err.startswith("pucl pretrain: cannot work in r: another process is working there")
    assert not Path("r").exists() and pucl(*words).code == 0


def test_a_clock_that_was_set_back_does_not_bring_old_results_back(tmp_path: Path) -> None:
    path, later = tmp_path / "r.jsonl", "2027-01-01T00:00:00.000+00:00"
    with writing(path) as writer:
        writer.add(line_of(baseline(), time=later, accuracy=50.0))
    with writing(path) as writer:
        for accuracy in (60.0, 70.0):
            writer.add(line_of(baseline(), time="2026-01-01T00:00:00.000+00:00", accuracy=accuracy))
    lines = read_results(path)
    (line,) = newest(lines).values()
    assert line.accuracy == 70.0 and len({each.time for each in lines}) == 3
    assert newest(reversed(lines))[line.key] == line, "whatever the order"


def test_rows_from_the_future_are_not_scored_again_and_again(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", table_model(tmp_path))
    later = (tmp_path / "people.csv").stat().st_mtime + 1e7
    os.utime(tmp_path / "people.csv", (later, later))
    first, second = (score_files(model, str(tmp_path / "*.csv"), str(tmp_path / "out")) for _ in range(2))
    assert (first.files, first.there) == (1, 0) and (second.files, second.there) == (0, 1)


def test_a_folder_of_scores_keeps_its_manifest_when_another_process_takes_it(tmp_path: Path) -> None:
    model, out = save_model(tmp_path / "model", table_model(tmp_path)), tmp_path / "out"

    def take(*_: Any) -> None:
        (out / "manifest.json").unlink(missing_ok=True)

    score_files(model, str(tmp_path / "*.csv"), str(out), on_progress=take)
    assert score_files(model, str(tmp_path / "*.csv"), str(out)).there == 1


def test_an_archive_that_a_killed_process_has_unpacked_but_not_removed(root: Path) -> None:
    archive = Archive("http://127.0.0.1:9/a.tar", "0" * 32, "mine")
    source = Source("mine", ("t",), "page", ("mine",), (File("x", "9dd4e461268c8034f5c8564e155c67a6"),), (), archive)
    (root / "mine").mkdir()
    (root / "mine" / "x").write_bytes(b"x")
    (root / "a.tar").write_bytes(b"archive")
    assert not prepare(source)
    assert (root / "a.tar").exists(), "somebody may have put it there"
    (root / "mine.part" / "mine").mkdir(parents=True)
    assert not prepare(source)
    assert [path.name for path in root.iterdir()] == ["mine"]


def test_a_download_that_another_process_is_at(root: Path) -> None:
    source = Source("mine", ("t",), "page", ("mine",), (File("x", "0" * 32, "http://127.0.0.1:9/x"),))
    (root / "mine").mkdir()
    part = root / "mine" / "x.part"
    part.write_bytes(b"half")
    with alone_at(part), pytest.raises(InputError, match="x: cannot fetch .*: another process is working on it"):
        prepare(source)
    assert part.read_bytes() == b"half"


def wrapped(cause: Exception) -> Exception:
    """As the exporter of torch does it."""
    error = RuntimeError("Failed to export the model with torch.export")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("[enforce] can't allocate memory: 8 bytes"),
        RuntimeError("could not create a primitive"),
        ImportError("a.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        wrapped(MemoryError()),
    ],
)
def test_no_memory_is_one_line(pucl: Command, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise problem

    monkeypatch.setattr("pucl.fitting.from_files.fit_reviewed_files", fail)
    run = pucl(*FIT)
    assert run.code == 1 and run.err.startswith("pucl: out of memory: use fewer rows") and run.err.count("\n") == 1


def test_an_interrupted_fit_that_cannot_be_removed_is_one_line(pucl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m/.fit").mkdir(parents=True)
    Path("m/.fit/fit.json").write_text("{}")
    unlink = Path.unlink

    def fail(path: Path, **given: Any) -> None:
        if path.name == "fit.json":
            raise OSError(errno.EIO, "Input/output error")
        unlink(path, **given)

    monkeypatch.setattr(Path, "unlink", fail)
    run = pucl(*FIT, "--overwrite")
    assert run.code == 1
    assert run.err == "pucl fit: cannot remove the interrupted fit in m/.fit: Input/output error\n"


def test_a_full_disc_is_one_line_wherever_it_is_met(pucl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr("pucl.fitting.from_files.fit_reviewed_files", fail)
    run = pucl(*FIT)
    assert run.code == 1
    assert run.err == "pucl: cannot write somewhere: No space left on device; make room or give another place\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_library_raises_when_it_is_stopped_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    save_model(tmp_path / "model", table_model(tmp_path))

    def half(*_: Any, **__: Any) -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            raise AttributeError("module 'library' has no attribute 'half'")

    monkeypatch.setattr("pucl.report.write_report", half)
    monkeypatch.setattr("sys.argv", ["pucl", "report", str(tmp_path / "model")])
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 128 + number and signal.getsignal(number) is before
    assert capsys.readouterr().err == ""


def test_stopped_before_the_command_has_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(**_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("pucl.cli.app.app", stop)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130 and capsys.readouterr().err == "pucl: stopped\n"


def test_an_error_that_no_signal_has_caused_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr("pucl.cli.app.app", fail)
    with pytest.raises(AttributeError, match="a bug"):
        main()


STOPPED = """
import os, signal, sys
from pucl.cli import app
from pucl.models import scoring
def strike(rows, *_):
    os.kill(os.getpid(), signal.SIGTERM)
scoring.joined = strike
sys.argv = ["pucl", "predict", "model", "people.csv", "--out", "s.csv"]
app.main()
"""


@pytest.mark.slow
def test_sigterm_cleans_up(tmp_path: Path) -> None:
    save_model(tmp_path / "model", table_model(tmp_path))
    before = sorted(path.name for path in tmp_path.iterdir())
    run = subprocess.run(
        [sys.executable, "-c", STOPPED], cwd=tmp_path, env=environment(SRC), capture_output=True, text=True, check=False
    )
    assert run.returncode == 128 + signal.SIGTERM, run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks into /proc")
def test_a_short_torture(tmp_path: Path) -> None:
    """Some faults at random moments; what is printed names the seed and the number to repeat one."""
    faults = [sys.executable, "-m", "torture", "--faults", "12", "--seed", "0", "--only", "short"]
    paths = {
        **environment(SRC),
        "PYTHONPATH": os.pathsep.join([str(SRC), str(ROOT / "tests")]),
        "TMPDIR": str(tmp_path),
    }
    run = subprocess.run(faults, env=paths, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "12 faults, 0 not survived" in run.stdout
