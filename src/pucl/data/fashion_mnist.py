"""Fashion-MNIST: 70,000 grey pictures of clothes of 28 × 28 pixels; 60,000 to train, 10,000 to test."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from pucl.data import Dataset
from pucl.data.readers.idx import read_idx_split
from pucl.data.sources import get_source
from pucl.data.tasks import binary_task
from pucl.registry import register

CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
THREE = ("trouser", "coat", "sneaker")  # 1, 4, 7
SEVEN = ("T-shirt/top", "pullover", "dress", "sandal", "shirt", "bag", "ankle boot")  # 0, 2, 3, 5, 6, 8, 9


@register("datasets", reference="sec:add_exp", inputs=("image",))
def fmnist1(*, seed: int = 0) -> Dataset:
    """FMNIST-I: clothes 1, 4, 7 (trouser, coat, sneaker) against the other seven; prior 0.3."""
    return _task("fmnist1", THREE, SEVEN)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def fmnist2(*, seed: int = 0) -> Dataset:
    """FMNIST-II: clothes 0, 2, 3, 5, 6, 8, 9 against 1, 4, 7 (trouser, coat, sneaker); prior 0.7."""
    return _task("fmnist2", SEVEN, THREE)


def _task(name: str, positive: tuple[str, ...], negative: tuple[str, ...]) -> Dataset:
    source = get_source("fashion-mnist")
    train, test = read_idx_split(source, "train"), read_idx_split(source, "t10k")
    return binary_task(name, CLASSES, positive, negative, train=train, test=test)
