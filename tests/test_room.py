"""Arrow waits for ever for threads or blocks that there is no room for, so that is looked at first."""

import sys
import threading
from pathlib import Path

import pytest

from pucl.data.own.room import check_room
from pucl.data.own.scan import scan_file


def test_threads_are_started_and_ended() -> None:
    before = threading.active_count()
    check_room(1000)
    assert threading.active_count() == before


def test_more_blocks_than_there_are_addresses_for() -> None:
    with pytest.raises(MemoryError):
        check_room(1 << 60)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not count page faults for a process")
def test_blocks_are_asked_for_and_not_filled() -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    check_room(32 << 20)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize() < 32 << 20


def test_no_room_for_the_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before, start = threading.active_count(), threading.Thread.start
    started: list[threading.Thread] = []

    def once(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", once)
    with pytest.raises(MemoryError, match="^no room for another thread$"):
        check_room(1000)
    assert threading.active_count() == before


def test_a_csv_file_is_not_opened_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_size: int) -> None:
        raise MemoryError

    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n")
    assert scan_file(file).count() == 1
    monkeypatch.setattr("pucl.data.own.room.check_memory", none)
    with pytest.raises(MemoryError):
        scan_file(file)
