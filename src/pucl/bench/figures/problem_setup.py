"""The densities of a PU problem: what is labelled, what is not, and what nobody sees alone."""

import numpy as np
from numpy.typing import NDArray

from pucl.bench.figures.picture import Curve, Panel, Picture
from pucl.registry import register

PRIOR, SEPARATION = 0.4, 3.0


@register("figures", reference="fig:problem_setup", inputs=("vector",))
def problem_setup() -> Picture:
    """The densities p_P, p_N and p_U = π p_P + (1 − π) p_N of a problem in one dimension.

        p_U(x) = π p_P(x) + (1 − π) p_N(x)

    with Gaussians of unit variance, `SEPARATION` apart, and π = `PRIOR`. On the left is what a method sees, samples of
    p_P and p_U; on the right the parts of p_U, which nobody sees alone.
    """
    x = np.linspace(-5, 5, 201)
    p_p, p_n = _normal(x - SEPARATION / 2), _normal(x + SEPARATION / 2)
    p_u = PRIOR * p_p + (1 - PRIOR) * p_n
    seen = (_curve("p_P: labelled positives", x, p_p), _curve("p_U: unlabelled", x, p_u))
    parts = (
        _curve("p_U: unlabelled", x, p_u),
        _curve("π p_P: positives in U", x, PRIOR * p_p),
        _curve("(1 − π) p_N: negatives in U", x, (1 - PRIOR) * p_n),
    )
    panels = (_panel("what is seen", *seen), _panel("what U is made of", *parts))
    conditions = f"Gaussians of unit variance, {SEPARATION:g} apart, π = {PRIOR:g}; exact densities, no samples."
    return Picture("Positive-unlabelled learning: what is observed", conditions, panels, columns=2)


def _normal(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))


def _panel(title: str, *curves: Curve) -> Panel:
    return Panel(title, "feature x (standard deviations)", "density", curves, y_range=(0.0, 0.43))


def _curve(series: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> Curve:
    return Curve(series, tuple(x.tolist()), tuple(y.tolist()))
