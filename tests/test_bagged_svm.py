"""Bagged support vector machines against scikit-learn's, bag by bag."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC

from pucl.numerics.auc import auc
from pucl.ranking import bagged_svm
from pucl.ranking.bagged_svm import JUDGES, MAX_BAGS, BaggedMachines, decisions, fit_bagged_svm, kernel

COSTS = (0.3, 1.0, 10.0)
Rows = NDArray[np.float32]
Bools = NDArray[np.bool_]


def problem(n_p: int = 30, n_u: int = 90, seed: int = 0) -> tuple[Rows, Bools]:
    """Rows of four columns, the positives higher, of which the first are labelled."""
    r = np.random.default_rng(seed)
    s = np.arange(n_p + n_u) < n_p
    y = s | (r.random(n_p + n_u) < 0.3)
    return (r.normal(size=(n_p + n_u, 4)) + 1.5 * y[:, None]).astype(np.float32), s


def judges_of(monkeypatch: pytest.MonkeyPatch, x: Rows, s: Bools, **how: Any) -> tuple[list[BaggedMachines], Any]:
    """The machines, and which of them judge which rows, (machines, rows)."""
    judged: list[Any] = []
    original = bagged_svm.judged_by

    def recording(*args: Any) -> Any:
        judged.append(original(*args))
        return judged[-1]

    monkeypatch.setattr(bagged_svm, "judged_by", recording)
    machines = fit_bagged_svm(x, s, **how)
    monkeypatch.undo()
    return machines, np.array([np.isin(np.arange(len(x)), rows) for rows in judged])


def bags_of(monkeypatch: pytest.MonkeyPatch, x: Rows, s: Bools, **how: Any) -> tuple[list[BaggedMachines], list[Any]]:
    """The machines, and the rows of every bag, by the kernel that was asked for."""
    bags: list[Any] = []

    def recording(rows: Rows, vectors: Rows, gamma: float) -> Rows:
        if rows.shape == vectors.shape and (rows == vectors).all():
            bags.append(np.array([np.flatnonzero((x == row).all(axis=1))[0] for row in rows]))
        return kernel(rows, vectors, gamma)

    monkeypatch.setattr(bagged_svm, "kernel", recording)
    machines = fit_bagged_svm(x, s, **how)
    monkeypatch.undo()
    return machines, bags


def test_machines_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 1e-3, the tolerance at which libsvm stops: our kernel is computed in float32."""
    x, s = problem()
    machines, bags = bags_of(monkeypatch, x, s, costs=COSTS, seed=3)
    assert len(bags) == JUDGES * MAX_BAGS
    outside = np.array([~np.isin(np.arange(len(x)), bag) for bag in bags])
    judges = judges_of(monkeypatch, x, s, costs=COSTS, seed=3)[1]
    assert not (judges & ~outside).any(), "only machines without the row"
    new = problem(seed=9)[0]
    for cost, found in zip(COSTS, machines, strict=True):
        theirs = [SVC(C=cost, kernel="rbf", gamma=1 / 4).fit(x[bag].astype(float), s[bag]) for bag in bags]
        own = decisions(new, found.vectors, found.weight[:, None], found.gamma)[:, 0] + found.bias
        assert own == pytest.approx(
            np.mean([each.decision_function(new) for each in theirs[:MAX_BAGS]], axis=0), abs=1e-3
        )
        every = np.array([each.decision_function(x) for each in theirs])
        for i, score in enumerate(found.score):
            assert score == pytest.approx(every[judges[:, i], i].mean(), abs=1e-3)


@pytest.mark.parametrize(("n_p", "n_u"), [(100, 900), (900, 2000), (2000, 900), (300, 100)])
def test_rows_of_p_and_of_u_are_judged_by_as_many_machines(monkeypatch: pytest.MonkeyPatch, n_p: int, n_u: int) -> None:
    x, s = problem(n_p, n_u)
    judges = judges_of(monkeypatch, x, s, costs=[1.0], seed=0, n_bags=15)[1].sum(axis=0)
    assert judges.min() >= 3, "the machines that left its fold out"
    assert judges[s].mean() == pytest.approx(judges[~s].mean(), rel=0.08)


@pytest.mark.parametrize("sizes", [(30, 90), (90, 30), (2, 40), (40, 2), (7, 8)])
def test_every_row_is_left_out_of_some_bags(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]) -> None:
    x, s = problem(*sizes)
    machines, bags = bags_of(monkeypatch, x, s, costs=[1.0], seed=0)
    for bag in bags:
        assert len(set(bag)) == len(bag) and s[bag].sum() == (~s[bag]).sum() >= 1
    times = np.sum([np.isin(np.arange(len(x)), bag) for bag in bags], axis=0)
    assert times.max() <= JUDGES * MAX_BAGS * 4 // 5 and np.isfinite(machines[0].score).all()


def test_bags_are_no_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bagged_svm, "MAX_IN_BAG", 10)
    x, s = problem(100, 300)
    assert {len(bag) for bag in bags_of(monkeypatch, x, s, costs=[1.0], seed=0)[1]} == {20}


def test_several_costs_at_once_are_each_alone() -> None:
    x, s = problem()
    together = fit_bagged_svm(x, s, costs=COSTS, seed=1)
    for cost, one in zip(COSTS, together, strict=True):
        (alone,) = fit_bagged_svm(x, s, costs=[cost], seed=1)
        assert one.score == pytest.approx(alone.score, abs=1e-5)  # float32 sums of up to 48 weights of 10
        assert one.bias == alone.bias and one.gamma == alone.gamma
        assert np.array_equal(one.vectors, alone.vectors) and np.array_equal(one.weight, alone.weight)
    assert not np.array_equal(together[0].score, together[1].score)


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, s = problem()
    found = []
    for threads in (1, 2, 7, None):
        monkeypatch.setattr("os.cpu_count", lambda n=threads: n)
        found.append(fit_bagged_svm(x, s, costs=COSTS, seed=0))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert np.array_equal(one.score, other.score) and np.array_equal(one.weight, other.weight)
            assert one.bias == other.bias


def test_confirmed_negatives_are_drawn_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    x, s = problem(30, 300)
    negative = np.arange(330) >= 300
    bags = bags_of(monkeypatch, x, s, costs=[1.0], seed=0, negative=negative)[1]
    times = np.sum([np.isin(np.arange(330), bag) for bag in bags], axis=0)
    assert times[negative].mean() > 3 * times[~s & ~negative].mean()


def test_unlabelled_rows_are_ranked_where_they_are_few() -> None:
    """Of 100 labelled and 20 unlabelled rows every one has a score of its own."""
    r = np.random.default_rng(0)
    s, y = np.arange(120) < 100, np.arange(120) < 110
    x = (r.normal(size=(120, 3)) + 4.0 * y[:, None]).astype(np.float32)
    score = fit_bagged_svm((x - x.mean(axis=0)) / x.std(axis=0), s, costs=[1.0], seed=0)[0].score
    assert len(set(score[~s])) == 20 and auc(score[y & ~s], score[~y])[0] > 0.95


def test_the_kernel_in_pieces_is_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = problem()
    vectors, weight = x[:9], np.random.default_rng(0).normal(size=(9, 2))
    slow = np.array([[np.exp(-0.25 * ((a - b).astype(float) ** 2).sum()) for b in vectors] for a in x])
    assert kernel(x, vectors, 0.25) == pytest.approx(slow, abs=1e-6)
    whole = decisions(x, vectors, weight, 0.25)
    assert whole == pytest.approx(slow @ weight, abs=1e-5)
    monkeypatch.setattr(bagged_svm, "PIECE", 20)
    assert decisions(x, vectors, weight, 0.25) == pytest.approx(whole, abs=1e-6)
