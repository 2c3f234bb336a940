"""Gaussian mixtures: a class of several modes with known truth, in any dimension."""

import numpy as np
from numpy.typing import NDArray

from pucl.data import Dataset
from pucl.errors import check_count, check_positive, check_share
from pucl.registry import register


@register("datasets", reference="eq:gmm", inputs=("table", "vector"))
def gaussians(
    *,
    seed: int = 0,
    n_train: int = 2000,
    n_test: int = 2000,
    dim: int = 2,
    modes: int = 3,
    separation: float = 6.0,
    prior: float = 0.5,
) -> Dataset:
    """Gaussians on a circle, several per class, positives and negatives taking turns.

    All have unit variance. The centres lie on a circle in the first two coordinates, neighbours `separation` standard
    deviations apart and of different classes: with two modes or more no straight line separates the classes.
    """
    check_count("gaussians", "n_train", n_train, low=4)
    check_count("gaussians", "n_test", n_test, low=2)
    check_count("gaussians", "dim", dim, low=2)
    check_count("gaussians", "modes", modes)
    check_positive("gaussians", "separation", separation)
    check_share("gaussians", "prior", prior)
    rng = np.random.default_rng(seed)
    centres = _circle(2 * modes, separation, dim)

    def draw(n: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        y = rng.permutation(np.arange(n) < round(prior * n))
        mode = 2 * rng.integers(modes, size=n) + ~y  # even centres are positive, odd ones negative
        x = centres[mode] + rng.standard_normal((n, dim))
        return x.astype(np.float32), y

    x_train, y_train = draw(n_train)
    x_test, y_test = draw(n_test)
    return Dataset("gaussians", "vector", "even modes", "odd modes", x_train, y_train, x_test, y_test)


def _circle(n: int, chord: float, dim: int) -> NDArray[np.float64]:
    """`n` points (n, dim) on a circle of the first two axes, neighbours `chord` apart."""
    angle = 2 * np.pi * np.arange(n) / n
    radius = chord / (2 * np.sin(np.pi / n))
    centres = np.zeros((n, dim))
    centres[:, 0], centres[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    return centres
