"""The samples an estimator of π gets: checked scores (n,) or points (n, k) of P and of U."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument
from pucl.numerics.floats import place_of, power_near

Array = NDArray[np.float64]


def check_scores(
    owner: str, positive: Any, unlabelled: Any, *, probability: bool = False, spread: bool = False
) -> tuple[Array, Array]:
    """Both samples as vectors of finite numbers, or one error.

    Args:
        owner: who signs the errors.
        positive: scores of P (n_P,).
        unlabelled: scores of U (n_U,).
        probability: whether scores have to lie within [0, 1].
        spread: whether two scores at least have to differ.
    """
    p, u = check_sample(owner, "positive", positive, 1), check_sample(owner, "unlabelled", unlabelled, 1)
    for name, sample in (("positive", p), ("unlabelled", u)):
        outside = (sample < 0) | (sample > 1)
        if probability and outside.any():
            got = Described(f"a score of {sample[outside.argmax()]:g}")
            raise bad_argument(owner, name, "probabilities within [0, 1]", got)
    if spread:
        _check_spread(owner, p, u)
    return p, u


def check_points(owner: str, positive: Any, unlabelled: Any) -> tuple[Array, Array]:
    """Both samples as matrices (n, k) of finite numbers with the same k and two different rows, or one error.

    Numbers that are all tiny or huge come times a power of 2, see `in_range`: estimators look at ratios of distances.
    """
    p, u = check_sample(owner, "positive", positive, 2), check_sample(owner, "unlabelled", unlabelled, 2)
    if p.shape[1] != u.shape[1]:
        raise bad_argument(owner, "unlabelled", f"of {p.shape[1]} columns, as positive", Described(f"{u.shape[1]}"))
    _check_spread(owner, p, u)
    factors = power_near(max(float(np.abs(p).max()), float(np.abs(u).max())))
    return (p, u) if factors is None else (p * factors[0] * factors[1], u * factors[0] * factors[1])


def principal(p: Array, u: Array, dim: int) -> tuple[Array, Array]:
    """The rows of both samples on the first `dim` principal axes of their union; as they are when k ≤ `dim`."""
    if p.shape[1] <= dim:
        return p, u
    centre = np.concatenate([p, u]).mean(0)
    p, u = p - centre, u - centre
    axes = np.linalg.eigh(p.T @ p + u.T @ u)[1][:, ::-1][:, :dim]
    return p @ axes, u @ axes


def check_sample(owner: str, name: str, values: Any, ndim: int) -> Array:
    """One sample as finite float64 numbers of one (scores) or two (points) dimensions, or one error."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim or array.size == 0:
        allowed = "a vector (n,) with a score or more" if ndim == 1 else "a matrix (n, k) with a row or more"
        raise bad_argument(owner, name, allowed, Described(f"an array of shape {array.shape}"))
    finite = np.isfinite(array).reshape(len(array), -1).all(1)
    if not finite.all():
        row = int((~finite).argmax())
        got = Described(
            f"NaN or infinity in {int((~finite).sum())} rows, first {place_of(row, np.isfinite(array[row]))}"
        )
        raise bad_argument(owner, name, "finite", got)
    return array


def _check_spread(owner: str, p: Array, u: Array) -> None:
    if (p == p[0]).all() and (u == p[0]).all():
        kind = "scores" if p.ndim == 1 else "points"
        raise bad_argument(owner, kind, "at least two different ones", Described("all equal"))
