"""Balanced bags: every kind of row is judged by about as many models, none of which saw it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl.numerics.auc import auc
from pucl.ranking.averaging import TableRows, averaged_score, rank_all, rank_among
from pucl.ranking.bags import balanced_bag, judging_chances
from pucl.ranking.scaling import standardised

Numbers = NDArray[np.intp]


def means_of_noise(n_p: int, n_u: int, n_negative: int = 0, n_models: int = 100) -> tuple[Any, Any, Any]:
    """Scores by models that are noise of their own: a mean of k of them has the variance 1/k. With s and negatives."""
    n = n_p + n_u + n_negative
    labelled, negative = np.arange(n) < n_p, np.arange(n) >= n_p + n_u
    bag = balanced_bag(
        labelled, lambda _rows, seed: seed, lambda seed, rows: np.random.default_rng(seed).normal(size=n)[rows],
        n_models=n_models, seed=0, negative=negative if n_negative else None,
    )  # fmt: skip
    return bag.score, labelled, negative


@pytest.mark.parametrize(("n_p", "n_u"), [(300, 3000), (600, 600), (3000, 300)])
def test_rows_of_p_and_of_u_are_judged_by_as_many_models(n_p: int, n_u: int) -> None:
    score, labelled, _ = means_of_noise(n_p, n_u)
    p, u = score[labelled].std(), score[~labelled].std()
    assert p == pytest.approx(u, rel=0.15), "a labelled row was judged by a third of the models that judged one of U"


def test_confirmed_negatives_are_judged_by_as_many_too() -> None:
    score, labelled, negative = means_of_noise(400, 2000, 300)
    spread = [score[kind].std() for kind in (labelled, negative, ~labelled & ~negative)]
    assert max(spread) < 1.2 * min(spread)


def test_a_model_never_judges_a_row_of_its_bag() -> None:
    n, bags = 60, {}
    labelled = np.arange(n) < 20

    def fit(rows: Numbers, seed: int) -> int:
        bags[seed] = rows
        return seed

    def score(seed: int, rows: Numbers) -> NDArray[np.float64]:
        values = np.zeros(n)
        values[bags[seed]] = np.nan
        return values[rows]

    assert (balanced_bag(labelled, fit, score, n_models=40, seed=3).score == 0).all()


def test_chances_make_up_for_what_models_saw() -> None:
    outside = [0.37, 0.9, 0.5]
    assert np.multiply(outside, judging_chances(outside)) == pytest.approx([0.37] * 3)
    assert judging_chances([0.2, 0.2]) == [1.0, 1.0]
    assert judging_chances([0.01, 0.4, 0.8]) == pytest.approx([1.0, 1.0, 0.5]), "a kind in all bags stops no other"
    always = judging_chances([0.36, 0.84], always=0.2)
    assert [0.2 + 0.16 * always[0], 0.2 + 0.64 * always[1]] == pytest.approx([0.36, 0.36])
    assert judging_chances([1 - 4 / 5, 0.84], always=1 / 5) == pytest.approx([1.0, 0.0], abs=1e-12)
    assert judging_chances([0.0, 0.7]) == [1.0, 1.0]


def test_averaged_ranks_of_noise_favour_no_labelled_rows() -> None:
    """The average in which high ranks count most must not put P higher than the plain mean of the same ranks does."""
    excess = []
    for seed in range(6):
        x = np.random.default_rng(seed).normal(size=(600, 20)).astype(np.float32)
        s = np.arange(600) < 100
        ranked, _ = rank_all(TableRows(x, (), standardised(x)[0], s, None, seed))
        plain = np.sum([each.weight * rank_among(np.sort(each.score), each.score) for each in ranked], axis=0)
        top = averaged_score(ranked)
        excess.append(auc(top[s], top[~s])[0] - auc(plain[s], plain[~s])[0])
    assert abs(np.mean(excess)) < 0.012, "it was 0.025 when P was judged by fewer models than U"
