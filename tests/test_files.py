"""Files and folders that several processes write to, some of which are killed."""

import errno
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pucl.files import InUseError, alone_at, alone_in, is_temporary, lock_file, replace_file, replacing

from conftest import SRC, environment

LONG = "n" * 250 + ".json"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_writers_have_a_file_each_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    with replacing(path) as first:
        first.write_bytes(b"first")
        with replacing(path) as second:
            assert second != first and is_temporary(first) and is_temporary(second)
            second.write_bytes(b"second")
        assert path.read_bytes() == b"second" and first.read_bytes() == b"first"
    assert path.read_bytes() == b"first" and names(tmp_path) == ["scores.csv"]


def test_what_killed_writers_left_is_used_or_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replacing(path) as first, replacing(path) as second:
        left = [first.name, second.name]
        for each in (first, second):
            each.write_bytes(b"x")
    for name in left:
        (tmp_path / name).write_bytes(b"half of something long")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new" and names(tmp_path) == ["a"]


def write_half(path: Path, error: BaseException) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(b"ne")
        raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failed_writer_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    replace_file(path, b"old")
    with pytest.raises(type(error)):
        write_half(path, error)
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "precious"
    other.write_bytes(b"mine")
    with replacing(path) as temporary:
        temporary.write_bytes(b"")
        name = temporary.name
    (tmp_path / name).symlink_to(other)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new" and other.read_bytes() == b"mine"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="it counts open files in /proc")
def test_a_write_that_fails_before_its_start_leaves_no_file_open_or_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = tmp_path / "a", len(names(Path("/proc/self/fd")))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", fail)
        for _ in range(3):
            with pytest.raises(OSError, match="broken"):
                replace_file(path, b"new")
    assert len(names(Path("/proc/self/fd"))) == before
    assert names(tmp_path) == [".a.tmp"], "one that is not locked is used by every try"
    replace_file(path, b"new")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", [LONG, "é" * 125, "a\nb", ".hidden"])
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    replace_file(tmp_path / name, b"1")
    assert names(tmp_path) == [name]


def test_many_writers_at_once(tmp_path: Path) -> None:
    path, texts = tmp_path / "a", [bytes([65 + number]) * 200_000 for number in range(8)]
    wrong: list[bytes] = []

    def write(text: bytes) -> None:
        for _ in range(20):
            replace_file(path, text)
            if path.read_bytes() not in texts:
                wrong.append(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and names(tmp_path) == ["a"]


def test_one_process_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    with alone_in(place):
        with pytest.raises(InUseError, match="another process is working there"), alone_in(place):
            pytest.fail("both are in")
        assert place.is_dir()
    assert names(tmp_path) == []
    with alone_in(place):
        (place / "kept").touch()
    with alone_in(place):
        pass
    assert names(place) == ["kept"]


def test_the_next_one_waits_even_if_the_folder_goes_meanwhile(tmp_path: Path) -> None:
    place, inside, leave = tmp_path / "a", threading.Event(), threading.Event()

    def work() -> None:
        with alone_in(place):
            inside.set()
            leave.wait(10)

    first = threading.Thread(target=work)
    first.start()
    assert inside.wait(10)
    threading.Timer(0.2, leave.set).start()
    began = time.monotonic()
    with alone_in(place, patience=10):
        assert time.monotonic() - began > 0.1
        (place / "file").touch()
    first.join()
    assert names(place) == ["file"]


def test_one_process_at_a_time_works_on_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.part"
    with alone_at(path):
        path.write_bytes(b"some")
        with pytest.raises(InUseError, match="another process is working on it"), alone_at(path):
            pytest.fail("both are in")
    assert path.read_bytes() == b"some"
    path.write_bytes(b"")
    with alone_at(path):
        pass
    assert names(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="a lock of Unix")
def test_a_file_that_goes_while_it_is_locked_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking another process, done with its work, removes or renames the file."""
    path, real = tmp_path / "a.part", os.open
    opened: list[int] = []

    def slow(*given: Any, **options: Any) -> int:
        handle = real(*given, **options)
        if not opened:
            path.unlink()
        opened.append(handle)
        return handle

    monkeypatch.setattr(os, "open", slow)
    with alone_at(path):
        assert path.exists() and len(opened) == 2
        with pytest.raises(InUseError, match="another process"), alone_at(path):
            pytest.fail("both are in")


def test_many_threads_wait_for_one_lock_that_is_removed_each_time(tmp_path: Path) -> None:
    path, inside, most, done = tmp_path / "a.lock", [0], [0], []

    def work() -> None:
        for _ in range(3):
            with lock_file(path, patience=math.inf):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1
                done.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and len(done) == 18
    assert os.name == "nt" or names(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from pucl.files import alone_in, replacing
with alone_in(Path(sys.argv[1])), replacing(Path(sys.argv[1], "a")) as temporary:
    temporary.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="a lock of Unix")
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env=environment(SRC), check=False)
    assert run.returncode == -signal.SIGKILL and len(names(tmp_path)) == 1
    with alone_in(tmp_path):
        replace_file(tmp_path / "a", b"whole")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"whole"
