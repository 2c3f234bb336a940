"""Whether π can be known: estimates where simulated classes separate, bounds where they overlap or look alike."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.numerics.auc import auc
from pucl.priors import PriorEstimate
from pucl.priors.bbe import bbe
from pucl.ranking.purity import told_apart
from pucl.ranking.separability import FEWEST, plausible_share, separates

PRIOR = 0.3
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def scores(gap: float, *, seed: int = 0, n_p: int = 200, n_u: int = 1500) -> tuple[Floats, Bools, float]:
    """Scores of two Gaussians `gap` standard deviations apart, s, and the share of positives in U."""
    r = np.random.default_rng(seed)
    s = np.arange(n_p + n_u) < n_p
    y = s | (r.random(n_p + n_u) < PRIOR)
    return r.normal(size=n_p + n_u) + gap * y, s, float(y[~s].mean())


def look_alikes(share: float, *, seed: int = 0) -> tuple[NDArray[np.float32], Bools]:
    """Rows whose first column separates the classes but for a share of U: negatives that differ in the second only."""
    r = np.random.default_rng(seed)
    s = np.arange(1000) < 200
    kind = np.where(s, 0, r.choice(3, size=1000, p=[PRIOR, 1 - PRIOR - share, share]))
    x = r.normal(size=(1000, 3))
    x[:, 0] += 5.0 * (kind != 1)
    x[:, 1] += 3.0 * (kind == 2)
    return x.astype(np.float32), s


def shuffled(*arrays: Any, seed: int = 0) -> list[Any]:
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    return [array[order] for array in arrays]


@pytest.mark.parametrize("gap", [4.0, 5.0])
def test_classes_far_apart_give_an_estimate_that_holds_the_share(gap: float) -> None:
    estimates = held = 0
    for seed in range(20):
        score, s, truth = scores(gap, seed=seed)
        found = plausible_share(score, s, seed=seed)
        assert found.low <= found.value <= found.high < 0.4 and found.method == "bbe"
        estimates += not found.is_bound and found.low > 0.2
        held += found.low <= truth <= found.high
    assert estimates >= 18 and held >= 18


@pytest.mark.parametrize(("gap", "n_p"), [(2.5, 60), (4.0, 60), (4.0, 200)])
def test_most_of_u_positive_is_bounded_too(gap: float, n_p: int) -> None:
    """The smallest of many ratios is too small. The ends of samples drawn again repeat that: they held in 24 of 40."""
    held, r = 0, np.random.default_rng(1)
    for seed in range(40):
        s = np.arange(n_p + 1500) < n_p
        y = s | (r.random(n_p + 1500) < 0.6)
        found = plausible_share(r.normal(size=len(s)) + gap * y, s, seed=seed)
        held += y[~s].mean() <= found.high
    assert held >= 34


def test_a_share_well_below_the_smallest_ratio_is_not_bounded_more_loosely() -> None:
    score, s, _ = scores(1.0)
    p, u, draw = np.sort(score[s]), np.sort(score[~s]), np.random.default_rng(0)
    value = bbe(p, u).value
    again = [bbe(draw.choice(p, len(p)), draw.choice(u, len(u))).value for _ in range(60)]
    assert plausible_share(score, s, seed=0).high == pytest.approx(np.quantile([*again, value], 0.95))


def test_overlapping_classes_give_a_bound_that_holds() -> None:
    held = 0
    for seed in range(20):
        score, s, truth = scores(1.0, seed=seed)
        found = plausible_share(score, s, seed=seed)
        assert found.is_bound and found.low == 0 and found.value == found.high
        held += truth <= found.high
    assert held >= 19


def test_classes_that_are_the_same_are_bounded_by_nearly_one() -> None:
    score, s, _ = scores(0.0)
    found = plausible_share(score, s)
    assert found.is_bound and found.high > 0.9


def test_few_labelled_rows_cannot_show_that_classes_separate() -> None:
    for seed in range(5):
        assert plausible_share(*scores(6.0, n_p=FEWEST - 1, seed=seed)[:2]).is_bound
        assert not plausible_share(*scores(6.0, n_p=2 * FEWEST, seed=seed)[:2]).is_bound


@pytest.mark.parametrize("n_p", [3, 10])
def test_very_few_labelled_rows_bound_the_share_too(n_p: int) -> None:
    """Positives score below the lowest of a few labelled ones; samples drawn again from these never do."""
    held = 0
    for seed in range(50):
        score, s, truth = scores(6.0, n_p=n_p, n_u=300, seed=seed)
        held += truth <= plausible_share(score, s, seed=seed).high
    assert held >= 45


def test_an_estimate_is_kept_where_the_scores_separate_and_only_its_name_elsewhere() -> None:
    score, s, _ = scores(5.0)
    own, theirs = plausible_share(score, s), PriorEstimate(0.29, 0.0, 1.0, "theirs")
    kept = plausible_share(score, s, theirs)
    assert kept == PriorEstimate(0.29, own.low, own.high, "theirs") and own.value == bbe(score[s], score[~s]).value
    outside = plausible_share(score, s, PriorEstimate(0.05, 0.0, 1.0, "theirs"))
    assert outside.low == outside.value == 0.05, "the interval holds the estimate"
    score, s, _ = scores(1.0)
    assert plausible_share(score, s, theirs) == PriorEstimate.bound(plausible_share(score, s).high, "theirs")


def test_what_separates_is_what_the_formulae_say() -> None:
    """300 of 1,000 rows of U score as P does, the rest lower: AUC 0.85, and 0.3 of U above any score of P."""
    p, u = np.linspace(1, 2, 100), np.concatenate([np.linspace(1, 2, 300), np.zeros(700)])
    area, error = auc(p, u)
    assert area == pytest.approx(0.85, abs=0.002)
    for low in (0.0, 0.1, 0.2, 0.23, 0.25, 0.3, 0.5, 0.7):
        cut = np.sort(p)[19]  # 81 of 100 rows of P lie at it or above
        clear = (area - error - low / 2) / (1 - low) >= 0.9
        pure = low / ((u >= cut).mean() / 0.81) >= 0.8
        assert separates(p, u, low) == (clear and pure), low
    assert separates(p, u, 0.3) and not separates(p, u, 0.2) and not separates(p, u, 1.0)
    assert not separates(p[: FEWEST - 1], u, 0.3)
    assert separates(p, u - 5, 0.0), "not one row of U scores as P does"


def test_the_order_of_the_rows_does_not_matter() -> None:
    for gap in (1.0, 4.0):
        score, s, _ = scores(gap)
        assert plausible_share(*shuffled(score, s)) == plausible_share(score, s)


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    score, s, truth = scores(5.0)
    monkeypatch.setattr("pucl.ranking.separability.MAX_ROWS", 150)
    found = plausible_share(score, s)
    assert found.low <= truth <= found.high and found.high - found.low > 0.05
    assert plausible_share(*shuffled(score, s)) == found


@pytest.mark.parametrize("seed", [0, 1])
def test_negatives_that_look_positive_are_seen_in_another_column(seed: int) -> None:
    x, s = look_alikes(0.2, seed=seed)
    score = x[:, 0].astype(float)
    assert told_apart(x, score, s, seed=seed)
    assert plausible_share(score, s, rows=x, seed=seed).is_bound
    blind = plausible_share(score, s, seed=seed)
    assert not blind.is_bound and blind.low > PRIOR, "from the scores alone nobody can know"


@pytest.mark.parametrize("seed", [0, 2])
def test_a_class_cut_out_of_a_count_is_bounded(seed: int) -> None:
    """The most frequent tenth of noisy counts: the share of positives falls from the highest scores on."""
    r = np.random.default_rng(seed)
    x = r.normal(size=6000)
    count = r.poisson(np.exp(4 + 1.5 * x) * r.gamma(4, 0.25, 6000))
    y = count > np.quantile(count, 0.9)
    s = np.zeros(6000, dtype=bool)
    s[r.permutation(np.flatnonzero(y))[:250]] = True
    noise = r.normal(size=(6000, 2)).astype(np.float32)
    assert told_apart(noise, x, s), "by the score, where columns say nothing"
    blind, found = plausible_share(x, s), plausible_share(x, s, rows=noise)
    assert not blind.is_bound and blind.value > 1.4 * y[~s].mean()
    assert found.is_bound and found.low == 0.0


@pytest.mark.parametrize("seed", [0, 1])
def test_positives_alone_are_not_told_apart(seed: int) -> None:
    x, s = look_alikes(0.0, seed=seed)
    score = x[:, 0].astype(float)
    assert not told_apart(x, score, s, seed=seed)
    assert plausible_share(score, s, rows=x, seed=seed) == plausible_share(score, s, seed=seed)


def test_order_scale_and_other_rows_do_not_tell_apart() -> None:
    x, s = look_alikes(0.2)
    score = x[:, 0].astype(float)
    assert told_apart(*shuffled(x, score, s))
    assert told_apart(1000 * x + 5, np.exp(score), s)
    x[score < 2] = 99.0  # what lies outside of the region of high scores is not looked at
    assert told_apart(x, score, s)


def test_too_few_high_scores_tell_nothing() -> None:
    x, s = look_alikes(0.2)
    score = x[:, 0].astype(float)
    kept = np.concatenate([np.flatnonzero(s)[:9], np.flatnonzero(~s)])
    assert not told_apart(x[kept], score[kept], s[kept])
    score[~s & (np.cumsum(~s & (score > 2)) > 9)] = -9.0  # nine rows of U are left in it
    assert not told_apart(x, score, s)
