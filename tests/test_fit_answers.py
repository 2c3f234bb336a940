"""Answers of reviewers in a fit: they teach the model, and no figure takes the picked rows for a random sample."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import pucl
from pucl.errors import InputError
from pucl.fitting.answered import share_of_rest, with_answers
from pucl.fitting.compare import with_share
from pucl.fitting.encode import encode
from pucl.fitting.plan import FitOptions, FitPlan, plan_fit
from pucl.labels import check_answers
from pucl.models.schema import learn_schema
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.averaging import TableRows, rank_all
from review_examples import cloud

N_P, N_U, SHARE = 80, 1500, 0.2


def shifted(apart: float, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows, s and the truth: labelled positives first, then U with a known share of positives."""
    truth = np.concatenate([np.ones(N_P, bool), np.random.default_rng(seed).random(N_U) < SHARE])
    x = cloud(len(truth), seed=seed + 1)
    x[:, 0] += apart * truth
    x[:, 1] += apart / 2 * truth
    return x, np.arange(len(truth)) < N_P, truth


def reviewed(model: Any, x: Any, s: Any, truth: Any, answers: Any, n: int) -> None:
    """The n most likely rows that were not asked yet are answered by the truth."""
    score = model.decision_function(x)
    score[s | np.isfinite(answers)] = -np.inf
    top = np.argsort(-score)[:n]
    answers[top] = truth[top]


@pytest.mark.slow
@pytest.mark.parametrize("apart", [4.0, 2.0])
def test_ten_rounds_of_most_likely_leave_every_figure_honest(apart: float) -> None:
    """Where the classes separate π is an estimate and precision is promised, elsewhere π is a bound."""
    x, s, truth = shifted(apart)
    answers, model = np.full(len(s), np.nan), pucl.PUClassifier(random_state=0).fit(x, s)
    first = model
    for _ in range(10):
        reviewed(model, x, s, truth, answers, 20)
        model = pucl.PUClassifier(random_state=0).fit(x, s, answers=answers)
    share = truth[~s].mean()
    assert np.nansum(answers) > 120  # most of them positive: what is left of U has a far smaller share
    for each in (first, model):
        low, high = each.prior_interval_
        assert low <= share <= high
        found = each.predict(x)[~s] == 1
        if "precision" in each.scores_:
            assert each.scores_["precision"]["value"] <= truth[~s][found].mean() + 0.05
    error = first.scores_["pu_auc"]["error"]
    assert abs(model.scores_["pu_auc"]["value"] - first.scores_["pu_auc"]["value"]) <= 3 * error
    assert model.prior_is_bound_ == (apart < 4)
    # The same answers as labels and confirmed negatives: π of what is left is far below the truth.
    taken, no = s | (answers == 1), answers == 0
    with warnings.catch_warnings(action="ignore"):
        naive = pucl.PUClassifier(random_state=0).fit(x, taken, negatives=no)
    assert naive.prior_interval_[1] < 0.6 * truth[~taken & ~no].mean()


def test_answers_teach() -> None:
    """Positives of a second kind, of which none is labelled, are found once some are answered."""
    x, s, _ = shifted(3.0)
    other = np.arange(len(s)) >= len(s) - 150
    x[other] = cloud(150, seed=5) * 0.5 + np.array([0, 0, 5, 0], dtype=np.float32)
    answers = np.full(len(s), np.nan)
    answers[np.flatnonzero(other)[:30]] = 1
    without, taught = (pucl.PUClassifier(random_state=0).fit(x, s, answers=given) for given in (None, answers))
    rest = np.flatnonzero(other)[30:]
    others = ~s & ~other

    def above(model: Any) -> float:
        score = model.decision_function(x)
        return float((score[rest] > np.quantile(score[others], 0.5)).mean())

    assert above(taught) > 0.9 > above(without) + 0.3
    assert "answers=answers" in str(taught.model_.record.command)
    assert any(text.startswith("Answers: 30 rows reviewed as positive") for text in taught.reasons_)


def test_labellers_and_heads_get_the_share_of_the_rows_that_nobody_has_answered() -> None:
    """Counted on answers of which nearly all are yes, π would be far too low."""
    answers = np.full(N_P + N_U, np.nan)
    answers[N_P : N_P + 300 : 3] = 1
    plan, s = plan_of(answers, encoder="raw", labeller="cvir", head="linear")
    encoded = encode(plan)
    share = pucl.pseudo_label(encoded["raw"].z, s, method="cvir", repeats=1).prior
    shared = with_share(plan, encoded)
    assert shared.share == share and with_share(plan_of(None)[0], encoded).share is None
    assert share_of_rest(shared, None) == pytest.approx((share * N_U - 100) / (N_U - 100))
    pseudo = PseudoLabels.from_scores(torch.linspace(-1, 1, len(s)), plan.labelled, prior=0.3)
    assert with_answers(shared, pseudo).prior == pytest.approx((0.3 * N_U - 100) / (N_U - 100))


@pytest.mark.slow
def test_a_labeller_and_a_head_stay_as_good_when_all_likely_rows_are_answered() -> None:
    x, s, truth = shifted(4.0)
    options: dict[str, Any] = {
        "encoder": "raw",
        "labeller": "cvir",
        "head": "linear",
        "kind": "vector",
    }
    answers, model = np.full(len(s), np.nan), pucl.PUClassifier(random_state=0, **options).fit(x, s)
    first = (model.predict(x) == truth)[~s].mean()
    reviewed(model, x, s, truth, answers, 250)
    assert np.nansum(answers) > 240  # four fifths of all positives in U
    model = pucl.PUClassifier(random_state=0, **options).fit(x, s, answers=answers)
    assert (model.predict(x) == truth)[~s].mean() >= first - 0.01
    assert abs(model.prior_ - truth[~s].mean()) < 0.06
    assert model.pseudo_labels_.prior == pytest.approx(model.prior_, abs=0.06)


def test_answered_rows_stand_for_u_where_rankers_are_compared() -> None:
    x, s, truth = shifted(2.0)
    answers = np.where(np.arange(len(s)) % 7 == 3, truth, np.nan)
    said = check_answers(answers, s, None, len(s))
    assert said is not None
    rows = TableRows(x, (), x, s | (said > 0), said < 0, 0, said != 0)
    of_p, of_u = rows.judged
    assert (of_p == s).all() and (of_u == ~s).all()
    ranked, _ = rank_all(rows)
    areas = [pucl.pu_scores(each.score, s, prior=SHARE).pu_auc.value for each in ranked]
    assert [each.area for each in ranked] == pytest.approx(areas)


def plan_of(answers: Any, **options: Any) -> tuple[FitPlan, NDArray[np.bool_]]:
    x, s, _ = shifted(2.0)
    schema, rows = learn_schema(x)
    return plan_fit(rows, s, schema, FitOptions(**options), torch.device("cpu"), answers=answers), s


def test_the_plan_counts_answered_rows_as_unlabelled_and_teaches_what_they_are() -> None:
    answers = np.full(N_P + N_U, np.nan)
    answers[[100, 101, 102]] = 1, 0, 1
    plan, s = plan_of(answers)
    alone, _ = plan_of(None)
    assert plan.n_unlabelled == N_U and plan.negative is None and (plan.labelled.numpy() == s).all()
    assert plan.train_positive.nonzero().flatten().tolist() == [*range(N_P), 100, 102]
    assert plan.train_negative is not None and plan.train_negative.nonzero().flatten().tolist() == [101]
    assert (plan.fold == alone.fold).all()  # what is hidden from an encoder does not depend on answers
    assert share_of_rest(plan, SHARE) == pytest.approx((SHARE * N_U - 2) / (N_U - 3))
    assert share_of_rest(alone, SHARE) == SHARE
    score = torch.linspace(-1, 1, len(s))
    pseudo = with_answers(plan, PseudoLabels.from_scores(score, plan.labelled, prior=SHARE))
    assert pseudo.labels[[100, 101, 102]].tolist() == [True, False, True]
    assert pseudo.reliability[[100, 101, 102]].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([1, 0], "answers must be a vector of length 1580 of 1 \\(positive\\), 0 \\(negative\\) and NaN"),
        (np.full(N_P + N_U, 2.0), "got 2.0 at row 0"),
        (["yes"] * (N_P + N_U), "answers must be a vector"),
        (np.zeros(N_P + N_U), "answers must be few enough to leave 2 rows or more"),
    ],
)
def test_answers_that_are_none(answers: Any, message: str) -> None:
    x, s, _ = shifted(2.0)
    with pytest.raises(InputError, match=f"PUClassifier: .*{message}"):
        pucl.PUClassifier(random_state=0).fit(x, s, answers=answers)


def test_labels_stand_and_missing_answers_are_none() -> None:
    s, negative = np.array([True, False, False, False, False]), np.array([False, True, False, False, False])
    assert check_answers([0, 1, None, None, None], s, negative, 5) is None
    said = check_answers(np.array([1, np.nan, 1, np.nan, np.nan]), s, negative, 5)
    assert said is not None and said.tolist() == [0, 0, 1, 0, 0]
