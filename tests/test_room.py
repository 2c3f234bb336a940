"""Arrow waits for ever for threads or blocks that there is no room for, so that is looked at first."""

import threading
from pathlib import Path

import pytest

from pucl.data.own.room import check_room
from pucl.data.own.scan import scan_file


def test_threads_are_started_and_ended() -> None:
    before = threading.active_count()
    check_room(1000)
    assert threading.active_count() == before


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
    def none(_size: int) -> bytearray:
        raise MemoryError

    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n")
    assert scan_file(file).count() == 1
    monkeypatch.setattr("pucl.data.own.room.bytearray", none, raising=False)
    with pytest.raises(MemoryError):
        scan_file(file)
