"""Checkpoints when the disk fills, the process is killed or the folder is closed."""

import errno
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoint_examples import RUN, failing, holds, keep, names, pairs
from pucl.errors import InputError, RunError
from pucl.files import replace_file
from pucl.training.checkpoints import Checkpoints, check_unused, load, save

from conftest import SRC, environment

# Each file: opened, written, fsynced, renamed, its folder fsynced; first the tensors, then the JSON.
STAGES = [
    ("open", 1),
    ("fsync", 1),
    ("replace", 1),
    ("fsync", 2),
    ("open", 2),
    ("fsync", 3),
    ("replace", 2),
    ("fsync", 4),
]


@pytest.mark.parametrize(("name", "nth"), STAGES)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int, code: int) -> None:
    keep(tmp_path, 1)
    keep(tmp_path, 2)
    owner: Any = Path if name == "open" else os
    way = "make room there" if code == errno.ENOSPC else "make it writable"
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing(getattr(owner, name), nth, OSError(code, os.strerror(code))))
        with pytest.raises(RunError) as caught:
            keep(tmp_path, 3)
    assert re.fullmatch(
        f"checkpoint {re.escape(str(tmp_path))}/step-00000003: {os.strerror(code)}; [89],[0-9]{{3}} bytes needed, "
        f"[0-9,]+ free. The checkpoint of step 2 is intact: {way} or give another folder",
        str(caught.value),
    )
    if (name, nth) == ("fsync", 4):  # everything was written by then
        assert names(tmp_path) == pairs(1, 2, 3) and holds(tmp_path, 3)
    else:
        assert names(tmp_path) == pairs(1, 2) and holds(tmp_path, 2)
        keep(tmp_path, 3)  # room was made
    assert holds(tmp_path, 3)


def test_a_disk_that_fills_while_writing(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="the limit on the size of files is POSIX")
    keep(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(RunError, match="File too large; 400,[0-9]{3} bytes needed, .* step 1 is intact"):
            keep(tmp_path, 2, tensors={"w": torch.zeros(100_000)})
        with pytest.raises(RunError, match="File too large; .* Nothing was saved before: make room"):
            keep(tmp_path / "new", 2, tensors={"w": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == ["new", *pairs(1)] and not names(tmp_path / "new") and holds(tmp_path, 1)


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(Path, "mkdir", failing(Path.mkdir, 1, denied))
    with pytest.raises(RunError, match="Permission denied; 8,[0-9]{3} bytes needed, [0-9,]+ free. Nothing was saved"):
        keep(tmp_path / "a" / "b", 1)


def test_folders_that_cannot_be_synced_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 2, OSError(errno.EINVAL, "Invalid argument")))
    keep(tmp_path, 1)
    assert holds(tmp_path, 1)


class Killed(BaseException):
    """Not an Exception, so nothing treats it as an error."""


@pytest.mark.parametrize(("name", "nth"), [(name, nth) for name, nth in STAGES if name != "open"])
def test_interrupted_between_any_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int
) -> None:
    keep(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name), nth, Killed()))
        with pytest.raises(Killed):
            keep(tmp_path, 2)
    assert holds(tmp_path, 2 if (name, nth) == ("fsync", 4) else 1)


def test_interrupted_right_after_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupt(source: Path, target: Path) -> None:
        replace(source, target)
        if Path(target).suffix == ".json":
            raise KeyboardInterrupt

    keep(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            keep(tmp_path, 2)
    assert holds(tmp_path, 2)


SAVES_FOR_EVER = """
import sys, torch
from pathlib import Path
from pucl.training.checkpoints import Checkpoints, load, save
where = Checkpoints(Path(sys.argv[1]))
saved = load(where.folder, run={"a": 1})
step = saved.step if saved else 0
while True:
    step += 1
    tensors = {"w": torch.full((20_000,), step), "v": torch.full((3, 5), -step)}
    save(where, step=step, tensors=tensors, state={"at": step}, run={"a": 1})
    print(step, flush=True)
"""


@pytest.mark.slow
def test_kill_9_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(0)  # noqa: S311  # when to kill, not a secret
    done = 0
    for _ in range(4):
        command = [sys.executable, "-c", SAVES_FOR_EVER, str(tmp_path)]
        with subprocess.Popen(command, env=environment(SRC), stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            said = int(child.stdout.readline())
            time.sleep(rng.uniform(0, 0.1))
            child.kill()
            said = max([said, *map(int, child.stdout.read().split())])
        saved = load(tmp_path, run={"a": 1})
        assert saved is not None and done < said <= saved.step <= said + 1
        assert saved.state == {"at": saved.step}
        assert torch.equal(saved.tensors["w"], torch.full((20_000,), saved.step))
        assert torch.equal(saved.tensors["v"], torch.full((3, 5), -saved.step))
        done = saved.step
    save(Checkpoints(tmp_path), step=done + 1, tensors={}, state={}, run={"a": 1})
    assert names(tmp_path) == pairs(done, done + 1), "the next save cleans up"


def test_a_file_is_the_old_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(os.replace, 1, OSError(errno.EIO, "I/O")))
        with pytest.raises(OSError, match="I/O"):
            replace_file(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_is_closed(tmp_path: Path) -> None:
    keep(tmp_path / "run", 1)
    (tmp_path / "run").chmod(0)
    try:
        with pytest.raises(InputError, match="checkpoints .*run: cannot be read: Permission denied"):
            load(tmp_path / "run", run=RUN)
        with pytest.raises(InputError, match="checkpoints .*run: cannot be read: Permission denied"):
            check_unused(tmp_path / "run")
        with pytest.raises(RunError, match="Permission denied; 8,.* What was saved before is intact: make it writable"):
            keep(tmp_path / "run", 2)
    finally:
        (tmp_path / "run").chmod(0o700)
    assert names(tmp_path / "run") == pairs(1)
