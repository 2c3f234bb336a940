"""DEDPUL: the density ratio of P to U along the score, made smooth, then EM for the share it explains."""

from bisect import bisect_left, insort
from typing import Any

import numpy as np

from pucl.errors import check_positive
from pucl.priors import PriorEstimate
from pucl.priors.samples import Array, check_scores
from pucl.registry import register

SMALL = 1e-5  # keeps logits and ratios finite
LARGEST_RATIO = 50.0
FIRST_WINDOW, LAST_WINDOW = 5, 20  # half-windows of the two medians: 5 rows, then n_U / 20
GRID = np.arange(0, 1, 1e-3)
GAP = 0.05  # largest difference between a share and the mean posterior on the grid
PAIRS = 20_000_000  # more pairs of scores than this are smoothed on a grid


@register("priors", reference="Ivanov 2020", inputs=("probability",))
def dedpul(
    positive: Any, unlabelled: Any, *, bandwidth_positive: float = 0.1, bandwidth_unlabelled: float = 0.05
) -> PriorEstimate:
    """The share of positives at which mean posterior and prior agree.

        r_i = f_P(t_i) / f_U(t_i),   i ∈ U,   t = logit(1 − score)
        π̂ = 1 − a,   a = mean_i max(0, 1 − (1 − a) r_i)

    where f_P and f_U are Gaussian kernel densities of t with bandwidths in units of the standard deviation. r is cut
    at 50, smoothed by a running median of 11 rows, made monotone on the side of P (below the middle of the two means),
    smoothed by one of n_U/10 rows and sorted. The fixed point a is reached by EM from a = 0; where there is none, a is
    the sharpest bend of the gap between the two sides.

    Args:
        positive: probabilities of being labelled, of labelled positives (n_P,).
        unlabelled: the same of unlabelled rows (n_U,).
        bandwidth_positive: of f_P.
        bandwidth_unlabelled: of f_U.
    """
    check_positive("dedpul", "bandwidth_positive", bandwidth_positive)
    check_positive("dedpul", "bandwidth_unlabelled", bandwidth_unlabelled)
    p, u = check_scores("dedpul", positive, unlabelled, probability=True, spread=True)
    p, u = np.sort(1 - p), np.sort(1 - u)
    t_p, t_u = _logit(p), _logit(u)
    spread = float(np.concatenate([t_p, t_u]).std(ddof=1))  # stands in for a sample whose scores are all equal
    f_p = _density(t_p, t_u, bandwidth_positive * (_std(t_p) or spread))
    f_u = _density(t_u, t_u, bandwidth_unlabelled * (_std(t_u) or spread))
    slope = u * (1 - u) + SMALL  # from densities of t to densities of the score
    ratio = np.minimum((f_p / slope) / (f_u / slope + SMALL), LARGEST_RATIO)
    ratio = running_median(ratio, FIRST_WINDOW)
    low = u <= (u.mean() + p.mean()) / 2
    ratio[low] = np.maximum.accumulate(ratio[low][::-1])[::-1]
    return PriorEstimate.point(1 - _negatives(np.sort(running_median(ratio, len(u) // LAST_WINDOW))), "dedpul")


def running_median(values: Array, half: int) -> Array:
    """Medians over centred windows of 2 · half + 1, shrunk at either end so that they stay centred."""
    n, result = len(values), np.empty(len(values))
    window: list[float] = []
    start = stop = 0  # the window holds values[start:stop], sorted
    for i in range(n):
        reach = min(half, i, n - 1 - i)
        while stop < i + reach + 1:
            insort(window, values[stop])
            stop += 1
        while start < i - reach:
            del window[bisect_left(window, values[start])]
            start += 1
        result[i] = window[reach]
    return result


def _negatives(ratio: Array) -> float:
    """The share a of negatives in U, from ascending ratios (n,)."""
    total = np.r_[0.0, np.cumsum(ratio)]

    def mean_posterior(share: Array) -> Array:
        left = np.searchsorted(ratio, 1 / (1 - share))  # rows whose posterior of being negative is above 0
        return np.asarray((left - (1 - share) * total[left]) / len(ratio))

    # Ratios all below 1 are noise around π = 1, unless P hardly occurs in U at all.
    stays = ratio.mean() >= 0.5
    share = 0.0
    for _ in range(1000):
        mean = float(mean_posterior(np.array(share)))
        if abs(mean - share) < SMALL or (stays and (1 - share) * ratio[-1] < 1):
            break
        share = min(mean, 1 - 1e-9)
    gap = mean_posterior(GRID) - GRID
    near = gap[1:-1] < GAP
    bend = float(GRID[1:-1][near][np.argmax(np.diff(gap, 2)[near])]) if near.any() else 1.0
    converged = bend >= share or ((gap < 0).sum() > 1 and share < 1 - 1e-3)
    return share if converged else bend


def _logit(probability: Array) -> Array:
    return np.asarray(np.log((probability + 1e-7) / (1 - probability + SMALL)))


def _std(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _density(sample: Array, at: Array, width: float) -> Array:
    """Gaussian kernel density of a sorted sample; of large ones on a grid of a twentieth of the bandwidth."""
    norm = len(sample) * width * np.sqrt(2 * np.pi)
    if len(sample) * len(at) <= PAIRS:
        blocks = np.array_split(at, 1 + len(sample) * len(at) // 1_000_000)
        sums = [np.exp(-0.5 * ((block[:, None] - sample) / width) ** 2).sum(1) for block in blocks]
        return np.asarray(np.concatenate(sums) / norm)
    step = width / 20
    first = min(sample[0], at[0])
    place = (sample - first) / step
    left = place.astype(np.int64)
    size = int((max(sample[-1], at[-1]) - first) / step) + 2
    mass = np.bincount(left, 1 - (place - left), size) + np.bincount(left + 1, place - left, size)
    kernel = np.exp(-0.5 * (np.arange(-160, 161) / 20) ** 2)
    smooth = np.convolve(mass, kernel)[160:-160]
    return np.asarray(np.interp(at, first + step * np.arange(size), smooth) / norm)
