from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pucl.errors import InputError
from pucl.metrics import evaluate
from pucl.numerics.auc import auc, null_error, spearman, weighted_auc
from pucl.selection import CRITERIA, PUScores, hold_out, pu_scores, select, threshold_curve

Floats = NDArray[np.float64]
PRIOR = 0.3


def normal_cdf(x: float) -> float:
    return float(torch.special.ndtr(torch.tensor(x, dtype=torch.float64)))


def draw(
    rng: np.random.Generator, *, n_p: int = 200, n_u: int = 800, gap: float = 2.0, shift: float = 0.0
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Scores N(±gap/2 + shift, 1) of a classifier on P and on an independent U: logits, s, truth."""
    y = np.concatenate([np.ones(n_p, dtype=bool), rng.random(n_u) < PRIOR])
    logits = rng.standard_normal(n_p + n_u) + np.where(y, gap / 2, -gap / 2) + shift
    return logits, np.arange(n_p + n_u) < n_p, y


def known(gap: float, shift: float) -> dict[str, float]:
    """The exact values for `draw`."""
    tpr, fpr = normal_cdf(gap / 2 + shift), normal_cdf(-gap / 2 + shift)
    accuracy = PRIOR * tpr + (1 - PRIOR) * (1 - fpr)
    found = PRIOR * tpr + (1 - PRIOR) * fpr
    precision = PRIOR * tpr / found
    return {
        "zero_one_risk": 1 - accuracy,
        "proxy_accuracy": accuracy,
        "proxy_accuracy_one_sample": 0.2 * tpr + 0.8 * accuracy,  # n_P / (n_P + n_U) = 0.2
        "auc": normal_cdf(gap / 2**0.5),
        "recall": tpr,
        "found": found,
        "precision": precision,
        "f1": 2 * precision * tpr / (precision + tpr),
    }


@pytest.mark.parametrize(("gap", "shift"), [(2.0, 0.0), (2.0, 0.5), (1.0, -0.3), (3.0, 1.0)])
def test_estimates_have_the_true_mean_and_their_stated_error(gap: float, shift: float) -> None:
    rng = np.random.default_rng(0)
    draws = [pu_scores(*draw(rng, gap=gap, shift=shift)[:2], prior=PRIOR) for _ in range(400)]
    for name, value in known(gap, shift).items():
        found = np.array([getattr(scores, name).value for scores in draws])
        stated = np.array([getattr(scores, name).error for scores in draws])
        # Precision and F1 are ratios: unbiased up to terms of order 1/n, which 2e-3 covers.
        slack = 2e-3 if name in {"precision", "f1"} else 0.0
        assert abs(found.mean() - value) < 3 * found.std() / 20 + slack, name
        if found.max() < 1:  # clipping makes the spread smaller than the error
            assert stated.mean() == pytest.approx(found.std(), rel=0.2), name


def test_single_set_accuracy_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(1)
    differences = []
    for _ in range(300):
        y = rng.random(1000) < 0.4
        s = y & (rng.random(1000) < 0.3)  # SCAR, out of one sample
        logits = rng.standard_normal(1000) + np.where(y, 1.0, -0.7)
        scores = pu_scores(logits, s, prior=float(y[~s].mean()))
        union, rest = evaluate(y, logits).accuracy, evaluate(y[~s], logits[~s]).accuracy
        differences.append((scores.proxy_accuracy_one_sample.value - union, scores.proxy_accuracy.value - rest))
    d = np.array(differences)
    assert (np.abs(d.mean(axis=0)) < 3 * d.std(axis=0) / 300**0.5).all()


def test_smooth_risks_have_the_mean_of_the_supervised_risk() -> None:
    rng = np.random.default_rng(2)
    gaps, above = [], []
    for _ in range(300):
        logits, s, y = draw(rng)
        scores = pu_scores(logits, s, prior=PRIOR)
        sign = np.where(y, 1, -1)
        supervised = (1 / (1 + np.exp(sign * logits)))[~s].mean()
        gaps.append(scores.upu_risk.value - supervised)
        above.append(scores.nnpu_risk.value - scores.upu_risk.value)
    assert abs(np.mean(gaps)) < 3 * np.std(gaps) / 300**0.5
    assert min(above) >= 0


def test_reference_values_of_the_risks() -> None:
    """Figures measured with the published nnPU code."""
    a = pu_scores([2, -1, 0.5, 0.3, -2, 1, -0.4, -3], [1] * 3 + [0] * 5, prior=0.4)
    assert a.upu_risk.value == a.nnpu_risk.value == pytest.approx(0.30210236, abs=1e-7)
    b = pu_scores([3, 2.5, 4, -5, -4, -6, -3], [1] * 3 + [0] * 4, prior=0.4)
    assert b.upu_risk.value == pytest.approx(-0.34368354, abs=1e-7)
    assert b.nnpu_risk.value == pytest.approx(0.01883604, abs=1e-7)


def test_relations_of_the_published_proxies() -> None:
    logits, s, _ = draw(np.random.default_rng(3))
    scores = pu_scores(logits, s, prior=PRIOR)
    tpr, tnr_u = (logits[s] > 0).mean(), (logits[~s] <= 0).mean()
    two_sample = 2 * PRIOR * tpr + tnr_u
    assert scores.proxy_accuracy.value == pytest.approx(two_sample - PRIOR)
    assert scores.zero_one_risk.value == pytest.approx(1 - scores.proxy_accuracy.value)
    correct, c = ((logits > 0) == s).mean(), s.mean()

    def one_sample(share: float) -> float:
        return float(2 * share * tpr + correct)

    joint, population = (1 - c) * PRIOR, (1 - c) * PRIOR + c  # P(y = 1, s = 0) and P(y = 1)
    accuracy = scores.proxy_accuracy_one_sample.value
    assert accuracy == pytest.approx(one_sample(joint) - joint)
    assert accuracy == pytest.approx(one_sample(population) - population + c - 2 * c * tpr)


def test_auc_and_its_correction() -> None:
    from sklearn.metrics import roc_auc_score

    logits, s, _ = draw(np.random.default_rng(4))
    logits = np.round(logits, 1)  # ties
    scores = pu_scores(logits, s, prior=PRIOR)
    assert scores.pu_auc.value == pytest.approx(roc_auc_score(s, logits))
    assert scores.auc.value == pytest.approx((scores.pu_auc.value - PRIOR / 2) / (1 - PRIOR))
    assert pu_scores([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0], prior=0.9).auc.value == 1  # clipped
    assert pu_scores([0.0, 1.0, 2.0, 3.0], [1, 1, 0, 0], prior=0.5).auc.value == 0


def test_ranks_against_scipy_and_loops() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(5)
    a, b = np.round(rng.normal(size=60), 1), np.round(rng.normal(size=60), 1)
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert spearman(a, np.ones(60)) == 0
    weight = rng.random(60)
    pairs = (a[:, None] > b).astype(float) + 0.5 * (a[:, None] == b)
    assert weighted_auc(a, b, weight) == pytest.approx((pairs * weight).sum() / (60 * weight.sum()))
    assert auc(a, b)[0] == pytest.approx(pairs.mean())
    null = [auc(rng.normal(size=30), rng.normal(size=50))[0] for _ in range(2000)]
    assert np.std(null) == pytest.approx(null_error(30, 50), rel=0.06)


def test_nothing_found() -> None:
    scores = pu_scores([-1.0, -2.0, -3.0, -4.0], [1, 1, 0, 0], prior=0.4)
    assert (scores.precision.value, scores.recall.value, scores.f1.value) == (0, 0, 0)
    assert scores.zero_one_risk.value == pytest.approx(0.4)
    assert scores.recall.error > 0
    assert pu_scores([1.0, 2.0, -3.0, -4.0], [1, 1, 0, 0], prior=0.4).f1.value == 0  # P found, none of U


def test_threshold_curve_equals_the_scores_at_every_threshold() -> None:
    logits, s, _ = draw(np.random.default_rng(6), n_p=40, n_u=120)
    logits = np.round(logits, 1)
    curve = threshold_curve(torch.tensor(logits), s, PRIOR)
    assert len(curve.threshold) == len(np.unique(logits[~s])) and (np.diff(curve.threshold) < 0).all()
    assert curve.found[-1] == 120 and curve.recall[-1] == 1
    assert curve.precision[-1] == pytest.approx(PRIOR)
    for i, threshold in enumerate(curve.threshold):
        scores = pu_scores(logits, s, prior=PRIOR, threshold=float(threshold))
        assert curve.precision[i] == pytest.approx(scores.precision.value)
        assert curve.recall[i] == pytest.approx(scores.recall.value)
        assert curve.f1[i] == pytest.approx(scores.f1.value)
        assert curve.found[i] == round(scores.found.value * 120)
    assert curve.f1[curve.best] == curve.f1.max()


@pytest.mark.parametrize("criterion", ["auto", *CRITERIA])
@pytest.mark.parametrize("prior", [PRIOR, None])
def test_picks_the_better_of_two(criterion: str, prior: float | None) -> None:
    """Accuracy about 0.94 against 0.80, on 100 held-out positives and 400 unlabelled rows."""
    rng = np.random.default_rng(7)
    right = 0
    for _ in range(100):
        good, s, y = draw(rng, n_p=100, n_u=400, gap=3.0)
        bad = rng.standard_normal(500) + np.where(y, 0.75, -0.75)
        right += select({"bad": bad, "good": good}, s, prior=prior, criterion=criterion).name == "good"
    assert right >= 95


def test_ties_go_to_the_first() -> None:
    logits, s, _ = draw(np.random.default_rng(8))
    for criterion in CRITERIA:
        assert select({"b": logits, "a": logits, "c": logits}, s, prior=0.3, criterion=criterion).name == "b"


def test_auto_and_the_estimated_prior() -> None:
    logits, s, _ = draw(np.random.default_rng(9), n_p=1000, n_u=4000, gap=4.0)
    given, estimated = (select({"one": logits}, s, prior=prior) for prior in (0.3, None))
    assert (given.criterion, estimated.criterion) == ("proxy_accuracy", "proxy_accuracy")
    assert given.prior == 0.3 and abs(estimated.prior - 0.3) < 0.05
    assert isinstance(given.scores["one"], PUScores)
    assert str(given).startswith("one: proxy_accuracy 0.9") and "best of 1" in str(given)
    # U below all of P: BBE says 0, which is no prior; a small one is used.
    assert 0 < select({"one": [2.0, 2.0, -1.0, -1.0]}, [1, 1, 0, 0]).prior < 0.5
    assert 0.5 < select({"one": [0.0, 0.0, 1.0, 1.0]}, [1, 1, 0, 0]).prior < 1


def test_hold_out_is_stratified_and_repeatable() -> None:
    s = np.arange(1000) % 10 == 0
    held = hold_out(s, share=0.2, seed=1)
    assert held[s].sum() == 20 and held[~s].sum() == 180
    assert (held == hold_out(s, share=0.2, seed=1)).all() and (held != hold_out(s, share=0.2, seed=2)).any()
    assert hold_out([1, 1, 0, 0], share=0.01).sum() == 2  # one of each at least
    assert hold_out([1, 1, 0, 0], share=0.99).sum() == 2  # and one of each left


LOGITS, S = [1.0, 0.5, -1.0, -2.0], [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pu_scores(LOGITS, S, prior=0),
            "pucl.pu_scores: prior must be a number strictly between 0 and 1; got 0",
        ),
        (lambda: pu_scores(LOGITS, S, prior=1), "prior must be a number strictly between 0 and 1; got 1"),
        (lambda: threshold_curve(LOGITS, S, 1.0), "pucl.threshold_curve: prior must be"),
        (lambda: select({"a": LOGITS}, S, prior=0), "pucl.select: prior must be"),
        (lambda: pu_scores(LOGITS[:3], S, prior=0.3), "logits must be of length 4, as s; got length 3"),
        (
            lambda: select({"a": LOGITS, "b": LOGITS[:3]}, S),
            r"candidates\['b'\] must be of length 4, as s; got length 3",
        ),
        (lambda: pu_scores([[1.0]], S, prior=0.3), r"logits must be a vector; got an array of shape \(1, 1\)"),
        (lambda: pu_scores(["a"], S, prior=0.3), "logits must be a vector of numbers; got list"),
        (lambda: pu_scores([*LOGITS[:3], np.nan], S, prior=0.3), "logits must be finite; got nan at row 3"),
        (lambda: pu_scores(LOGITS, [0] * 4, prior=0.3), "at least one labelled positive"),
        (lambda: pu_scores(LOGITS, S, prior=0.3, threshold=np.inf), "threshold must be a finite number; got inf"),
        (lambda: select({}, S), "candidates must be at least one name with logits; got none"),
        (lambda: select({"a": LOGITS}, S, criterion="aux"), "unknown criterion 'aux': did you mean 'auc'"),
        (
            lambda: hold_out([1, 0, 0]),
            "at least two rows of each kind, to hold one out; got 1 labelled and 2 unlabelled",
        ),
        (lambda: hold_out(S, share=1), "share must be a number strictly between 0 and 1; got 1"),
    ],
)
def test_bad_input_is_one_clear_error(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
