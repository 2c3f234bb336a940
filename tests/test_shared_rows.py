"""Rows that the processes of a run share: mapped where they lie, or in a file that they write together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pucl.data.own import open_rows
from pucl.data.own.batch import load
from pucl.errors import InputError
from pucl.training import shared_rows as module
from pucl.training.shared_rows import shared_rows

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files that are shared lie."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def saved(path: Path, x: Any) -> Any:
    np.save(path, x)
    return open_rows(path)


@pytest.mark.parametrize(
    "x",
    [
        RNG.normal(size=(300, 4)).astype(np.float32),
        RNG.integers(256, size=(9, 3, 6, 5), dtype=np.uint8),
    ],
)
def test_an_array_that_training_takes_is_mapped_where_it_lies(x: Any, tmp_path: Path, folder: Path) -> None:
    rows = shared_rows(saved(tmp_path / "x.npy", x), CPU)
    assert isinstance(rows, np.memmap) and Path(str(rows.filename)) == tmp_path / "x.npy"
    assert np.array_equal(rows, x) and not list(folder.iterdir())


@pytest.mark.parametrize(
    "x",
    [
        RNG.normal(size=(600, 4)),
        RNG.integers(256, size=(9, 6, 5, 3), dtype=np.uint8),
        RNG.integers(256, size=(9, 6, 5), dtype=np.uint8),
        RNG.random(size=(9, 1, 6, 5)),
    ],
)
def test_others_are_written_as_training_takes_them(x: Any, tmp_path: Path, folder: Path) -> None:
    source = saved(tmp_path / "x.npy", x)
    rows = shared_rows(source, CPU)
    assert isinstance(rows, np.memmap) and np.array_equal(rows, load(source)) and rows.dtype == load(source).dtype
    assert not list(folder.iterdir()), "its name is gone, its rows are there as long as they are used"


def test_images_are_decoded_once_into_the_file(tmp_path: Path, folder: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "pictures").mkdir()
    for i in range(7):
        image.fromarray(RNG.integers(256, size=(6, 5, 3), dtype=np.uint8)).save(tmp_path / "pictures" / f"{i}.png")
    source = open_rows(tmp_path / "pictures")
    rows = shared_rows(source, CPU)
    assert rows.shape == (7, 3, 6, 5) and np.array_equal(rows, load(source)) and not list(folder.iterdir())


def test_every_process_of_a_machine_writes_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three processes on a machine, rank 4 of all, with the others played by this test."""
    x, written = RNG.normal(size=(10, 2)), []
    source = saved(tmp_path / "x.npy", x)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(module, "rank_and_world", lambda: (4, 6))
    fill = module._fill

    def gathered(tensor: Tensor) -> Tensor:
        return torch.full((6,), 17) if tensor.dtype == torch.int64 else tensor

    def recorded(path: Path, rows: Any, start: int, stop: int) -> None:
        written.append((start, stop))
        module._create(path, (10, 2), np.dtype(np.float32))
        for part in ((0, 3), (start, stop), (6, 10)):
            fill(path, rows, *part)

    monkeypatch.setattr(module, "gather", gathered)
    monkeypatch.setattr(module, "_fill", recorded)
    assert np.array_equal(shared_rows(source, CPU), x.astype(np.float32)) and written == [(3, 6)]


def test_a_disk_that_is_too_small_is_said_before(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 100

    monkeypatch.setattr("shutil.disk_usage", lambda _: Full)
    with pytest.raises(InputError, match=r"the rows take 400 bytes on the disk of .*, which has 100: set TMPDIR"):
        shared_rows(saved(tmp_path / "x.npy", RNG.normal(size=(25, 4))), CPU)
    assert not list(folder.iterdir())
