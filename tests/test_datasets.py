"""The official data sets: readers on small files in the official formats, and the real files if present."""

import gzip
import os
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataset_examples import (
    REAL,
    both_checksums,
    cifar_batch,
    digest,
    idx,
    message,
    noise,
    write_cifar,
    write_idx,
    write_images,
    write_stl,
)
from pucl.data import load
from pucl.data.download import prepare
from pucl.data.sources import SOURCES, data_root, get_source
from pucl.errors import MissingDataError
from pucl.registry import entries

# Where the data lie.


def test_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "a"))
    assert data_root() == tmp_path / "a"
    monkeypatch.setenv("PUCL_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert data_root() == tmp_path / "b" / "pucl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "pucl"


def test_every_task_is_registered_and_its_absence_explained(root: Path) -> None:
    known = entries("datasets")
    for source in SOURCES:
        for task in source.tasks:
            assert known[task].inputs in (("image",), ("text",)) and len(known[task].summary) <= 100
            with pytest.raises(MissingDataError) as caught:
                load(task)
            text = str(caught.value)
            assert re.search(f"looked for (in )?{root}", text) and "set PUCL_DATA to the folder that holds" in text
            assert re.search("run '(pucl data prepare|pip install)|get it from https://", text)
    assert all(re.fullmatch("[0-9a-f]{32}", file.md5) for source in SOURCES for file in source.files)
    assert not any(root.iterdir())


# idx


@pytest.mark.parametrize("packed", [True, False])
def test_idx(root: Path, packed: bool) -> None:
    folder, images = root / "MNIST" / "raw", noise(10, 28, 27)
    for part in ("train", "t10k"):
        write_idx(folder, part, images, range(10))
    if not packed:
        for path in list(folder.iterdir()):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    data = load("mnist1")
    assert data.x_train.shape == (10, 1, 28, 27) and data.x_train.dtype == np.uint8 and data.x_train.flags.writeable
    assert data.x_train[3, 0, 5, 7] == images[3, 5, 7] and np.array_equal(data.x_test[:, 0], images)
    assert data.y_train.tolist() == [False, True] * 5 and data.positive == "1, 3, 5, 7, 9"


def test_fashion_tasks(root: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(root / "FashionMNIST" / "raw", part, noise(10, 28, 28), range(10))
    first, second = load("fmnist1"), load("fmnist2")
    assert np.flatnonzero(first.y_train).tolist() == [1, 4, 7] and first.prior == 0.3
    assert np.flatnonzero(second.y_test).tolist() == [0, 2, 3, 5, 6, 8, 9] and second.prior == 0.7
    assert first.positive == "trouser, coat, sneaker" == second.negative


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("train-images-idx3-ubyte.gz", lambda raw: raw[:-20], "not a whole gzip file"),
        ("train-images-idx3-ubyte.gz", lambda raw: raw[:100] + b"\0" * 50 + raw[150:], "not a whole gzip file"),
        ("train-images-idx3-ubyte.gz", lambda _: b"", "not an idx file of 3"),
        ("train-labels-idx1-ubyte.gz", lambda _: b"<html>not found</html>", "not a whole gzip file"),
        ("t10k-images-idx3-ubyte.gz", lambda _: gzip.compress(idx(noise(10))), "not an idx file of 3 dimension"),
        (
            "t10k-images-idx3-ubyte.gz",
            lambda _: gzip.compress(idx(noise(10, 28, 28))[:-1]),
            "7,840 bytes, 7,839 follow",
        ),
        ("t10k-labels-idx1-ubyte.gz", lambda _: gzip.compress(idx(noise(9))), "9 labels for the 10 images"),
        ("t10k-labels-idx1-ubyte.gz", lambda _: gzip.compress(idx(np.full(10, 99, np.uint8))), "classes are 0 to 9"),
    ],
)
def test_damaged_idx(root: Path, name: str, change: Callable[[bytes], bytes], reason: str) -> None:
    folder = root / "MNIST" / "raw"
    for part in ("train", "t10k"):
        write_idx(folder, part, noise(10, 28, 28), range(10))
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    text = message(lambda: load("mnist1"))
    assert reason in text and re.match(both_checksums(folder / name), text)
    assert text.endswith("run 'pucl data prepare mnist' to fetch it again")


def test_a_class_missing_from_a_split(root: Path) -> None:
    write_idx(root / "MNIST" / "raw", "train", noise(10, 28, 28), range(10))
    write_idx(root / "MNIST" / "raw", "t10k", noise(10, 28, 28), [0, 1, 2, 3, 4, 5, 6, 7, 9, 9])
    expected = "mnist1: the test split must be one with images of every class of the task; got none of 8"
    assert message(lambda: load("mnist1")) == expected


# CIFAR-10


def test_cifar_pixels(root: Path) -> None:
    rows = write_cifar(root)
    data = load("cifar1")
    assert data.x_train.shape == (50, 3, 32, 32) and data.x_test.shape == (10, 3, 32, 32)
    assert data.x_train.dtype == np.uint8 and data.x_train.flags.writeable and data.x_test.flags.writeable
    assert data.x_train[7, 2, 5, 9] == rows[7, 2 * 1024 + 5 * 32 + 9], "blue, row 5, column 9"
    assert np.array_equal(data.x_train[10:20].reshape(10, -1), noise(10, 3072, seed=1)), "batches follow one another"


@pytest.mark.parametrize(
    ("task", "positive", "negative"),
    [
        ("cifar0", [5], [3]),
        ("cifar1", [0, 1, 8, 9], [2, 3, 4, 5, 6, 7]),
        ("cifar2", [2, 3, 4, 5, 6, 7], [0, 1, 8, 9]),
        ("cifar3", [0, 1, 8, 9], [2, 3, 4, 5, 6, 7]),
        ("cifar_easy", [0, 2], [3, 5]),
        ("cifar_medium", [0, 3, 5], [2]),
        ("cifar_hard", [0, 3], [2, 5]),
    ],
)
def test_cifar_tasks(root: Path, task: str, positive: list[int], negative: list[int]) -> None:
    write_cifar(root)
    data = load(task)
    test = noise(10, 3072, seed=5)
    used = sorted(positive + negative)
    assert np.array_equal(data.x_test.reshape(len(used), -1), test[used])
    assert data.y_test.tolist() == [k in positive for k in used]
    assert data.prior == pytest.approx(len(positive) / len(used))


def test_cifar_repickled_by_python_3(root: Path) -> None:
    rows = write_cifar(root)
    path = root / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": rows, "labels": list(range(10))}, protocol=4))
    assert np.array_equal(load("cifar1").x_train[:10].reshape(10, -1), rows)


class Attack:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_imports_is_refused_and_not_run(root: Path, protocol: int) -> None:
    write_cifar(root)
    path, marker = root / "cifar-10-batches-py" / "data_batch_3", root / "marker"
    path.write_bytes(pickle.dumps({"data": Attack(marker), "labels": [0]}, protocol=protocol))
    text = message(lambda: load("cifar1"))
    assert text.startswith(f"{path}: refused, the file asks to import ") and "system" in text
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["builtins\neval", "numpy\nload", "numpy.core.multiarray\nscalar", "numpy\ndtype.type"]
)
def test_only_three_names_may_be_imported(root: Path, name: str) -> None:
    write_cifar(root)
    path = root / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(b"\x80\x02c" + name.encode() + b"\n(K\x01tR.")
    assert f"asks to import {name.replace(chr(10), '.')}," in message(lambda: load("cifar1"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda raw: raw[:-100], "not a whole CIFAR-10 batch"),
        (lambda raw: raw[:3000], "not a whole CIFAR-10 batch"),
        (lambda _: b"", "not a whole CIFAR-10 batch"),
        (lambda _: b"\x80\x02K\x01.", "not a whole CIFAR-10 batch"),
        (lambda _: cifar_batch(noise(10, 3072), range(9)), "9 labels for pixels of shape (10, 3072)"),
        (lambda _: cifar_batch(noise(10, 3000), range(10)), "10 labels for pixels of shape (10, 3000)"),
        (lambda _: cifar_batch(noise(1, 3072), [10]), "classes are 0 to 9"),
        (lambda _: pickle.dumps({"data": np.zeros((1, 3072)), "labels": [0]}, 4), "not row-major bytes"),
    ],
)
def test_damaged_cifar(root: Path, content: Callable[[bytes], bytes], reason: str) -> None:
    write_cifar(root)
    path = root / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(content(path.read_bytes()))
    text = message(lambda: load("cifar1"))
    assert reason in text and re.match(both_checksums(path), text)


# STL-10 and SVHN


def test_stl(root: Path) -> None:
    images = write_stl(root)
    data = load("stl1")
    assert np.array_equal(data.x_train, images["train"]) and np.array_equal(data.x_test, images["test"])
    assert data.x_unlabelled is not None and np.array_equal(data.x_unlabelled, images["unlabeled"])
    assert data.x_train.flags.c_contiguous and data.x_train.flags.writeable
    for task, positive in (("stl1", [0, 2, 3, 8, 9]), ("stl2", [1, 4, 5, 6, 7]), ("stl3", [0, 2, 8, 9])):
        assert np.flatnonzero(load(task).y_train).tolist() == positive
    assert load("stl3").positive == "airplane, car, ship, truck"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("unlabeled_X.bin", b"\1" * 30_000, "30,000 bytes are not a whole number of images of 27,648 bytes"),
        ("train_X.bin", b"", "0 bytes are not a whole number"),
        ("train_X.bin", b"\1" * 27_648, ""),
        ("train_y.bin", bytes(10), "classes are 1 to 10"),
        ("test_y.bin", bytes(range(1, 10)), "9 labels for the 10 images of test_X.bin"),
    ],
)
def test_damaged_stl(root: Path, name: str, content: bytes, reason: str) -> None:
    write_stl(root)
    path = root / "stl10_binary" / name
    path.write_bytes(content)
    text = message(lambda: load("stl1"))
    named = path if reason else path.with_name("train_y.bin")  # whole images but too few: told by the labels
    assert reason in text and re.match(both_checksums(named), text)


@pytest.mark.parametrize("folder", ["SVHN", "svhn"])
def test_svhn(root: Path, folder: str) -> None:
    scipy_io = pytest.importorskip("scipy.io", reason="scipy is not installed")
    (root / folder).mkdir()
    x, labels = noise(32, 32, 3, 10), np.array([[1], [2], [3], [4], [5], [6], [7], [8], [9], [10]], np.uint8)
    for part in ("train", "test"):
        scipy_io.savemat(root / folder / f"{part}_32x32.mat", {"X": x, "y": labels})
    data = load("svhn1")
    assert data.x_train.shape == (10, 3, 32, 32) and data.x_train[6, 2, 5, 9] == x[5, 9, 2, 6]
    assert data.y_train.tolist() == [False, True] * 5, "10 stands for the digit 0, which is even"
    path = root / folder / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-5000])
    assert re.match(both_checksums(path), message(lambda: load("svhn1")))
    scipy_io.savemat(path, {"X": x, "y": labels[:9]})
    assert "9 labels for uint8 pixels of shape (32, 32, 3, 10)" in message(lambda: load("svhn1"))


# Image folders

KINDS = ("VeryMildDemented", "MildDemented", "ModerateDemented", "NonDemented")


def write_alzheimer(root: Path, *shape: int) -> None:
    for i, part in enumerate(("train", "test")):
        for j, kind in enumerate(KINDS):
            write_images(root / "alzheimer-mri" / part / kind, *noise(2, *shape, seed=10 * i + j))


def test_alzheimer(root: Path) -> None:
    write_alzheimer(root, 128, 128)
    data = load("alzheimer")
    assert data.x_train.shape == (8, 1, 128, 128) and data.y_train.tolist() == [True] * 6 + [False] * 2
    assert np.array_equal(data.x_train[7, 0], noise(2, 128, 128, seed=3)[1]), "no resampling where the size fits"
    assert np.array_equal(data.x_test[2, 0], noise(2, 128, 128, seed=11)[0])
    assert load("alzheimer", size=32).x_test.shape == (8, 1, 32, 32)
    assert message(lambda: load("alzheimer", size=0)) == "pucl.load: size must be a whole number ≥ 1; got 0"


def test_the_middle_of_a_long_image_is_kept(root: Path) -> None:
    write_alzheimer(root, 128, 128)
    tall = noise(192, 128)
    write_images(root / "alzheimer-mri" / "train" / KINDS[0], tall)
    assert np.array_equal(load("alzheimer").x_train[0, 0], tall[32:160])


def test_an_unreadable_image_is_named_and_skipped_only_when_asked(root: Path) -> None:
    write_alzheimer(root, 128, 128)
    folder = root / "alzheimer-mri" / "train"
    whole = folder / KINDS[1] / "001.png"
    cut, text_file = folder / KINDS[1] / "cut.png", folder / KINDS[3] / "text.jpg"
    cut.write_bytes(whole.read_bytes()[:1000])
    text_file.write_text("not an image")
    text = message(lambda: load("alzheimer"))
    assert text.startswith(f"{cut}: not a readable image") and digest(cut.read_bytes()) in text
    with pytest.warns(UserWarning, match=f"2 unreadable .* left out: {cut}, {text_file}"):
        data = load("alzheimer", skip_unreadable=True)
    assert len(data.x_train) == 8 and data.y_train.sum() == 6
    assert np.array_equal(data.x_train[6, 0], noise(2, 128, 128, seed=3)[0])


def test_a_class_folder_that_is_missing(root: Path) -> None:
    write_alzheimer(root, 128, 128)
    (root / "alzheimer-mri" / "test" / KINDS[2]).rename(root / "elsewhere")
    text = "alzheimer: the test split must be one with images of every class of the task; got none of ModerateDemented"
    assert message(lambda: load("alzheimer")) == text


def test_imagenet1_knows_the_dogs(root: Path) -> None:
    dogs, others = ("n02085620", "n02102040", "n02113978"), ("n01440764", "n02077923", "n02114367", "n02115641")
    for i, part in enumerate(("train", "val")):
        for j, wnid in enumerate((*dogs, *others)):
            write_images(root / "imagenet" / part / wnid, *noise(5, 16, 16, 3, seed=10 * i + j))
    data = load("imagenet1", size=16)
    assert data.x_train.shape == (35, 3, 16, 16) and data.y_train.tolist() == [True] * 15 + [False] * 20
    assert data.x_test[4, 2, 3, 5] == noise(5, 16, 16, 3, seed=10)[4, 3, 5, 2]
    few, again, other = (load("imagenet1", size=16, per_class=2, seed=seed) for seed in (0, 0, 1))
    assert few.y_train.tolist() == [True] * 6 + [False] * 8 and len(few.x_test) == 35
    assert np.array_equal(few.x_train, again.x_train) and not np.array_equal(few.x_train, other.x_train)
    assert "per_class must be a whole number ≥ 1; got 0" in message(lambda: load("imagenet1", per_class=0))


def write_fastai(root: Path, name: str, classes: Sequence[str], *, seed: int) -> None:
    for i, part in enumerate(("train", "val")):
        for j, wnid in enumerate(classes):
            write_images(root / name / part / wnid, *noise(1, 64, 64, 3, seed=seed + 10 * i + j))


def test_imagenet2_goes_by_membership_and_one_resolution(root: Path) -> None:
    from pucl.data.imagenette import IMAGENETTE, IMAGEWOOF

    write_fastai(root, "imagewoof2-64", IMAGEWOOF, seed=0)
    write_fastai(root, "imagenette2-160", IMAGENETTE, seed=100)
    text = message(lambda: load("imagenet2"))
    assert "must have the same resolution, found imagewoof2-64, imagenette2-160" in text
    (root / "imagenette2-160").rename(root / "imagenette2-64")
    data = load("imagenet2")
    assert data.y_train.tolist() == [True] * 10 + [False] * 10
    assert (data.positive, data.negative) == ("Imagewoof", "Imagenette")
    dingo, springer = IMAGEWOOF.index("n02115641"), 10 + IMAGENETTE.index("n02102040")
    assert data.y_train[dingo] and not data.y_train[springer]
    assert np.array_equal(data.x_train[springer], noise(1, 64, 64, 3, seed=101)[0].transpose(2, 0, 1))


# The real files, where PUCL_DATA holds them


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "stl10", "svhn"])
def test_real_checksums(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_DATA", str(REAL))
    source = get_source(name)
    if source.missing():
        pytest.skip(f"{source.missing()[0]} is not in {source.folder}")
    assert source.damage() == () and prepare(source) is False
