"""Stored results: half lines, damage, one writer at a time, merging."""

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.results.store import merge, read_results, write_results, writing
from pucl.errors import InputError, RunError

from bench_examples import baseline, line_of


def test_half_a_line_is_dropped_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = [line_of(baseline()), line_of(baseline(seeds=[1]))]
    write_results(path, lines)
    whole = path.read_bytes()
    for rest in (b'{"key": "ab', b'{"key": "ab\n', b"\x00\xff"):
        path.write_bytes(whole + rest)
        assert read_results(path) == lines
        with writing(path) as writer:
            writer.add(line_of(baseline(seeds=[2])))
        assert [line.cell.place.seed for line in read_results(path)] == [0, 1, 2]
        path.write_bytes(whole)
    path.write_bytes(whole[:-1])  # cut at the very end: the line is whole
    with writing(path) as writer:
        writer.add(line_of(baseline(seeds=[2])))
    assert len(read_results(path)) == 3


def cell_table(stored: Any) -> dict[str, Any]:
    table: dict[str, Any] = stored["config"]
    return table


def test_damage_elsewhere_is_an_error(tmp_path: Path) -> None:
    path, line = tmp_path / "r.jsonl", line_of(baseline())
    stored = line.to_dict()
    config = cell_table(stored)
    text = json.dumps(stored)
    tampered = json.dumps({**stored, "config": {**config, "seed": 7}})
    for content, words in (
        (f"{text[:40]}\n{text}\n", "line 1, must be a result of 'pucl bench run'; got not JSON"),
        (f"{text}\n{{}}\n", "line 2, must be a result of 'pucl bench run'; got a cell: its configuration must be a"),
        (f"{tampered}\n", "got a configuration that does not match its key"),
        (
            f"{text}\n{json.dumps({**stored, 'time': 3})}\n",
            "line 2, must be a result of 'pucl bench run'; got a result: time must be a name; got 3",
        ),
        (f"{text}\n{json.dumps({**stored, 'metrics': {}})}\n", "got metrics without an accuracy"),
        (f"{text}\n{json.dumps({**stored, 'metrics': {'accuracy': float('nan')}})}\n{text}\n", "got not JSON"),
        (f"{json.dumps({**stored, 'config': {}})}\n", "got a cell: place: task must be a name; got None"),
        (
            f"{json.dumps({**stored, 'config': {**config, 'epochs': 3}})}\n",
            "line 1, must be a result of 'pucl bench run'; got a cell: unknown key 'epochs'",
        ),
        (f"{json.dumps({**stored, 'config': {**config, 'settings': 3}})}\n", "got a cell: settings must be a table"),
        (f"{json.dumps({**stored, 'more': 1})}\n", "got a result: unknown key 'more'"),
        (f"{json.dumps({**stored, 'revisions': {'x': 'y'}})}\n", "revisions.x must be a whole number; got 'y'"),
        ("some words\n", "line 1, must be a result of 'pucl bench run'; got not JSON"),
        ("[block]\nseeds = 1\n", "line 1, must be a result of 'pucl bench run'; got not JSON"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=re.escape(words)):
            read_results(path)
        with pytest.raises(InputError, match=re.escape(words)), writing(path):
            pass
        assert path.read_text() == content, "what is refused stays as it is"


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with writing(path), pytest.raises(RunError, match="another process is writing to"), writing(path):
        pass
    assert not list(tmp_path.iterdir()), "no empty file is left, and no lock"


def test_a_merge_writes_through_a_link(tmp_path: Path) -> None:
    link, behind = tmp_path / "link.jsonl", tmp_path / "behind.jsonl"
    link.symlink_to(behind)
    write_results(link, [line_of(baseline())])
    assert link.is_symlink() and len(read_results(behind)) == 1


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "r.jsonl"
    write_results(path, [line_of(baseline())])
    with writing(path) as writer:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(RunError, match=r"cannot write to .*r\.jsonl: No space left on device; choose another file"):
            writer.add(line_of(baseline(seeds=[1])))
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        write_results(path, [])
    assert len(read_results(path)) == 1


def test_merging_two_machines() -> None:
    a, b, c = (baseline(seeds=[seed]) for seed in range(3))
    here = [line_of(a), line_of(b, time="2026-01-03T00:00:00+00:00", accuracy=80.0)]
    there = [
        line_of(b, time="2026-01-02T00:00:00+00:00", accuracy=81.0),  # the same revisions, other numbers
        line_of(c, time="2026-01-04T00:00:00+00:00"),
        replace(line_of(a, time="2026-01-05T00:00:00+00:00", accuracy=70.0), revisions={"baselines/naive": 2}),
    ]
    first, second = merge([here, there]), merge([there, here])
    assert first == second and len(first.lines) == 3 and first.dropped == 2
    assert {line.cell.place.seed: line.accuracy for line in first.lines} == {0: 70.0, 1: 80.0, 2: 90.0}
    assert first.conflicts == [b.key]
    again = merge([first.lines, here])
    assert again.lines == first.lines and again.dropped == 2
