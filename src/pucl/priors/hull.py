"""Distance in a kernel's space from a signed combination of points to the convex hull of the points."""

from collections.abc import Callable

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpstrf

from pucl.priors.samples import Array

RESIDUAL = 1e-10  # of the diagonal of the kernel, left out of its factor
LOW_RANK = 0.35  # a factor of fewer columns than this share of n makes a step cheaper
JITTER, TOLERANCE = 1e-11, 1e-10  # added to the diagonal of what is factored; of signs, for what rounding leaves
PATIENCE, MAX_GUESSES = 5, 100  # guesses in a row that may be no better; in all
Mask = NDArray[np.bool_]
Solver = Callable[[Array], Array]


class KernelHull:
    """The convex hull of n points, given by their kernel matrix (n, n).

        d(u)² = min_v (u − v)ᵀ K (u − v),   v ≥ 0,   Σ v = 1

    solved for one u after the other. K is factored once as K ≈ L Lᵀ by a pivoted Cholesky decomposition. Where L (n, r)
    is narrow, an interior-point method takes O(n r²) a step. Elsewhere the points with v > 0 are guessed and corrected
    (`_by_support`): near a u that was solved before, this takes a few factors of a part of K.
    """

    def __init__(self, kernel: Array) -> None:
        self.kernel = kernel
        factor, pivots, rank, _ = dpstrf(kernel, lower=1, tol=RESIDUAL)
        self.factor: Array | None = None
        if rank < LOW_RANK * len(kernel):
            self.factor = np.empty((len(kernel), rank))
            self.factor[pivots - 1] = np.tril(factor)[:, :rank]

    def distance(self, u: Array, start: Mask | None = None) -> tuple[float, Mask]:
        """d(u), for weights u (n,) that sum to one, and the points with v > 0, (n,).

        Args:
            u: the weights.
            start: points that may have v > 0, such as those of a similar u; where u > 0 when not given.
        """
        v = self._by_support(u, u > 0 if start is None else start) if self.factor is None else None
        v = self._by_interior_point(u) if v is None else v
        off = u - v
        return float(np.sqrt(max(float(off @ self._times(off)), 0.0))), v > 0

    def _by_support(self, u: Array, support: Mask) -> Array | None:
        """The weights v by guesses of the points F with v > 0; None where that does not come to an end.

            K_FF v_F = (K u)_F + level,   Σ v_F = 1

        A point of F with v < 0 leaves it, and one outside with (K v − K u − level)_i < 0 enters; when there is neither,
        v is the solution. All of them change sides at once; the last one alone where their number does not fall
        (Portugal, Júdice and Vicente 1994).
        """
        goal, fewest, patience = self.kernel @ u, len(u) + 1, PATIENCE
        for _ in range(MAX_GUESSES):
            f = np.flatnonzero(support)
            part = self.kernel[np.ix_(f, f)]
            part[np.diag_indices_from(part)] += JITTER
            try:
                factor = cho_factor(part, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:  # points too near to one another
                return None
            to_goal, to_ones = cho_solve(factor, np.stack([goal[f], np.ones(len(f))], axis=1), check_finite=False).T
            level = (1 - to_goal.sum()) / to_ones.sum()
            v = np.zeros(len(u))
            v[f] = to_goal + level * to_ones
            wrong = np.where(support, v < 0, self.kernel[:, f] @ v[f] - goal - level < -TOLERANCE)
            count = int(wrong.sum())
            if count == 0:
                return v
            patience = PATIENCE if count < fewest else patience - 1
            fewest = min(count, fewest)
            if patience < 0:
                wrong[: wrong.nonzero()[0][-1]] = False
            support = support ^ wrong
        return None

    def _by_interior_point(self, u: Array, *, tolerance: float = 1e-9, max_iter: int = 100) -> Array:
        """The weights v by a primal-dual method with Mehrotra's predictor and corrector, d² to `tolerance`."""
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
        return v

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
