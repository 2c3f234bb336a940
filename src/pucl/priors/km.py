"""KM1 and KM2: how much of P can be removed from U before the rest is not a distribution, measured by a kernel."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from pucl.errors import check_count
from pucl.priors import PriorEstimate
from pucl.priors.hull import KernelHull
from pucl.priors.samples import Array, check_points, principal
from pucl.registry import register

WIDTHS = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)  # times the median distance
LARGEST, ACCURACY = 8.0, 0.04  # of λ
FIRST_STEP = 0.05  # from λ = 1, over which the first slope is taken
SMALL = 1500  # points up to which one thread is faster
STEEP = 0.9  # times the MMD: a slope KM1 could never reach


@register("priors", reference="Ramaswamy et al. 2016, KM1", inputs=("vector",))
def km1(positive: Any, unlabelled: Any, *, seed: int = 0, points: int = 2000, dim: int = 50) -> PriorEstimate:
    """Kernel mean estimate with a slope threshold that only depends on the sample size.

        d(λ) = min_{h ∈ hull} ‖λ μ_U + (1 − λ) μ_P − h‖,   λ̂ = sup{λ : d'(λ) ≤ ν}
        π̂ = (λ̂ − 1) / λ̂,   ν = 1 / √min(n_P, n_U)

    where μ_P and μ_U are the means of P and U in the space of a Gaussian kernel and the hull is that of all points.
    The width of the kernel is the one of {10⁻¹, 10^−½, 1, 10^½, 10} × the median distance that sets μ_P and μ_U
    furthest apart (the MMD); λ̂ comes from bisection in [1, 8] to 0.04. Where ν is above 0.9 MMD, KM2's is taken.

    Args:
        positive: labelled positives (n_P, k).
        unlabelled: unlabelled rows (n_U, k).
        seed: of the draw of `points`.
        points: most rows taken of each set.
        dim: most principal axes taken.
    """
    p, u = _draw("km1", positive, unlabelled, seed, points, dim)
    curve = KernelMeanCurve(p, u)
    slope = 1 / np.sqrt(min(len(p), len(u)))
    return PriorEstimate.point(curve.prior(slope if slope <= STEEP * curve.mmd else curve.relative_slope()), "km1")


@register("priors", reference="Ramaswamy et al. 2016, KM2", inputs=("vector",))
def km2(positive: Any, unlabelled: Any, *, seed: int = 0, points: int = 2000, dim: int = 50) -> PriorEstimate:
    """Kernel mean estimate with a slope threshold between the first and the last slope of the distance.

        d(λ) = min_{h ∈ hull} ‖λ μ_U + (1 − λ) μ_P − h‖,   λ̂ = sup{λ : d'(λ) ≤ ν}
        π̂ = (λ̂ − 1) / λ̂,   ν = 0.8 d'(1) + 0.2 ‖μ_P − μ_U‖

    where all is as in `km1`.

    Args:
        positive: labelled positives (n_P, k).
        unlabelled: unlabelled rows (n_U, k).
        seed: of the draw of `points`.
        points: most rows taken of each set.
        dim: most principal axes taken.
    """
    curve = KernelMeanCurve(*_draw("km2", positive, unlabelled, seed, points, dim))
    return PriorEstimate.point(curve.prior(curve.relative_slope()), "km2")


class KernelMeanCurve:
    """d(λ) of two samples, at the kernel width that tells them apart best."""

    def __init__(self, p: Array, u: Array) -> None:
        self.width, kernel = _widest_apart(p, u)
        self.u = np.r_[np.full(len(u), 1 / len(u)), np.zeros(len(p))]
        self.p = np.r_[np.zeros(len(u)), np.full(len(p), 1 / len(p))]
        self.mmd = float(np.sqrt(max((self.u - self.p) @ kernel @ (self.u - self.p), 0.0)))
        self.hull = KernelHull(kernel)
        self.solved = {1.0: (0.0, self.u > 0)}  # by λ: d and the points of the hull it needs; μ_U lies in the hull

    def distance(self, factor: float) -> float:
        """d(λ) at λ = `factor`; the search begins with the points that the next smaller λ needed."""
        if factor not in self.solved:
            start = self.solved[max(known for known in self.solved if known < factor)][1]
            self.solved[factor] = self.hull.distance(factor * self.u + (1 - factor) * self.p, start)
        return self.solved[factor][0]

    def relative_slope(self) -> float:
        """KM2's threshold; d(1) is 0, since μ_U itself lies in the hull."""
        return 0.8 * self.distance(1 + FIRST_STEP) / FIRST_STEP + 0.2 * self.mmd

    def prior(self, slope: float) -> float:
        """π from the λ at which d first rises by more than `slope`."""
        left, right, step = 1.0, LARGEST, ACCURACY / 2
        # Threads that wait for one another cost more than they save on small matrices.
        small = self.hull.factor is not None or len(self.hull.kernel) <= SMALL
        with threadpool_limits(1 if small else None, user_api="blas"):
            while right - left > ACCURACY:
                middle = (left + right) / 2
                if (self.distance(middle + step) - self.distance(middle)) / step > slope:
                    right = middle
                else:
                    left = middle
        return 1 - 2 / (left + right)


def _widest_apart(p: Array, u: Array) -> tuple[float, Array]:
    """The width of the largest MMD among the candidates, and its kernel matrix, rows of U first."""
    rows = np.concatenate([u, p])
    rows = rows - np.median(rows, axis=0)  # far from 0 the differences between rows would be lost to rounding
    square = (rows**2).sum(1)
    distance = np.maximum(square[:, None] + square - 2 * rows @ rows.T, 0)
    median = float(np.sqrt(np.median(distance) or distance.mean()))
    sign = np.r_[np.full(len(u), 1 / len(u)), np.full(len(p), -1 / len(p))]

    def kernel(width: float) -> Array:
        return np.asarray(np.exp(distance / (-2 * width**2)))

    best = max((factor * median for factor in WIDTHS), key=lambda width: float(sign @ kernel(width) @ sign))
    return best, kernel(best)


def _draw(owner: str, positive: Any, unlabelled: Any, seed: int, points: int, dim: int) -> tuple[Array, Array]:
    check_count(owner, "seed", seed, low=0)
    check_count(owner, "points", points, low=2)
    check_count(owner, "dim", dim)
    p, u = principal(*check_points(owner, positive, unlabelled), dim)
    random = np.random.default_rng(seed)
    p, u = (rows if len(rows) <= points else random.permutation(rows)[:points] for rows in (p, u))
    return p, u
