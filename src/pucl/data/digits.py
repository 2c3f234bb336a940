"""Handwritten digits bundled with scikit-learn: odd against even, so each class has five modes."""

import numpy as np

from pucl.data import Dataset
from pucl.errors import check_share
from pucl.registry import register

POSITIVE = (1, 3, 5, 7, 9)


@register("datasets", reference="Alpaydin & Kaynak 1998; odd / even as in MNIST-I of sec:add_exp", inputs=("image",))
def digits(*, seed: int = 0, test_share: float = 0.3) -> Dataset:
    """1,797 grey digits of 8 × 8 pixels, odd against even; needs no download.

    The data have no official split: `test_share` of each digit is held out, drawn with `seed`.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    check_share("digits", "test_share", test_share)
    bunch = load_digits()
    x = (bunch.images[:, None] * (255 / 16)).round().astype(np.uint8)  # 0..16 in the file; (n, 1, 8, 8)
    y = np.isin(bunch.target, POSITIVE)
    target = bunch.target
    parts = train_test_split(x, y, target, test_size=test_share, stratify=target, random_state=seed)
    x_train, x_test, y_train, y_test, classes, _ = parts
    return Dataset("digits", "image", "odd", "even", x_train, y_train, x_test, y_test, classes_train=classes)
