"""The threshold of the highest F1 over the plausible shares, and the π that figures are computed with."""

import numpy as np
import pytest
from numpy.typing import NDArray

from estimator_examples import gaussians, quick
from pucl import PUClassifier, pu_scores
from pucl.priors import PriorEstimate
from pucl.ranking.operating import PARTS, expected_f1_threshold, recall_of_others
from pucl.selection.scores import PUScores

GIVEN = PriorEstimate(0.3, 0.3, 0.3, "given")
ESTIMATE = PriorEstimate(0.3, 0.2, 0.45, "bbe")
BOUND = PriorEstimate.bound(0.6, "bbe")
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def mean_f1(score: Floats, s: Bools, called: Bools, shares: list[float]) -> float:
    """The mean over π of 2t / (q + π), t = min(π r, q), counted row by row."""
    n_p = n_u = of_p = of_u = 0
    for i in range(len(score)):
        if s[i]:
            n_p, of_p = n_p + 1, of_p + int(called[i])
        else:
            n_u, of_u = n_u + 1, of_u + int(called[i])
    r, q = of_p / n_p, of_u / n_u
    return sum(2 * min(share * r, q) / (q + share) for share in shares) / len(shares)


def shares_of(prior: PriorEstimate) -> list[float]:
    if prior.method == "given":
        return [prior.value]
    low = prior.high / 4 if prior.is_bound else prior.low
    return [low + (prior.high - low) * i / 11 for i in range(12)]


def problem(seed: int, ties: bool) -> tuple[Floats, Bools]:
    r = np.random.default_rng(seed)
    s = r.random(80) < 0.3
    score = r.normal(size=80) + 1.2 * (s | (r.random(80) < 0.3))
    return np.asarray(np.round(score) if ties else score, np.float64), s


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("prior", [GIVEN, ESTIMATE, BOUND], ids=["given", "estimate", "bound"])
def test_no_threshold_has_a_higher_f1(prior: PriorEstimate, ties: bool) -> None:
    for seed in range(10):
        score, s = problem(seed, ties)
        found, shares = expected_f1_threshold(score, s, prior), shares_of(prior)
        cuts = sorted(set(score[~s]))
        gains = [mean_f1(score, s, score >= cut, shares) for cut in cuts]
        best = max(range(len(cuts)), key=lambda i: round(gains[i], 12))  # the lowest of equals
        if best:
            assert found == (cuts[best] + cuts[best - 1]) / 2
        else:
            assert found < cuts[0] and (score[~s] > found).all()


def test_the_threshold_lies_half_way_between_two_scores() -> None:
    score, s = np.array([0.0, 1.0, 2.0, 4.0, 3.5, 4.5]), np.array([0, 0, 0, 0, 1, 1], dtype=bool)
    assert expected_f1_threshold(score, s, PriorEstimate(0.25, 0.25, 0.25, "given")) == 1.5
    everything = expected_f1_threshold(score, s, PriorEstimate(0.99, 0.99, 0.99, "given"))
    assert everything < 0.0 and everything == pytest.approx(0.0), "all rows are called positive"


def test_a_given_share_is_the_only_one_tried() -> None:
    score, s = problem(0, ties=False)
    thresholds = {
        share: expected_f1_threshold(score, s, PriorEstimate(share, share, share, "given"))
        for share in (0.05, 0.3, 0.9)
    }
    assert thresholds[0.05] > thresholds[0.3] > thresholds[0.9]
    whole = expected_f1_threshold(score, s, PriorEstimate(0.3, 0.05, 0.9, "bbe"))
    assert thresholds[0.05] > whole > thresholds[0.9]


def test_a_bound_is_tried_from_a_quarter_of_it_on() -> None:
    for seed in range(5):
        score, s = problem(seed, ties=False)
        interval = PriorEstimate(0.3, 0.15, 0.6, "bbe")
        assert expected_f1_threshold(score, s, BOUND) == expected_f1_threshold(score, s, interval)


def test_confirmed_negatives_and_the_order_of_rows_change_nothing() -> None:
    score, s = problem(1, ties=False)
    alone = expected_f1_threshold(score, s, ESTIMATE)
    more, known = np.append(score, [9.0, 9.5]), np.append(s, [False, False])
    assert expected_f1_threshold(more, known, ESTIMATE, negative=np.arange(82) >= 80) == alone
    order = np.random.default_rng(0).permutation(80)
    assert expected_f1_threshold(score[order], s[order], ESTIMATE) == alone


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("prior", [GIVEN, BOUND], ids=["given", "bound"])
def test_recall_is_counted_above_thresholds_chosen_without_the_row(prior: PriorEstimate, ties: bool) -> None:
    for seed in range(5):
        score, s = problem(seed, ties)
        by_rank = sorted(np.flatnonzero(s), key=lambda row: score[row])
        above = 0
        for k in range(PARTS):
            out = by_rank[k::PARTS]
            kept = np.setdiff1d(np.arange(len(s)), out)
            threshold = expected_f1_threshold(score[kept], s[kept], prior)
            above += sum(bool(score[row] > threshold) for row in out)
        found = recall_of_others(score, s, prior)
        assert found == pytest.approx(above / s.sum())
        order = np.random.default_rng(seed).permutation(len(s))
        assert recall_of_others(score[order], s[order], prior) == found
        more, known = np.append(score, [9.0, 9.5]), np.append(s, [False, False])
        assert recall_of_others(more, known, prior, negative=np.arange(len(known)) >= len(s)) == found


def test_recall_of_few_labels_is_that_of_other_positives() -> None:
    """12 labelled of 112 positives, one standard deviation above 400 negatives; the others show the true recall."""
    own, left_out, truth = [], [], []
    for seed in range(60):
        r = np.random.default_rng(seed)
        y, s = np.arange(512) < 112, np.arange(512) < 12
        score = r.normal(size=512) + y
        threshold = expected_f1_threshold(score, s, BOUND)
        own.append((score[s] > threshold).mean())
        others = recall_of_others(score, s, BOUND)
        assert others is not None
        left_out.append(others)
        truth.append((score[y & ~s] > threshold).mean())
    assert np.mean(own) - np.mean(truth) > 0.06, "rows that chose the threshold lie above it more often"
    assert abs(np.mean(left_out) - np.mean(truth)) < 0.03


def test_one_labelled_row_has_no_others() -> None:
    assert recall_of_others(np.arange(5.0), np.arange(5) == 4, ESTIMATE) is None
    assert recall_of_others(np.arange(5.0), np.arange(5) >= 3, GIVEN) is not None


def test_a_fit_reports_the_recall_of_others() -> None:
    r = np.random.default_rng(2)
    y, s = np.arange(400) < 120, (np.arange(400) < 20).astype(int)
    x = r.normal(size=(400, 4)) + 0.7 * y[:, None]
    model = PUClassifier(kind="table", random_state=0).fit(x, s)
    evidence = model.model_.evidence
    assert evidence is not None and model.prior_is_bound_
    score, held = np.asarray(evidence.held_logit, np.float64), evidence.held_labelled
    others = recall_of_others(score, held, PriorEstimate.bound(model.prior_, "bbe"))
    assert model.scores_["recall"]["value"] == others and others < (score[held] > 0).mean()
    assert model.scores_["found"]["value"] == (score[~held] > 0).mean()


def test_scores_that_are_all_equal_and_a_share_of_nothing() -> None:
    s = np.arange(10) < 3
    assert expected_f1_threshold(np.ones(10), s, ESTIMATE) < 1.0
    assert np.isfinite(expected_f1_threshold(np.arange(10.0), s, PriorEstimate(0.0, 0.0, 0.0, "bbe")))


def test_the_cautious_share_is_the_low_end_where_there_is_one() -> None:
    assert ESTIMATE.cautious == 0.2 and GIVEN.cautious == 0.3
    assert PriorEstimate.point(0.3, "km").cautious == 0.3, "an interval from 0 to 1 says nothing"


def figures(scores: PUScores) -> dict[str, float]:
    return {name: getattr(scores, name).value for name in ("precision", "f1", "recall", "pu_auc", "auc")}


def of_fit(model: PUClassifier, prior: float) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of a fit, and those of its held-out rows at some π."""
    evidence = model.model_.evidence
    assert evidence is not None
    held = figures(pu_scores(evidence.held_logit, evidence.held_labelled, prior=prior))
    return {name: model.scores_[name]["value"] for name in held}, held


def test_figures_of_a_fit_and_of_new_rows_rest_on_the_low_end() -> None:
    x, s, _ = gaussians(600)
    new, new_s, _ = gaussians(300, seed=1)
    model = quick().fit(x, s)
    low, high = model.prior_interval_
    assert not model.prior_is_bound_ and 0 < low < model.prior_ < high
    found, held = of_fit(model, low)
    assert found == pytest.approx(held, abs=1e-6)
    assert f"with the low end of that share ({low:.3f})" in model.summary()
    report = model.score_report(new, new_s)
    assert isinstance(report, PUScores) and report == pu_scores(model.decision_function(new), new_s, prior=low)
    at_value = pu_scores(model.decision_function(new), new_s, prior=model.prior_)
    assert report.f1.value < at_value.f1.value, "they rather promise too little"
    assert model.score_report(new, new_s, prior=0.4) == pu_scores(model.decision_function(new), new_s, prior=0.4)


def test_figures_rest_on_the_share_that_was_given() -> None:
    x, s, _ = gaussians(600)
    model = quick(prior=0.37).fit(x, s)
    found, held = of_fit(model, 0.37)
    assert found == pytest.approx(held, abs=1e-6) and model.prior_interval_ == (0.37, 0.37)
    report = model.score_report(x, s)
    assert isinstance(report, PUScores) and report.prior == 0.37
