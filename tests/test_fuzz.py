"""A few damaged and hostile files for every reader; `make fuzz` tries many. And that the trials see what goes wrong."""

import hashlib
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from fuzz.guided import MISSING, Tally, changed, main, packed, unpacked
from fuzz.reader import MB, Reader
from fuzz.readers import READERS
from fuzz.trial import FOUND, READ, REFUSED, Outcome, trials
from pucl.errors import InputError

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits of processes need Linux"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # of forking
]
MORE = 8  # inputs of every reader beside the valid and the hostile ones


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_a_few_inputs_are_read_or_refused_in_one_line(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "seeds").mkdir()
    seeds = reader.seeds(tmp_path / "seeds")
    large = {len(seeds) + i for i, kind in enumerate(reader.hostile) if kind in reader.once}
    numbers = [n for n in range(len(seeds) + len(reader.hostile) + MORE) if n not in large]
    outcomes = list(trials(reader, seeds, 0, numbers, tmp_path))
    assert [outcome for outcome in outcomes if outcome.end == FOUND] == []
    assert [outcome.number for outcome in outcomes] == numbers
    assert all(outcome.end == READ for outcome in outcomes[: len(seeds)])
    assert any(outcome.end == REFUSED for outcome in outcomes)


def test_every_reader_has_its_own_name() -> None:
    assert len({reader.name for reader in READERS}) == len(READERS)
    assert all(set(reader.once) <= set(reader.hostile) for reader in READERS)


def test_the_same_number_is_the_same_input() -> None:
    reader = next(reader for reader in READERS if reader.name == "CIFAR pickle")
    seeds = reader.seeds(Path())
    inputs = [[reader.make(seeds, seed, number) for number in range(30)] for seed in (0, 0, 1)]
    assert inputs[0] == inputs[1] != inputs[2]
    assert len({files["batch"] for _, files in inputs[0]}) > 20


def test_a_folder_is_one_input_of_the_guided_runs() -> None:
    files = {"a/\udcff.txt": b"", "b.bin": bytes(range(256)) * 300}
    assert unpacked(packed(files)) == files
    for broken in (packed(files)[:-1], packed(files)[:3], b"\xff" * 9):
        with pytest.raises(ValueError, match="no folder"):
            unpacked(broken)


def test_guided_runs_change_bytes_and_values_and_mend_checksums(tmp_path: Path) -> None:
    reader = next(reader for reader in READERS if reader.name == "encoder folder")
    seeds = sorted(reader.seeds(tmp_path), key=lambda files: len(packed(files)))

    def longer(data: bytes, _most: int) -> bytes:
        return data + b"?"

    made = [changed(reader, seeds, packed(seeds[0]), seed, longer) for seed in range(40)]
    assert made == [changed(reader, seeds, packed(seeds[0]), seed, longer) for seed in range(40)]
    assert len({*made}) > 10
    grown = [files for files in map(unpacked, made) if files["encoder.safetensors"].endswith(b"?")]
    mended = [
        hashlib.sha256(files["encoder.safetensors"]).hexdigest().encode() in files["encoder.json"] for files in grown
    ]
    assert any(mended)


def test_guided_runs_count_how_inputs_end() -> None:
    tally = Tally()
    for end, seconds, memory in ((READ, 0.5, 3 * MB), (REFUSED, 0.1, 9 * MB), (REFUSED, 0.25, 0), (FOUND, 0.0, 0)):
        tally.add(Outcome("idx", 0, "guided", end, seconds=seconds, memory=memory))
    assert tally.row("idx") == "| idx | 4 | 2 | 1 | 1 | 9 | 0.5 | 0 |"
    tally.status = 9
    assert tally.row("idx").endswith("died with status 9")


def test_guided_runs_say_that_atheris_is_missing_and_try_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.guided.find_spec", lambda _: None)
    monkeypatch.setattr("sys.argv", ["fuzz.guided", "--out", str(tmp_path / "found")])
    with pytest.raises(SystemExit, match="2"):
        main()
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", MISSING)
    assert "pip install atheris" in MISSING
    assert list(tmp_path.iterdir()) == []


def refuses(_: Path) -> Any:
    raise InputError("x.txt cannot be read")


def two_lines(_: Path) -> Any:
    error = InputError("x")
    error.args = ("x.txt\ncannot be read",)
    raise error


def warns(_: Path) -> Any:
    warnings.warn("deprecated", FutureWarning, stacklevel=1)


def grows(_: Path) -> Any:
    return len(b"x" * (90 * MB))


def hangs(_: Path) -> Any:
    while True:
        time.process_time()


def dies(_: Path) -> Any:
    os.abort()


def writes(folder: Path) -> Any:
    (folder.parent.parent / "elsewhere").write_text("x", encoding="utf-8")


@pytest.mark.parametrize(
    ("read", "end", "why"),
    [
        (lambda folder: (folder / "x.txt").read_bytes(), READ, ""),
        (refuses, REFUSED, "x.txt cannot be read"),
        (lambda _: os.environ["NO_SUCH"], FOUND, "KeyError: 'NO_SUCH'"),
        (lambda _: int("x" * 900), FOUND, "ValueError"),
        (two_lines, FOUND, "more than one line"),
        (warns, FOUND, "FutureWarning: deprecated"),
        (grows, FOUND, r"took (8[5-9]|9[0-5]) MB"),
        (hangs, FOUND, "took too long"),
        (dies, FOUND, "died: SIGABRT"),
        (writes, FOUND, "does writes "),
        (lambda _: os.system("true"), FOUND, "does os.system"),  # noqa: S605
        (lambda _: subprocess.run(["true"], check=False), FOUND, "does subprocess.Popen"),
        (lambda _: bytearray(1 << 40), FOUND, "MemoryError"),
    ],
    ids=[
        "read",
        "refused",
        "error",
        "value",
        "lines",
        "warning",
        "memory",
        "hang",
        "abort",
        "write",
        "system",
        "program",
        "addresses",
    ],
)
def test_the_trials_see_what_goes_wrong(read: Any, end: str, why: str, tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    reader = Reader("mine", lambda _: (), read, {"only": lambda *_: {"x.txt": b"x"}}, memory=40 * MB, seconds=1)
    (outcome,) = trials(reader, (), 0, [0], place)
    assert (outcome.end, outcome.kind) == (end, "only")
    assert re.search(why, outcome.why)


def test_a_refusal_that_names_no_file_is_found(tmp_path: Path) -> None:
    reader = Reader("mine", lambda _: (), refuses, {"only": lambda *_: {"other.txt": b""}})
    (outcome,) = trials(reader, (), 0, [0], tmp_path)
    assert (outcome.end, outcome.why) == (FOUND, "names no file: x.txt cannot be read")
