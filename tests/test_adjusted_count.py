"""Adjusted counting: π from scores of P, U and confirmed negatives, where BBE cannot know it."""

from typing import Any

import numpy as np
import pytest

from pucl.errors import InputError
from pucl.priors.adjusted_count import adjusted_count, negatives_look_random
from pucl.priors.bbe import bbe

Samples = tuple[Any, Any, Any]


def overlapping(seed: int, *, gap: float = 1.0, prior: float = 0.1, n_u: int = 3000) -> Samples:
    """Scores of 100 positives, of U and of 200 negatives: two Gaussians `gap` standard deviations apart."""
    r = np.random.default_rng(seed)
    return r.normal(gap, 1, 100), r.normal(gap * (r.random(n_u) < prior), 1), r.normal(0, 1, 200)


def slow_sweep(p: Any, u: Any, n: Any) -> float:
    """The median over every score of P and N as a threshold, one at a time."""
    values, margins = [], []
    for cut in np.unique(np.concatenate([p, n])):
        r, q, f = (float((scores >= cut).mean()) for scores in (p, u, n))
        margins.append(r - f)
        values.append((q - f) / (r - f) if r > f else np.nan)
    kept = [v for v, m in zip(values, margins, strict=True) if m > 0 and m >= min(0.25, max(margins) / 2)]
    return float(np.clip(np.median(kept), 0, 1))


@pytest.mark.parametrize("gap", [0.4, 1.0, 3.0])
def test_it_is_the_median_over_all_thresholds(gap: float) -> None:
    p, u, n = overlapping(1, gap=gap)
    p, n = p[:60], n[:90]  # few enough that every score is a threshold
    assert adjusted_count(p, u, n).value == pytest.approx(slow_sweep(p, u, n), abs=1e-12)
    assert adjusted_count(np.exp(p), np.exp(u), np.exp(n)).value == adjusted_count(p, u, n).value  # ranks alone count


@pytest.mark.parametrize("prior", [0.1, 0.5])
def test_overlapping_classes_are_no_bias(prior: float) -> None:
    """One draw has a standard deviation of 0.06 here, the error of 200 negatives; the mean of 30 shows the bias."""
    draws = [overlapping(seed, prior=prior) for seed in range(30)]
    ours = [adjusted_count(*draw) for draw in draws]
    assert abs(np.mean([estimate.value for estimate in ours]) - prior) < 0.03
    assert np.mean([bbe(p, u).value for p, u, _ in draws]) > prior + 0.1
    inside = [estimate.low <= prior <= estimate.high for estimate in ours]
    assert np.mean(inside) >= 0.8 and np.mean([e.high - e.low for e in ours]) < 0.3


def test_more_rows_narrow_the_interval() -> None:
    p, u, n = (np.tile(scores, 4) for scores in overlapping(0))
    few, many = adjusted_count(*overlapping(0)), adjusted_count(p, u, n)
    assert many.high - many.low < 0.7 * (few.high - few.low)
    assert adjusted_count(*overlapping(0), seed=3) == adjusted_count(*overlapping(0), seed=3)


def test_scores_that_tell_nothing() -> None:
    same = np.arange(50.0)
    for negative in (same, same + 100):  # no better than chance, or upside down
        estimate = adjusted_count(same, same, negative)
        assert (estimate.value, estimate.low, estimate.high, estimate.method) == (0.5, 0, 1, "adjusted_count")
    assert adjusted_count([1.0], [1.0, 0.0], [0.0]).value == 0.5
    assert adjusted_count([1.0, 1.0], [0.0] * 5, [0.0, 0.0]).value == 0
    assert adjusted_count([1.0, 1.0], [1.0] * 5, [0.0, 0.0]).value == 1


def test_a_random_sample_looks_like_one() -> None:
    assert np.mean([negatives_look_random(*overlapping(seed)) for seed in range(30)]) > 0.9
    p, u, n = overlapping(0, gap=2.0)
    assert negatives_look_random(p, u, n[:10]) and not negatives_look_random(p, u, n[:9])  # too few to tell


@pytest.mark.parametrize("gap", [1.0, 2.0])
def test_negatives_that_were_looked_at_because_they_scored_high(gap: float) -> None:
    for seed in range(10):
        p, u, _ = overlapping(seed, gap=gap)
        easy_and_hard = np.random.default_rng(seed).normal(0, 1, 1000)
        assert adjusted_count(p, u, np.sort(easy_and_hard)[-200:]).value < 0.05  # as wrong as it is sure
        assert not negatives_look_random(p, u, np.sort(easy_and_hard)[-200:])
    assert not negatives_look_random(p, u, p + 1)  # negatives above the positives


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"negative": []}, "adjusted_count: negative must be a vector"),
        ({"unlabelled": [0.0, np.nan]}, "adjusted_count: unlabelled must be finite"),
        ({"confidence": 1.0}, "adjusted_count: confidence must be"),
        ({"replicates": 1}, "adjusted_count: replicates must be"),
        ({"seed": -1}, "adjusted_count: seed must be"),
    ],
)
def test_wrong_arguments(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        adjusted_count(**{"positive": [1.0], "unlabelled": [0.0, 1.0], "negative": [0.0], **changed})
