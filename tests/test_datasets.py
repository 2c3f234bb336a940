"""The official data sets: readers on small files in the official formats, the downloader, the real files if present."""

import gzip
import hashlib
import http.server
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.data import load
from pucl.data.download import fetch, prepare
from pucl.data.sources import SOURCES, Archive, File, Source, data_root, get_source
from pucl.errors import InputError, MissingDataError
from pucl.registry import entries

Bytes = NDArray[np.uint8]
REAL = data_root()  # before any test sets PUCL_DATA


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path))
    return tmp_path


def noise(*shape: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def message(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def digest(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def both_checksums(path: Path) -> str:
    """The pattern of an error that names a file of the table with its expected and its found checksum."""
    official = {file.name: file.md5 for source in SOURCES for file in source.files if source.folder == path.parent}
    return f"{re.escape(str(path))}: .*expected MD5 {official[path.name]}, found {digest(path.read_bytes())}"


# Writers of the official formats.


def idx(array: Bytes) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: Path, part: str, images: Bytes, labels: Sequence[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array(labels, np.uint8))))


def cifar_batch(pixels: Bytes, labels: Sequence[int]) -> bytes:
    """A batch as Python 2 pickled it (protocol 2), opcode by opcode as in the official files."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    number = struct.Struct("<cI").pack
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    kind = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN"
    kind += number(b"J", 0xFFFFFFFF) * 2 + b"K\x00tb"
    shape = b"".join(number(b"J", size) for size in pixels.shape) + b"\x86"
    state = b"(K\x01" + shape + kind + b"\x89" + number(b"T", pixels.size) + pixels.tobytes() + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + state + text(b"labels") + listed + b"u."


def write_cifar(root: Path, labels: Sequence[int] = range(10)) -> Bytes:
    """Five batches and a test batch with the same labels; the pixels of the first batch."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        (folder / name).write_bytes(cifar_batch(noise(len(labels), 3072, seed=seed), labels))
    return noise(len(labels), 3072)


def write_stl(root: Path) -> dict[str, Bytes]:
    """Ten images of each part, class k + 1 at row k; the images as they look, (n, 3, row, column)."""
    folder = root / "stl10_binary"
    folder.mkdir()
    images = {part: noise(10, 3, 96, 96, seed=seed) for seed, part in enumerate(("train", "test", "unlabeled"))}
    for part, x in images.items():
        columns_first = b"".join(x[i, c, :, j].tobytes() for i in range(10) for c in range(3) for j in range(96))
        (folder / f"{part}_X.bin").write_bytes(columns_first)
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(range(1, 11)))
    return images


def write_images(folder: Path, *images: Bytes) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for i, pixels in enumerate(images):
        image.fromarray(pixels).save(folder / f"{i:03}.png")


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
            assert known[task].inputs == ("image",) and len(known[task].summary) <= 100
            with pytest.raises(MissingDataError) as caught:
                load(task)
            text = str(caught.value)
            assert re.search(f"looked for (in )?{root}", text) and "set PUCL_DATA to the folder that holds" in text
            assert "run 'pucl data prepare " in text or "get it from https://" in text
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
        ("unlabeled_X.bin", b"\1" * 30_000, "30,000 bytes are no whole number of images of 27,648 bytes"),
        ("train_X.bin", b"", "0 bytes are no whole number"),
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
    assert message(lambda: load("alzheimer", size=0)) == "pucl.data: size must be a whole number ≥ 1; got 0"


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
    assert "must have one resolution, found imagewoof2-64, imagenette2-160" in text
    (root / "imagenette2-160").rename(root / "imagenette2-64")
    data = load("imagenet2")
    assert data.y_train.tolist() == [True] * 10 + [False] * 10
    assert (data.positive, data.negative) == ("Imagewoof", "Imagenette")
    dingo, springer = IMAGEWOOF.index("n02115641"), 10 + IMAGENETTE.index("n02102040")
    assert data.y_train[dingo] and not data.y_train[springer]
    assert np.array_equal(data.x_train[springer], noise(1, 64, 64, 3, seed=101)[0].transpose(2, 0, 1))


# The downloader, against a server on this machine

CONTENT = noise(700_000).tobytes()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; /short breaks off, /whole ignores ranges, /NAME serves a file of the server."""

    def do_GET(self) -> None:
        server: Any = self.server
        body = server.files.get(self.path, CONTENT)
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", "")) if self.path != "/whole" else None
        start = int(wanted[1]) if wanted else 0
        server.seen.append((self.path, start))
        if wanted and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start : start + 300_000] if self.path == "/short" else body[start:])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.seen, made.files = [], {}
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_fetch_reports_and_leaves_one_file(server: Any, tmp_path: Path) -> None:
    shares: list[float] = []
    fetch(f"{server.url}/a", tmp_path / "new" / "a", md5=digest(CONTENT), report=lambda _, share: shares.append(share))
    assert (tmp_path / "new" / "a").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_fetch_continues_after_a_break(server: Any, tmp_path: Path) -> None:
    target, part = tmp_path / "a", tmp_path / "a.part"
    for size in (300_000, 600_000):
        text = message(lambda: fetch(f"{server.url}/short", target, md5=digest(CONTENT)))
        assert f"the connection broke after {size:,} of 700,000 bytes; run again to continue" in text
        assert not target.exists() and part.stat().st_size == size
    fetch(f"{server.url}/short", target, md5=digest(CONTENT))
    assert target.read_bytes() == CONTENT and not part.exists()
    assert [start for _, start in server.seen] == [0, 300_000, 600_000]


@pytest.mark.parametrize(("where", "have"), [("/whole", CONTENT[:1000]), ("/a", CONTENT)])
def test_fetch_without_ranges_or_with_nothing_left(server: Any, tmp_path: Path, where: str, have: bytes) -> None:
    (tmp_path / "a.part").write_bytes(have)
    fetch(server.url + where, tmp_path / "a", md5=digest(CONTENT))
    assert (tmp_path / "a").read_bytes() == CONTENT and not (tmp_path / "a.part").exists()


def test_a_wrong_checksum_keeps_nothing(server: Any, tmp_path: Path) -> None:
    text = message(lambda: fetch(f"{server.url}/a", tmp_path / "a", md5="0" * 32))
    assert f"expected MD5 {'0' * 32}, found {digest(CONTENT)}" in text
    assert not any(tmp_path.iterdir())


def test_prepare_single_files(server: Any, root: Path) -> None:
    files = tuple(File(name, digest(CONTENT), f"{server.url}/{name}") for name in ("a", "b"))
    source = Source("mine", ("task",), "page", ("mine",), files)
    assert prepare(source) and not prepare(source)
    assert len(server.seen) == 2
    (root / "mine" / "b").write_bytes(b"damaged")
    assert prepare(source) and (root / "mine" / "b").read_bytes() == CONTENT
    assert [path for path, _ in server.seen] == ["/a", "/b", "/b"]


def packed(tmp_path: Path, folder: str) -> bytes:
    made = tmp_path / "made"
    for part in ("train", "val"):
        (made / folder / part).mkdir(parents=True)
    (made / folder / "file").write_bytes(CONTENT)
    with tarfile.open(made / "a.tgz", "w:gz") as tar:
        tar.add(made / folder, folder)
    return (made / "a.tgz").read_bytes()


@pytest.mark.parametrize("images", [True, False])
def test_prepare_an_archive(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: bool) -> None:
    root = tmp_path / "root"
    monkeypatch.setenv("PUCL_DATA", str(root))
    server.files["/a.tgz"] = packed(tmp_path, "mine-160")
    archive = Archive(f"{server.url}/a.tgz", digest(server.files["/a.tgz"]), "mine-160")
    files = () if images else (File("file", digest(CONTENT)),)
    source = Source("mine", ("task",), "page", ("mine-64", "mine-160"), files, ("train", "val") * images, archive)
    assert prepare(source) and not prepare(source) and len(server.seen) == 1
    assert [path.name for path in root.iterdir()] == ["mine-160"]
    assert (root / "mine-160" / "file").read_bytes() == CONTENT
    if images:
        (root / "mine-160" / "val").rmdir()
        assert "val is missing; move the folder away" in message(lambda: prepare(source))
    else:
        (root / "mine-160" / "file").write_bytes(b"damaged")
        assert prepare(source) and (root / "mine-160" / "file").read_bytes() == CONTENT


def test_an_archive_that_is_none(server: Any, root: Path) -> None:
    source = Source("mine", ("t",), "page", ("mine",), (), ("train",), Archive(f"{server.url}/a.tgz", None, "mine"))
    assert "cannot unpack it" in message(lambda: prepare(source))
    assert not any(root.iterdir())


# The command


def pucl(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    nowhere = "http://127.0.0.1:9"  # no network: every request goes to a closed port
    environment = {**os.environ, "PUCL_DATA": str(root), "http_proxy": nowhere, "https_proxy": nowhere, "no_proxy": ""}
    command = [sys.executable, "-m", "pucl", "data", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_data_list(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(tmp_path / "MNIST" / "raw", part, noise(10, 28, 28), range(10))
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(b"12345")
    run = pucl(tmp_path, "list", "--json")
    assert run.returncode == 0 and run.stderr == ""
    found = {row["name"]: row for row in json.loads(run.stdout)["datasets"]}
    assert list(found) == [source.name for source in SOURCES]
    assert found["mnist"]["state"] == "present" and found["mnist"]["bytes"] > 7000
    assert found["cifar10"]["state"] == "incomplete" and found["cifar10"]["bytes"] == 5
    assert found["svhn"]["state"] == "absent" and found["svhn"]["missing"] == ["train_32x32.mat", "test_32x32.mat"]
    table = pucl(tmp_path, "list")
    assert table.returncode == 0 and "cifar_medium" in table.stdout and "incomplete" in table.stdout


@pytest.mark.parametrize("name", ["svhn", "cifar1", "mnist", "imagenet2"])
def test_prepare_without_network_is_one_line(tmp_path: Path, name: str) -> None:
    run = pucl(tmp_path, "prepare", name)
    assert run.returncode == 2 and run.stdout == "" and run.stderr.count("\n") == 1
    assert "cannot fetch http" in run.stderr and "refused" in run.stderr
    assert not any(tmp_path.iterdir())


def test_prepare_names_a_damaged_file(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(tmp_path / "MNIST" / "raw", part, noise(10, 28, 28), range(10))
    run = pucl(tmp_path, "prepare", "mnist1")
    assert run.returncode == 2 and run.stderr.count("\n") == 1
    assert re.search("train-images-idx3-ubyte.gz: not the official file; expected MD5 f68b3c2d.*found", run.stderr)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cifar11", "unknown data set 'cifar11': did you mean 'cifar"),
        ("imagenet1", "get it from https://www.image-net.org/download.php or set PUCL_DATA"),
    ],
)
def test_prepare_what_cannot_be_had(tmp_path: Path, name: str, text: str) -> None:
    run = pucl(tmp_path, "prepare", name)
    assert run.returncode == 2 and run.stderr.count("\n") == 1 and text in run.stderr


def test_help_has_examples(tmp_path: Path) -> None:
    for words in (("--help",), ("list", "--help"), ("prepare", "-h")):
        run = pucl(tmp_path, *words)
        assert run.returncode == 0 and "Example: pucl data" in run.stdout
    assert "prepare" in pucl(tmp_path).stdout


# The real files, where PUCL_DATA holds them


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "stl10", "svhn"])
def test_real_checksums(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_DATA", str(REAL))
    source = get_source(name)
    if source.missing():
        pytest.skip(f"{source.missing()[0]} is not in {source.folder}")
    assert source.damage() == () and prepare(source) is False
