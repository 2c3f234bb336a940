"""Distance in a kernel's space from a signed combination of points to the convex hull of the points."""

from collections.abc import Callable

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpstrf

from pucl.priors.samples import Array

RESIDUAL = 1e-10  # of the diagonal of the kernel, left out of its factor
LOW_RANK = 0.35  # a factor of fewer columns than this share of n makes a step cheaper
Solver = Callable[[Array], Array]


class KernelHull:
    """The convex hull of n points, given by their kernel matrix (n, n).

        d(u)² = min_v (u − v)ᵀ K (u − v),   v ≥ 0,   Σ v = 1

    solved by a primal-dual interior-point method with Mehrotra's predictor and corrector. K is factored once as
    K ≈ L Lᵀ by a pivoted Cholesky decomposition; where L (n, r) is narrow, a step costs O(n r²) instead of O(n³).
    """

    def __init__(self, kernel: Array) -> None:
        self.kernel = kernel
        factor, pivots, rank, _ = dpstrf(kernel, lower=1, tol=RESIDUAL)
        self.factor: Array | None = None
        if rank < LOW_RANK * len(kernel):
            self.factor = np.empty((len(kernel), rank))
            self.factor[pivots - 1] = np.tril(factor)[:, :rank]

    def distance(self, u: Array, *, tolerance: float = 1e-9, max_iter: int = 100) -> float:
        """d(u), for weights u (n,) that sum to one; `tolerance` bounds the error of d²."""
        n, goal = len(u), self._times(u)
        v, slack, level = np.full(n, 1 / n), np.ones(n), 0.0
        for _ in range(max_iter):
            dual, primal, gap = self._times(v) - goal - level - slack, v.sum() - 1, v @ slack
            if gap < tolerance / 2 and np.abs(dual).max() < tolerance and abs(primal) < tolerance:
                break
            try:
                solve = self._solver(slack / v)
            except LinAlgError:  # as close as floating point lets it come
                break
            ones = solve(np.ones(n))
            d_v, d_slack, _ = _newton(solve, ones, v, slack, dual, primal, np.zeros(n))
            size = min(_longest(v, d_v), _longest(slack, d_slack))
            centre = ((v + size * d_v) @ (slack + size * d_slack) / gap) ** 3 * gap / n
            d_v, d_slack, d_level = _newton(solve, ones, v, slack, dual, primal, centre - d_v * d_slack)
            size = 0.995 * min(_longest(v, d_v), _longest(slack, d_slack))
            v, slack, level = v + size * d_v, slack + size * d_slack, level + size * d_level
        off = u - v
        return float(np.sqrt(max(off @ self._times(off), 0.0)))

    def _times(self, weights: Array) -> Array:
        return self.kernel @ weights if self.factor is None else self.factor @ (self.factor.T @ weights)

    def _solver(self, diagonal: Array) -> Solver:
        """Solves (K + diag) x = b, by the matrix inversion lemma where K has a narrow factor."""
        if self.factor is None:
            dense = cho_factor(self.kernel + np.diag(diagonal), lower=True, overwrite_a=True, check_finite=False)
            return lambda b: np.asarray(cho_solve(dense, b, check_finite=False))
        scaled = self.factor / diagonal[:, None]
        inner = self.factor.T @ scaled
        inner[np.diag_indices_from(inner)] += 1
        small = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
        return lambda b: np.asarray(b / diagonal - scaled @ cho_solve(small, scaled.T @ b, check_finite=False))


def _newton(
    solve: Solver, ones: Array, v: Array, slack: Array, dual: Array, primal: float, target: Array
) -> tuple[Array, Array, float]:
    """The step of v, slack and level towards v · slack = target and no residuals."""
    free = solve(target / v - slack - dual)
    d_level = float((-primal - free.sum()) / ones.sum())
    d_v = free + d_level * ones
    return d_v, target / v - slack - slack / v * d_v, d_level


def _longest(value: Array, step: Array) -> float:
    """The longest step within [0, 1] that keeps every value ≥ 0."""
    shrinking = step < 0
    return float(min(1.0, (-value[shrinking] / step[shrinking]).min(initial=1.0)))
