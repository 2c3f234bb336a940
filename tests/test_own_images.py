"""Folders of images of one's own: lists, folders as labels, sizes, unreadable files."""

from pathlib import Path

import numpy as np
import pytest

from own_data_examples import loaded
from pucl.data.own import read, sample
from pucl.errors import InputError


def write_images(folder: Path, names: list[str], *, sizes: tuple[tuple[int, int], ...] = ((6, 5),)) -> Path:
    image = pytest.importorskip("PIL.Image")
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        height, width = sizes[i % len(sizes)]
        image.fromarray(np.full((height, width), 10 * i, dtype=np.uint8)).save(path)
    return folder


def test_folder_of_images_with_a_list(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "scans", ["a.png", "b.png", "sub/c.png"])
    (folder / "notes.txt").write_text("b.png\nsub/c.png\n", encoding="utf-8")
    whole_path = [str(folder / "b.png"), "sub/c.png"]
    for positives in (["b.png", "sub/c.png"], folder / "notes.txt", whole_path):
        data = read(folder, positives=positives)
        assert (data.kind, data.ids.tolist()) == ("image", ["a.png", "b.png", "sub/c.png"])
        assert data.s.tolist() == [False, True, True]
    rows = loaded(data)
    assert (rows.shape, rows.dtype) == ((3, 1, 6, 5), np.uint8)
    assert rows[:, 0, 0, 0].tolist() == [0, 10, 20]
    assert loaded(sample(read(folder, positives=["a.png"]), 2, keep_positives=True)).shape == (2, 1, 6, 5)
    with pytest.raises(InputError, match="files in scans; got 1 unknown, first 'd.png'"):
        read(folder, positives=["b.png", "d.png"])
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (5, 6), (1, 2, 3)).save(folder / "z.png")
    assert loaded(read(folder, positives=["b.png"]))[3, :, 0, 0].tolist() == [1, 2, 3]
    image.fromarray(np.zeros((6, 5), dtype=np.uint16)).save(folder / "deep.png")
    with pytest.raises(InputError, match="image deep.png must be of 8 bits per channel"):
        read(folder, positives=["b.png"])


@pytest.mark.parametrize("spelling", ["unlabelled", "unlabeled"])
def test_two_folders(tmp_path: Path, spelling: str) -> None:
    folder = write_images(tmp_path, ["positive/a.png", f"{spelling}/a.png", f"{spelling}/b.png"])
    assert read(folder).s.tolist() == [True, False, False]
    write_images(tmp_path, ["stray.png"])
    with pytest.raises(InputError, match="inside positive/, unlabelled/ or negative/.*'stray.png'"):
        read(folder)


def test_a_third_folder_of_images(tmp_path: Path) -> None:
    names = ["negative/a.png", "positive/a.png", "unlabelled/a.png", "unlabelled/b.png"]
    folder = write_images(tmp_path, names)
    data = read(folder)
    assert data.s.tolist() == [False, True, False, False]
    assert data.negative is not None and data.negative.tolist() == [True, False, False, False]
    with pytest.raises(InputError, match="left out where there is a folder negative/"):
        read(folder, negatives=["unlabelled/a.png"])
    listed = read(folder, positives=["positive/a.png"], negatives=["unlabelled/a.png"])
    assert listed.negative is not None and listed.negative.tolist() == [False, False, True, False]


def test_images_of_mixed_size(tmp_path: Path) -> None:
    folder = write_images(tmp_path, ["a.png", "b.png"], sizes=((6, 5), (4, 4)))
    with pytest.raises(InputError, match="resized with size=; got a.png of 6×5 and b.png of 4×4"):
        read(folder, positives=["a.png"])
    assert loaded(read(folder, positives=["a.png"], size=3)).shape == (2, 1, 3, 3)
    assert loaded(read(folder, positives=["a.png"], size=(3, 7))).shape == (2, 1, 3, 7)
    with pytest.raises(InputError, match="size"):
        read(folder, positives=["a.png"], size=0)


def test_an_unreadable_image_among_many(tmp_path: Path) -> None:
    folder = write_images(tmp_path, [f"{i:02d}.png" for i in range(20)], sizes=((64, 64),))
    whole = (folder / "07.png").read_bytes()
    for content in (whole[: len(whole) // 2], b"not an image"):
        (folder / "07.png").write_bytes(content)
        with pytest.raises(InputError, match="image 07.png cannot be read .*skip_unreadable=True"):
            read(folder, positives=["01.png"])
        with pytest.warns(UserWarning, match="1 of 20 images cannot be read and are skipped, first 07.png"):
            data = read(folder, positives=["01.png"], skip_unreadable=True)
        assert len(data) == len(loaded(data)) == 19 and "07.png" not in data.ids
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match="none in it"):
        read(tmp_path / "bare", positives=["a.png"])


@pytest.mark.parametrize("kind", ["RGBA", "LA", "palette", "grey with a transparent value"])
def test_transparent_parts_are_white(kind: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    disc = np.hypot(*np.mgrid[-8:8, -8:8]) < 5
    black = np.zeros((16, 16, 4), dtype=np.uint8)
    black[..., 3] = 255 * disc
    drawing = image.fromarray(black)
    if kind == "palette":
        drawing = image.fromarray(disc.astype(np.uint8), mode=None).convert("P")
        drawing.putpalette([9, 9, 9, 0, 0, 0])
        drawing.save(tmp_path / "a.png", transparency=bytes([0, 255]))  # of which Pillow warns when it is converted
    elif kind == "grey with a transparent value":
        image.fromarray(np.where(disc, 0, 7).astype(np.uint8)).save(tmp_path / "a.png", transparency=7)
    else:
        drawing.convert(kind).save(tmp_path / "a.png")
    image.new("L", (16, 16)).save(tmp_path / "b.png")
    rows = loaded(read(tmp_path, positives=["a.png"]))
    assert (rows[0] == np.where(disc, 0, 255)).all()
    assert rows.shape[1] == (1 if kind in ("LA", "grey with a transparent value") else 3)
