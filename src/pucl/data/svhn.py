"""SVHN: house numbers from street views, 32 × 32 colour pictures; 73,257 to train, 26,032 to test."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from pucl.data import Dataset
from pucl.data.readers.mat import read_svhn
from pucl.data.sources import get_source
from pucl.data.tasks import binary_task
from pucl.registry import register


@register("datasets", reference="sec:add_exp", inputs=("image",))
def svhn1(*, seed: int = 0) -> Dataset:
    """SVHN-I: even digits (0, 2, 4, 6, 8) against odd ones; prior 0.46."""
    path = get_source("svhn").path
    train, test = read_svhn(path("train_32x32.mat")), read_svhn(path("test_32x32.mat"))
    return binary_task("svhn1", tuple("0123456789"), tuple("02468"), tuple("13579"), train=train, test=test)
