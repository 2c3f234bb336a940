import errno
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from pucl.errors import InputError, RunError
from pucl.training.log import RunLog


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def log(path: Path, first: int, last: int, *, resume_from: int | None = None) -> None:
    with RunLog(path, resume_from=resume_from) as run:
        for step in range(first, last + 1):
            run.write({"step": step, "loss": 1 / step})


def test_one_line_per_record_that_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    run = RunLog(path)
    run.write({"step": 1, "loss": 0.5, "text": "ü\n", "none": None, "ok": True})
    assert lines(path) == [{"step": 1, "loss": 0.5, "text": "ü\n", "none": None, "ok": True}]
    run.write({"step": 2, "nested": {"a": (1, 2)}})
    assert lines(path)[1] == {"step": 2, "nested": {"a": [1, 2]}}
    run.close()
    run.close()
    with pytest.raises(ValueError, match="closed file"):
        run.write({"step": 3})


def test_numbers_of_every_library(tmp_path: Path) -> None:
    with RunLog(tmp_path / "log.jsonl") as run:
        run.write(
            {
                "nan": float("nan"),
                "inf": -np.inf,
                "tensor": torch.tensor(float("nan")),
                "list": [1.5, float("inf")],
                "bfloat16": torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True),
                "float32": np.float32(0.25),
                "float64": np.float64("nan"),
                "int64": np.int64(3),
                "bool": np.bool_(True),
                "array": np.array([1.0, np.nan]),
            }
        )
    text = (tmp_path / "log.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert lines(tmp_path / "log.jsonl") == [
        {
            "nan": None,
            "inf": None,
            "tensor": None,
            "list": [1.5, None],
            "bfloat16": 0.5,
            "float32": 0.25,
            "float64": None,
            "int64": 3,
            "bool": True,
            "array": [1.0, None],
        }
    ]


def test_a_record_json_cannot_hold_leaves_no_trace(tmp_path: Path) -> None:
    with RunLog(tmp_path / "log.jsonl") as run:
        with pytest.raises(InputError, match=r"RunLog: the field 'a.b' of a record must be numbers, .*; got \{1\}"):
            run.write({"step": 1, "a": {"b": {1}}})
        run.write({"step": 1})
    assert lines(tmp_path / "log.jsonl") == [{"step": 1}]


def test_a_new_run_does_not_write_over_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()  # nothing in it: nobody's
    log(path, 1, 2)
    whole = path.read_bytes()
    with pytest.raises(
        InputError, match="log .*log.jsonl: the file exists already. Delete it, give another file or resume"
    ):
        RunLog(path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", ["", '{"step": 9, "lo', '{"step"', "\x00\x00\x00"])
@pytest.mark.parametrize("resume_from", [0, 4, 8])
def test_a_resumed_log_is_that_of_an_uninterrupted_run(tmp_path: Path, tail: str, resume_from: int) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "log.jsonl"
    log(whole, 1, 12)
    log(path, 1, 8)
    with path.open("a") as file:
        file.write(tail)
    log(path, resume_from + 1, 12, resume_from=resume_from)
    assert path.read_bytes() == whole.read_bytes()
    assert sorted(tmp_path.iterdir()) == [path, whole]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}')
    log(path, 3, 3, resume_from=2)
    assert [record["step"] for record in lines(path)] == [1, 2, 3]


def test_lines_without_a_step_go_with_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with RunLog(path) as run:
        for record in ({"name": "start"}, {"epoch": 1}, {"name": "a"}, {"epoch": 2}, {"name": "b"}):
            run.write(record)
    RunLog(path, resume_from=1).close()
    assert lines(path) == [{"name": "start"}, {"epoch": 1}, {"name": "a"}]


def test_resuming_without_a_log_starts_one(tmp_path: Path) -> None:
    log(tmp_path / "log.jsonl", 5, 6, resume_from=4)
    assert [record["step"] for record in lines(tmp_path / "log.jsonl")] == [5, 6]


def test_a_rewrite_that_fails_leaves_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    log(path, 1, 5)
    whole = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RunError, match="^log .*log.jsonl: No space left on device. To continue, make room there or give another path$"
    ):
        RunLog(path, resume_from=2)
    assert path.read_bytes() == whole and list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fills_while_writing(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="the limit on the size of files is POSIX")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RunLog(tmp_path / "log.jsonl") as run:
        run.write({"step": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(RunError, match="log.jsonl: File too large. To continue, make room"):
                run.write({"step": 2, "text": "x" * 200_000})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log(tmp_path / "log.jsonl", 2, 2, resume_from=1)
    assert lines(tmp_path / "log.jsonl") == [{"step": 1}, {"step": 2, "loss": 0.5}]


@pytest.mark.parametrize("content", ["shopping list\n", "[1]\n{}\n", '{"step": 1}\nnothing\n{"step": 2}\n'])
def test_another_file_is_not_cut(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes"
    path.write_text(content)
    with pytest.raises(InputError, match="log .*notes: line [12] is not a record of a run. Give another file"):
        RunLog(path, resume_from=0)
    assert path.read_text() == content


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="RunLog: jsonl must be a file; got the folder"):
        RunLog(tmp_path)
    with pytest.raises(InputError, match="RunLog: resume_from must be a whole number ≥ 0; got -1"):
        RunLog(tmp_path / "log", resume_from=-1)
    with RunLog() as run:
        run.write({"step": 1})
    assert not list(tmp_path.iterdir())


def test_tensorboard_is_asked_for_by_name_when_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"^events for TensorBoard need .* pip install tensorboard$"):
        RunLog(tmp_path / "log.jsonl", tmp_path / "tb")
    assert not list(tmp_path.iterdir())


class Heard:
    """Stands in for SummaryWriter, so that what it is told is tested where TensorBoard is not installed."""

    def __init__(self, log_dir: str, purge_step: int | None) -> None:
        self.log_dir, self.purge_step, self.closed = log_dir, purge_step, False
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, global_step: int) -> None:
        self.scalars.append((name, value, global_step))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_what_tensorboard_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.utils.tensorboard")
    writers: list[Heard] = []

    def make(log_dir: str, purge_step: int | None) -> Heard:
        writers.append(Heard(log_dir, purge_step))
        return writers[-1]

    monkeypatch.setattr(module, "SummaryWriter", make, raising=False)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with RunLog(None, tmp_path / "tb") as run:
        run.write({"step": 3, "epoch": 1, "loss": torch.tensor(0.5), "nan": np.nan, "text": "a", "ok": True})
        run.write({"epoch": 2, "loss": 1})
        run.write({"loss": 7.0})
    assert writers[0].scalars == [("pucl/loss", 0.5, 3), ("pucl/loss", 1, 2)] and writers[0].closed
    assert (writers[0].log_dir, writers[0].purge_step) == (str(tmp_path / "tb"), None)
    RunLog(None, tmp_path / "tb", resume_from=4).close()
    assert writers[1].purge_step == 5
    (tmp_path / "log.jsonl").write_text("full")
    with pytest.raises(InputError, match="the file exists already"):
        RunLog(tmp_path / "log.jsonl", tmp_path / "tb")
    assert writers[2].closed, "nothing stays open"
    with pytest.raises(InputError, match="RunLog: tensorboard must be a folder; got the file"):
        RunLog(None, tmp_path / "log.jsonl")


def test_tensorboard_reads_it_back(tmp_path: Path) -> None:
    reader = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(reader, reason="tensorboard is not installed")

    def scalars() -> list[tuple[int, float]]:
        events = accumulator.EventAccumulator(str(tmp_path))
        events.Reload()
        assert events.Tags()["scalars"] == ["pucl/loss"]
        return [(event.step, event.value) for event in events.Scalars("pucl/loss")]

    with RunLog(None, tmp_path) as run:
        for step in (1, 2, 3):
            run.write({"step": step, "loss": step / 2})
    assert scalars() == [(1, 0.5), (2, 1.0), (3, 1.5)]
    with pytest.raises(InputError, match="there are events already. Delete them, give another folder or resume"):
        RunLog(None, tmp_path)
    with RunLog(None, tmp_path, resume_from=2) as run:
        run.write({"step": 3, "loss": 9.0})
    assert scalars() == [(1, 0.5), (2, 1.0), (3, 9.0)]
