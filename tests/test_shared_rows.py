"""Rows that the processes of a run share: mapped where they lie, or in a file that they write together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.data.own import open_rows
from pucl.data.own.batch import load
from pucl.errors import InputError
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


def test_a_disk_that_is_too_small_is_said_before(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 100

    monkeypatch.setattr("shutil.disk_usage", lambda _: Full)
    with pytest.raises(InputError, match=r"the rows take 400 bytes on the disk of .*, which has 100: set TMPDIR"):
        shared_rows(saved(tmp_path / "x.npy", RNG.normal(size=(25, 4))), CPU)
    assert not list(folder.iterdir())
