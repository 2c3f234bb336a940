"""Ranks, ties counting half: the area under the ROC curve with its standard errors, and Spearman's correlation."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def auc(above: Floats, below: Floats) -> tuple[float, float]:
    """The chance that a row of one set scores above a row of another, and the standard error of that estimate.

        Â = mean_i V_i = mean_j W_j,   V_i = P̂_j(a_i > b_j) + P̂_j(a_i = b_j)/2,   W_j likewise over i
        se² = var(V)/n_a + var(W)/n_b

    where V and W are the placements of the rows of each set in the other (DeLong et al. 1988).
    """
    v, w = _placement(above, below), 1 - _placement(below, above)
    return float(v.mean()), float(np.sqrt(v.var() / len(v) + w.var() / len(w)))


def null_error(n_above: float, n_below: float) -> float:
    """The standard error of the AUC when both sets have the same distribution.

    se₀² = (n_a + n_b + 1) / (12 n_a n_b), exact without ties and too large with them; sizes may be effective ones.
    """
    return float(np.sqrt((n_above + n_below + 1) / (12 * n_above * n_below)))


def weighted_auc(above: Floats, below: Floats, weight: Floats) -> float:
    """The AUC when the rows of the second set count by their weights."""
    order = np.argsort(below)
    total = np.concatenate([[0.0], np.cumsum(weight[order])])
    low = total[np.searchsorted(below[order], above, side="left")]
    high = total[np.searchsorted(below[order], above, side="right")]
    return float((low + high).mean() / (2 * total[-1]))


def spearman(a: Floats, b: Floats) -> float:
    """The correlation of the ranks of two vectors, ties having their mean rank; 0 when one of them is constant."""
    x, z = ranks(a), ranks(b)
    x, z = x - x.mean(), z - z.mean()
    scale = np.sqrt((x @ x) * (z @ z))
    return float(x @ z / scale) if scale > 0 else 0.0


def ranks(values: Floats) -> Floats:
    """The rank of every value, from 1 to n; equal values have their mean rank."""
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[index])


def _placement(of: Floats, among: Floats) -> Floats:
    """The share of `among` below each row of `of`, ties counting half."""
    others = np.sort(among)
    below, up_to = (np.searchsorted(others, of, side=side) for side in ("left", "right"))
    return np.asarray((below + up_to) / (2 * len(others)))


def auc_difference(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[float, float]:
    """By how much the AUC of one scorer exceeds that of another on the same rows, with its standard error.

        se² = var(V_first − V_second)/n_a + var(W_first − W_second)/n_b

    where V and W are the placements of `auc`, row by row, and each pair holds the scores of the two sets (a, b).
    """
    v, w = (_placement(first[side], first[1 - side]) - _placement(second[side], second[1 - side]) for side in (0, 1))
    return float(v.mean()), float(np.sqrt(v.var() / len(v) + w.var() / len(w)))
