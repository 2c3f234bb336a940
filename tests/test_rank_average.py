"""Rankers whose ranks are averaged: weights, deadlines, and scores by models that did not see the row."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from pucl.errors import InputError
from pucl.numerics.auc import auc, null_error
from pucl.ranking.averaging import (
    MEMBERS,
    Member,
    Ranked,
    TableRows,
    averaged_score,
    deeper,
    depth_of,
    rank_all,
    rank_among,
    weighed,
)
from pucl.ranking.boosted_trees import fit_boosted
from pucl.ranking.trees import bag_of_trees

NAMES = [name for member in MEMBERS for name in member.names]
Floats = NDArray[np.float64]
every_member = pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.names[0])


def judged(
    area: float, error: float = 0.02, score: Sequence[float] = (), weight: float = 0.0, depth: Floats | None = None
) -> Ranked:
    return Ranked("any", "columns", None, np.array(score), area, error, weight, depth=depth)


def weights(*ranked: Ranked) -> list[float]:
    return [each.weight for each in weighed(ranked)]


def table(n_p: int, n_u: int, *, gap: float = 0.0, seed: int = 0, width: int = 4) -> TableRows:
    """So many labelled and unlabelled rows in random order; half of U and all of P are positives, `gap` higher."""
    r = np.random.default_rng(seed)
    s = r.permutation(n_p + n_u) < n_p
    y = s | (r.random(n_p + n_u) < 0.5)
    x = (r.normal(size=(n_p + n_u, width)) + gap * y[:, None]).astype(np.float32)
    return TableRows(x, (), x, s, None, seed)


def answering(*scores: Floats, name: str = "known", seconds: float = 0.0) -> Member:
    """Rankers whose scores are known, which say how long they will take."""
    names = tuple(f"{name} {i}" for i in range(len(scores)))
    return Member(names, "columns", lambda _: [(None, score, None) for score in scores], lambda _: seconds)


def test_weights_are_those_of_the_formula() -> None:
    """w ∝ exp((A_j − A) / 2σ): 1, exp(−1/4) and exp(−1/2), by hand."""
    parts = [1.0, 0.77880078, 0.60653066]
    found = weights(judged(0.80, 0.02), judged(0.79, 0.5), judged(0.78, 1e-9))  # only the error of the best counts
    assert found == pytest.approx([part / 2.38533144 for part in parts], abs=1e-8)
    assert weights(judged(0.78), judged(0.80), judged(0.79))[1] == pytest.approx(1 / 2.38533144, abs=1e-8)


def test_equal_rankers_weigh_the_same_and_clearly_worse_ones_nothing() -> None:
    assert weights(judged(0.7), judged(0.7), judged(0.7)) == pytest.approx([1 / 3] * 3)
    assert weights(judged(0.9), judged(0.6), judged(0.9)) == [0.5, 0.0, 0.5]
    assert weights(judged(0.3)) == [1.0]
    assert weights(judged(1.0, 0.0), judged(1.0, 0.0), judged(0.9, 0.0)) == [0.5, 0.5, 0.0]
    for share in (0.019, 0.021):  # below and above the smallest weight that counts
        worse = 0.9 + 0.04 * np.log(share / (1 - share))
        assert (weights(judged(0.9), judged(worse))[1] > 0) == (share > 0.02)


def test_depth_is_the_logarithm_of_the_share_above() -> None:
    r = np.random.default_rng(0)
    p, u = r.integers(8, size=20).astype(float), r.integers(7, size=50).astype(float)
    slow = [np.log((sum(1.0 if b > a else 0.5 if b == a else 0.0 for b in u) + 0.5) / 51) for a in p]
    assert depth_of(p, u) == pytest.approx(slow, abs=1e-12)


def test_a_ranker_that_is_clearly_worse_at_the_top_weighs_less() -> None:
    """By hand: differences of 1 and 3 in turn have a mean of 2 and, for 16 rows, t = 2 / (√(16/15) / 4) = 7.746."""
    best = np.linspace(-6.0, -5.0, 16)
    worse, same = best + np.tile([1.0, 3.0], 8), best + np.tile([-1.0, 1.0], 8)
    assert deeper([best, worse, same]) == pytest.approx([0.0, 7.745966692, 0.0])
    assert weights(*(judged(0.9, depth=each) for each in (best, worse, same))) == [0.5, 0.0, 0.5]
    a_little = best + np.tile([-1.0, 2.0], 8)  # mean 0.5, t = 1.29: nothing that counts
    assert weights(judged(0.9, depth=best), judged(0.9, depth=a_little)) == [0.5, 0.5]
    assert weights(judged(0.9, depth=best), judged(0.9)) == [0.5, 0.5], "one that is not known"
    assert weights(judged(0.9, depth=best), judged(0.9, depth=best.copy())) == [0.5, 0.5]


@pytest.mark.slow
def test_rare_positives_are_found_by_those_who_see_them() -> None:
    """1 % are positive, most of them high in three columns: a linear score has a high AUC, but only trees find them."""
    r = np.random.default_rng(0)
    x = r.random((10_000, 12)).astype(np.float32)
    y = (x[:, :3] > 1 - 0.01 ** (1 / 3)).all(axis=1) | (r.random(10_000) < 0.0005)
    s = np.zeros(10_000, dtype=bool)
    s[r.choice(np.flatnonzero(y), 34, replace=False)] = True
    ranked, _ = rank_all(TableRows(x, (), (x - 0.5) / np.float32(0.29), s, None, 0))
    by_area = weighed([replace(each, depth=None) for each in ranked])

    def precision(used: list[Ranked]) -> float:
        return float(average_precision_score(y[~s], averaged_score(used)[~s]))

    assert precision(ranked) > precision(by_area) + 0.05


def test_ranks_among_a_reference_are_counted() -> None:
    r = np.random.default_rng(0)
    reference, score = np.sort(r.integers(6, size=40)).astype(float), r.integers(-1, 8, size=30).astype(float)
    slow = [np.mean([1.0 if b < a else 0.5 if b == a else 0.0 for b in reference]) for a in score]
    assert rank_among(reference, score) == pytest.approx(slow, abs=1e-15)
    assert rank_among(np.array([1.0, 2.0]), np.array([0.0, 1.0, 1.5, 9.0])).tolist() == [0, 0.25, 0.5, 1]


def test_the_average_is_one_less_the_geometric_mean_of_the_shares_above() -> None:
    first, second = judged(0.8, score=[3, 1, 2, 2], weight=0.75), judged(0.8, score=[-9, 5, 0, 1e9], weight=0.25)
    by_hand = 1 - (np.array([1, 7, 4, 4]) / 8) ** 0.75 * (np.array([7, 3, 5, 1]) / 8) ** 0.25
    assert averaged_score([first, second]) == pytest.approx(by_hand, abs=1e-15)
    nothing = judged(0.5, score=[np.nan] * 4, weight=0.0)
    assert averaged_score([first, second, nothing]) == pytest.approx(by_hand, abs=1e-15)


def test_a_row_at_the_very_top_of_one_ranker_beats_one_that_is_high_in_both() -> None:
    up, down = np.arange(100.0), np.arange(100.0)
    up[[98, 50]], down[[99, 60]] = [50, 98], [60, 99]  # rows 98 and 99 change places with rows in the middle
    average = averaged_score([judged(0.8, score=up.tolist(), weight=0.5), judged(0.8, score=down.tolist(), weight=0.5)])
    mean = (rank_among(np.sort(up), up) + rank_among(np.sort(down), down)) / 2
    assert mean[97] > mean[99] and average[99] > average[85] > average[70]
    assert mean[85] > mean[99], "the arithmetic mean puts it below"


def test_rankers_are_judged_on_the_labelled_and_the_unlabelled_rows_alone() -> None:
    rows = table(20, 60)
    r = np.random.default_rng(1)
    negative = ~rows.labelled & (r.random(80) < 0.3)
    known = TableRows(rows.columns, (), rows.features, rows.labelled, negative, 0)
    score = r.normal(size=80) + rows.labelled
    (found,), skipped = rank_all(known, members=[answering(score)])
    assert (found.area, found.error) == auc(score[rows.labelled], score[~rows.labelled & ~negative]) and skipped == []
    assert found.weight == 1.0 and found.score is score


def test_a_deadline_that_is_over_leaves_the_first_alone() -> None:
    rows = table(20, 40, gap=2.0)
    ranked, skipped = rank_all(rows, deadline=time.perf_counter() - 1)
    first = list(MEMBERS[0].names)
    assert [each.name for each in ranked] == first and sum(each.weight for each in ranked) == pytest.approx(1)
    assert skipped == NAMES[len(first) :]


def test_a_deadline_far_away_changes_nothing() -> None:
    rows = table(15, 30, gap=1.0)
    (ranked, skipped), (free, _) = rank_all(rows, deadline=time.perf_counter() + 1e6), rank_all(rows)
    assert [each.name for each in ranked] == NAMES and skipped == []
    assert [each.weight for each in ranked] == [each.weight for each in free]


def test_only_what_would_take_too_long_is_skipped() -> None:
    """A quick ranker is fitted though a slow one before it was not; the first is, whatever it takes."""
    score = np.arange(30.0)
    members = [answering(score, name=name, seconds=t) for name, t in (("a", 99), ("b", 1e5), ("c", 0), ("d", 1e5))]
    ranked, skipped = rank_all(table(10, 20), deadline=time.perf_counter() + 60, members=members)
    assert [each.name for each in ranked] == ["a 0", "c 0"] and skipped == ["b 0", "d 0"]


@every_member
def test_the_guess_of_the_time_grows_with_the_rows(member: Member) -> None:
    few, many = (member.seconds(table(n // 4, n)) for n in (200, 20_000))
    assert 0 < few < many < 600


@every_member
def test_on_noise_a_ranker_scores_its_own_rows_by_chance(member: Member) -> None:
    """Rows scored by models that saw them would have an AUC near 1."""
    areas = [[each.area for each in rank_all(table(50, 100, seed=seed), members=[member])[0]] for seed in range(5)]
    reach = 3 * null_error(50, 100) / len(areas) ** 0.5
    assert np.abs(np.mean(areas, axis=0) - 0.5).max() < reach and np.min(areas) > 0.5 - 0.2


def categories_of_noise(seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Six columns of 40 categories with gaps, and labels that have nothing to do with them."""
    r = np.random.default_rng(seed)
    x = r.integers(40, size=(400, 6)).astype(np.float32)
    x[r.random(x.shape) < 0.05] = np.nan
    return x, r.permutation(400) < 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bagged", "extra", "boosted"])
def test_labels_do_not_speak_through_categories(kind: str) -> None:
    """What stands for a category is made of labels; if a hidden row's own were among them, the AUC would be 0.57."""
    how: dict[str, Any] = {"categories": tuple(range(6))}
    areas = []
    for seed in range(10):
        x, s = categories_of_noise(seed)
        if kind == "boosted":
            score = fit_boosted(x, s, n_trees=20, seed=seed, **how).score
        else:
            score = bag_of_trees(x, s, min_leaf=5, random_splits=kind == "extra", n_trees=20, seed=seed, **how).score
        areas.append(auc(score[s], score[~s])[0])
    assert abs(np.mean(areas) - 0.5) < 3 * null_error(100, 300) / len(areas) ** 0.5


def test_gaps_and_categories_are_used() -> None:
    """Positives have other categories, or a gap where others have a number; every ranker of columns sees it."""
    r = np.random.default_rng(0)
    s = r.permutation(240) < 60
    y = s | (r.random(240) < 0.3)
    columns = np.stack(
        [r.normal(size=240), r.integers(5, size=240) + 5 * y, np.where(y, np.nan, r.normal(size=240))], 1
    )
    rows = TableRows(columns.astype(np.float32), (1,), np.nan_to_num(columns).astype(np.float32), s, None, 0)
    for each in rank_all(rows, members=[member for member in MEMBERS if member.takes == "columns"][:2])[0]:
        assert np.isfinite(each.score).all() and auc(each.score[y & ~s], each.score[~y])[0] > 0.95


@pytest.mark.parametrize("sizes", [(2, 30), (3, 30), (30, 2), (30, 3)])
def test_two_and_three_rows_are_enough(sizes: tuple[int, int]) -> None:
    ranked, skipped = rank_all(table(*sizes, gap=6.0))
    assert [each.name for each in ranked] == NAMES and skipped == []
    assert all(np.isfinite(each.score).all() and 0 <= each.area <= 1 for each in ranked)
    assert sum(each.weight for each in ranked) == pytest.approx(1)
    score = averaged_score(ranked)
    assert score.shape == (sum(sizes),) and score.min() >= 0 and score.max() <= 1


@pytest.mark.parametrize("sizes", [(1, 30), (30, 1), (1, 1)])
def test_one_row_of_a_kind_is_refused_in_one_line(sizes: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r"^[^\n]*at least two rows of each kind[^\n]*$"):
        rank_all(table(*sizes))


def test_more_labelled_than_unlabelled_rows() -> None:
    r = np.random.default_rng(0)
    s, y = np.arange(130) < 100, np.arange(130) < 110  # ten positives among thirty rows of U
    x = (r.normal(size=(130, 3)) + 4.0 * y[:, None]).astype(np.float32)
    ranked, _ = rank_all(TableRows(x, (), x, s, None, 0))
    for each in ranked:
        assert auc(each.score[y & ~s], each.score[~y])[0] > 0.9, each.name
    score = averaged_score(ranked)
    assert auc(score[y & ~s], score[~y])[0] > 0.95
