"""The verdict on a model, the lift at the top of a ranking, simple rivals, and ranges over the plausible shares."""

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.errors import InputError
from pucl.numerics.auc import auc
from pucl.priors import PriorEstimate
from pucl.selection import (
    Verdict,
    lift,
    pu_scores,
    ranking_scores,
    score_ranges,
    simple_rivals,
    verdict,
)

KNOWN = PriorEstimate(0.2, 0.15, 0.25, "cvir")
BOUND = PriorEstimate.bound(0.46, "cvir")


def problem(gap: float, n: int = 2000, seed: int = 0, share: float = 0.2) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scores that put positives higher by `gap`, and s: every fifth positive is labelled."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    return rng.normal(size=n) + gap * y, y & (rng.random(n) < 0.2)


def test_lift_counts_hidden_positives_at_the_top() -> None:
    u, p = np.arange(100.0), np.array([99.5, 98.5, 94.5, 80.0])
    logits, s = np.concatenate([u, p]), np.repeat([0, 1], [100, 4])
    assert lift(logits, s, shares=(0.05,))[0].value == pytest.approx(2 / 4 / 0.05)
    assert lift(logits, s, shares=(0.06,))[0].value == pytest.approx(3 / 4 / 0.06)
    assert [each.share for each in lift(logits, s)] == [0.05, 0.1]  # one row of U at the top says nothing
    assert lift(logits, s, shares=(0.05,))[0].error == pytest.approx(
        np.hypot(np.sqrt(0.25 / 4) / 0.05, 10 / np.sqrt(5))
    )


def test_the_error_of_the_lift_covers_what_samples_do() -> None:
    """95 % of the samples of a model of known lift lie within two errors of it, roughly."""
    truth = {each.share: each.value for each in lift(*problem(2.0, n=400_000))}
    runs = [each for seed in range(100) for each in lift(*problem(2.0, n=3000, seed=seed + 1))]
    inside = np.mean([abs(each.value - truth[each.share]) < 2 * each.error for each in runs])
    assert inside > 0.9


def test_lift_of_scores_that_say_nothing_is_one() -> None:
    s = np.arange(1000) % 7 == 0
    assert [each.value for each in lift(np.zeros(1000), s)] == pytest.approx([1, 1, 1])
    steps = lift(np.repeat([1.0, 0.0], [500, 500]), s, shares=(0.1, 0.5))
    assert steps[0].value == pytest.approx(1, abs=0.05)


def test_lift_is_at_most_one_over_the_share() -> None:
    s = np.arange(1050) < 50
    assert [each.value for each in lift(s.astype(float), s)] == pytest.approx([100, 20, 10])


@pytest.mark.parametrize(("prior", "word"), [(KNOWN, "useful"), (BOUND, "useful")])
def test_a_good_ranking_is_useful(prior: PriorEstimate, word: str) -> None:
    logits, s = problem(2.5)
    found = verdict(logits - 2, s, prior=prior, rivals={"column 'x' alone": -logits})
    assert found.word == word and str(found).startswith("useful: a hidden positive ranks above 8")
    assert found.reason.endswith("on the same rows column 'x' alone ranks it above 14%") and "\n" not in str(found)


def test_between_chance_and_useful_is_weak() -> None:
    logits, s = problem(0.8)
    found = verdict(logits, s, prior=BOUND, rivals={})
    assert found.word == "weak" and str(found).startswith("weak: ranking only: a hidden positive ranks above 6")


def test_the_low_end_of_the_share_decides_what_the_ranking_is_worth() -> None:
    """With half of U positive, an AUC of 0.68 against U is one of 0.86 against negatives."""
    logits, s = problem(1.5, share=0.5, n=4000)
    assert verdict(logits - 1, s, prior=BOUND, rivals={}).word == "weak"
    assert verdict(logits - 1, s, prior=PriorEstimate(0.45, 0.4, 0.5, "cvir"), rivals={}).word == "useful"


def test_chance_is_not_to_be_used() -> None:
    words = [verdict(*problem(0.0, seed=seed), prior=KNOWN, rivals={}).word for seed in range(20)]
    assert words.count("do not use") >= 18


def test_a_better_rival_means_do_not_use() -> None:
    logits, s = problem(2.5)
    noisy = logits + 2 * np.random.default_rng(1).normal(size=len(s))
    assert verdict(noisy, s, prior=BOUND, rivals={}).word != "do not use"
    found = verdict(noisy, s, prior=BOUND, rivals={"the nearest labelled row": noisy, "column 'age' alone": logits})
    ours, theirs = (auc(each[s == 1], each[s == 0])[0] for each in (noisy, logits))
    assert found.word == "do not use"
    assert f"column 'age' alone ranks it better (above {theirs:.0%}, this model above {ours:.0%})" in found.reason
    half = np.where(np.arange(len(s)) % 2, logits, np.nan)  # a rival may know some of the rows only
    assert verdict(noisy, s, prior=BOUND, rivals={"x": half}).word == "do not use"
    close = logits + 0.001 * np.arange(len(s)) / len(s)
    assert verdict(logits - 2, s, prior=BOUND, rivals={"x": close}).word == "useful"


def test_a_rival_that_is_a_little_better_is_said_to_be() -> None:
    logits, s = problem(2.5)
    worse = logits + 0.4 * np.random.default_rng(1).normal(size=len(s))
    ours, theirs = (auc(each[s == 1], each[s == 0])[0] for each in (worse, logits))
    found = verdict(worse - 2, s, prior=BOUND, rivals={"column 'age' alone": logits})
    assert found.word == "useful" and round(100 * theirs) > round(100 * ours)
    said = f"column 'age' alone ranks it above {theirs:.0%} ({100 * (theirs - ours):.0f} ± "
    assert said in found.reason and "points would count)" in found.reason
    part = np.where((s == 1) & (logits < np.median(logits[s == 1])), np.nan, logits)  # the model is better on these
    ours = auc(worse[np.isfinite(part) & (s == 1)], worse[s == 0])[0]
    found = verdict(worse - 2, s, prior=BOUND, rivals={"column 'age' alone": part})
    assert f"on a part of them, where this model ranks it above {ours:.0%}, column 'age'" in found.reason


def test_everything_positive_means_do_not_use() -> None:
    logits, s = problem(2.5)
    found = verdict(logits + 10, s, prior=BOUND, rivals={})
    assert str(found) == "do not use: it calls 100% of the unlabelled rows positive, where at most 46% are"
    assert verdict(logits + 10, s, prior=PriorEstimate(0.9, 0.8, 0.97, "x"), rivals={}).word == "useful"


def test_few_hidden_positives_are_never_sure() -> None:
    logits, s = np.arange(300.0), np.arange(300) >= 297
    assert verdict(logits - 290, s, prior=BOUND, rivals={}).word == "weak"
    assert verdict(np.arange(300.0) - 200, np.arange(300) >= 270, prior=BOUND, rivals={}).word == "useful"


def test_verdicts_are_ordered() -> None:
    assert Verdict("useful", "").at_least("weak") and Verdict("weak", "").at_least("weak")
    assert not Verdict("weak", "").at_least("useful") and not Verdict("do not use", "").at_least("weak")


def table(n: int, width: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    x = rng.normal(size=(n, width))
    x[:, 2] -= 1.5 * y
    return x, y & (rng.random(n) < 0.3)


def auc_of(score: NDArray[Any], s: NDArray[Any]) -> float:
    known = np.isfinite(score)
    return auc(score[known & s], score[known & ~s])[0]


def test_the_best_column_is_found_in_either_direction() -> None:
    x, s = table(1500, 6)
    x[np.random.default_rng(5).random(x.shape) < 0.1] = np.nan
    rivals = simple_rivals(x, s, names=["a", "b", "c", "d", "e", "f"])
    assert list(rivals) == ["column 'c' alone", "the nearest labelled row"]
    assert auc_of(rivals["column 'c' alone"], s) > 0.7
    assert list(simple_rivals(x, s)) == ["column 2 alone", "the nearest labelled row"]
    assert list(simple_rivals(x, s, one_column=False)) == ["the nearest labelled row"]


def test_rivals_do_not_see_the_label_they_score() -> None:
    """On noise, a column chosen with the labels it is judged by would look good, and so would a row near itself."""
    values = [
        auc_of(score, s)
        for seed in range(8)
        for x, s in [(np.random.default_rng(seed).normal(size=(200, 300)), np.arange(200) % 8 == 0)]
        for score in simple_rivals(x, s, seed=seed).values()
    ]
    assert np.mean(values) == pytest.approx(0.5, abs=0.06)


def test_the_nearest_labelled_row_is_found() -> None:
    x = np.array([[0.0, 0], [0.1, 0], [0.2, 0], [9, 9], [9, 9.1], [0, np.nan]])
    score = simple_rivals(x, [1, 1, 0, 0, 0, 0])["the nearest labelled row"]
    assert score[0] == pytest.approx(score[1]) and score[2] > score[3] and score[2] > score[4]
    z = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    assert score[3] == pytest.approx(-((z[3] - z[1]) ** 2).sum(), rel=1e-4)


def test_rivals_score_some_rows_of_many_the_judged_ones_first() -> None:
    x, s = table(20_000, 4)
    judged = np.arange(len(s)) % 10 == 0
    score = simple_rivals(x, s, judged=judged)["the nearest labelled row"]
    assert np.isfinite(score).sum() == 5000 and np.isfinite(score[judged]).all()


def test_rivals_are_quick() -> None:
    x, s = table(10_000, 50)
    began = time.perf_counter()
    simple_rivals(x, s)
    assert time.perf_counter() - began < 2  # 0.15 s on an idle core


def test_rivals_of_odd_tables() -> None:
    s = np.arange(20) < 5
    assert simple_rivals(np.full((20, 2), np.nan), s)["the nearest labelled row"].max() == 0
    assert simple_rivals(np.zeros((20, 0)), s) == {}
    assert simple_rivals(np.zeros((20, 2)), np.arange(20) < 1) == {}
    with pytest.raises(InputError, match="columns must be a matrix of numbers"):
        simple_rivals(np.zeros(20), s)


def test_ranges_hold_what_each_share_gives() -> None:
    logits, s = problem(1.5)
    base = ranking_scores(logits, s, threshold=1.0)
    ranges = score_ranges(base, 0.0, 0.46)
    for prior in (0.02, 0.2, 0.46):
        scores = pu_scores(logits, s, prior=prior, threshold=1.0)
        pairs = {"precision": scores.precision, "f1": scores.f1, "accuracy": scores.proxy_accuracy}
        for name, estimate in pairs.items():
            assert ranges[name][0] - 1e-9 <= estimate.value <= ranges[name][1] + 1e-9
    top = pu_scores(logits, s, prior=0.46, threshold=1.0)
    assert ranges["precision"] == pytest.approx((0.0, top.precision.value))
    nobody = score_ranges(ranking_scores(logits, s, threshold=99.0), 0.0, 0.4)
    assert (*nobody["precision"], *nobody["f1"]) == (0.0, 0.0, 0.0, 0.0)
    assert nobody["accuracy"] == pytest.approx((0.6, 1.0))


def test_scores_without_the_share_are_those_with_it() -> None:
    logits, s = problem(1.5)
    base, full = ranking_scores(logits, s), pu_scores(logits, s, prior=0.2)
    assert (base.pu_auc, base.recall, base.found) == (full.pu_auc, full.recall, full.found)
    assert "accuracy, precision and F1 need the share" in str(base)


def test_confirmed_negatives_are_no_part_of_the_unlabelled_rows() -> None:
    logits, s = problem(2.5)
    negatives = (logits > 3) & ~s  # as odd as they can be
    rest = ~negatives
    assert lift(logits, s, negatives=negatives) == lift(logits[rest], s[rest])
    found = verdict(logits - 2, s, prior=BOUND, rivals={"x": -logits}, negatives=negatives)
    assert found == verdict(logits[rest] - 2, s[rest], prior=BOUND, rivals={"x": -logits[rest]})
    assert found != verdict(logits - 2, s, prior=BOUND, rivals={"x": -logits})
