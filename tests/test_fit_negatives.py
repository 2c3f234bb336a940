"""Confirmed negatives in a whole fit: π becomes known, estimates come nearer to the truth, and lists hold U only."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_validate

from estimator_examples import gaussians, quick
from pucl import PUClassifier, read
from pucl.errors import InputError, RunWarning
from pucl.fitting.average import fast_first
from pucl.fitting.calibrate import at_share, calibrated
from pucl.fitting.compare import Candidate, Judged, choose
from pucl.fitting.encode import encode
from pucl.fitting.plan import FitOptions, FitPlan, plan_fit
from pucl.fitting.recording import Hidden
from pucl.metrics import evaluate
from pucl.models.schema import Schema
from pucl.ranking.separability import plausible_share
from pucl.selection import pu_scores, simple_rivals

Bools = NDArray[np.bool_]
Problem = tuple[NDArray[np.float32], Bools, Bools, Bools]
NO_HEAD = torch.nn.Identity()


def overlapping(
    seed: int, *, gap: float = 1.5, prior: float = 0.2, sizes: tuple[int, int, int] = (100, 1500, 100)
) -> Problem:
    """Two Gaussians that overlap in one of six columns, n_P, n_U and n_N rows: x, s, negatives, truth."""
    r, (n_p, n_u, n_n) = np.random.default_rng(seed), sizes
    y = np.concatenate([np.ones(n_p, dtype=bool), r.random(n_u) < prior, np.zeros(n_n, dtype=bool)])
    x = r.normal(size=(len(y), 6))
    x[:, 0] += gap * y
    row = np.arange(len(y))
    return x.astype(np.float32), row < n_p, row >= n_p + n_u, y


def plan_of(s: Any, negative: Any, **options: Any) -> FitPlan:
    x = torch.randn(len(s), 3, generator=torch.Generator().manual_seed(0))
    return plan_fit(x, s, Schema("vector", (3,)), FitOptions(**options), torch.device("cpu"), negative=negative)


def test_negatives_do_not_make_classes_look_separate() -> None:
    """They make π known where the rows say nothing; that is no reason to try nothing slower."""
    s, negative = np.arange(300) < 60, np.arange(300) >= 250
    plan, average = fast_first(plan_of(s, negative))
    assert average is not None and not plan.settled
    assert not plausible_share(average.logits, s, negative=negative).is_bound


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"encoder": "raw", "labeller": "cvir", "head": "linear"}], ids=["average", "cvir"])
def test_the_share_of_overlapping_classes_becomes_known(how: dict[str, Any]) -> None:
    """Four seeds: the error of π̂ is that of 100 negatives; taking the bound for π is far off in π and precision."""
    errors = []
    for seed in range(4):
        x, s, negative, y = overlapping(seed)
        free = ~(s | negative)
        alone = PUClassifier(random_state=0, **how).fit(x[~negative], s[~negative])
        model = PUClassifier(random_state=0, **how).fit(x, s, negatives=negative)
        assert alone.prior_is_bound_ and not model.prior_is_bound_ and model.score_ranges_ == {}
        assert model.model_.record.prior.method == "adjusted_count"
        share, found, found_alone = y[free].mean(), *(one.predict(x)[free] == 1 for one in (model, alone))
        kept = alone.model_.evidence
        assert kept is not None
        at_bound = pu_scores(kept.held_logit, kept.held_labelled, prior=alone.prior_).precision.value
        errors.append(
            [
                model.prior_ - share,
                alone.prior_ - share,
                model.scores_["precision"]["value"] - y[free][found].mean(),
                at_bound - y[free][found_alone].mean(),
                model.scores_["specificity"]["value"] - (model.predict(x)[free & ~y] == 0).mean(),
                model.scores_["pn_auc"]["value"] - evaluate(y[free], model.decision_function(x)[free]).auc,
            ]
        )
        pseudo = model.pseudo_labels_
        assert not pseudo.labels[negative].any() and pseudo.labels[s].all()
        assert float(pseudo.labels[free].float().mean()) == pytest.approx(pseudo.prior, abs=0.01)
        assert pseudo.prior == pytest.approx(model.prior_, abs=0.02)
    share_with, share_alone, precision_with, precision_alone, *of_negatives = np.abs(errors).mean(axis=0)
    assert share_with < 0.1 < share_alone and precision_with < precision_alone - 0.05
    assert max(of_negatives) < 0.06


@pytest.mark.slow
def test_the_ranking_of_new_rows_does_not_lose() -> None:
    """U is mostly positive here, so that negatives are hard to come by without the confirmed ones."""
    gains = []
    for seed in range(4):
        x, s, negative, _ = overlapping(seed, prior=0.6, sizes=(100, 800, 100))
        new, _, _, y = overlapping(100 + seed, prior=0.5, sizes=(1, 4000, 1))
        alone = PUClassifier(random_state=0).fit(x[~negative], s[~negative])
        model = PUClassifier(random_state=0).fit(x, s, negatives=negative)
        gains.append(evaluate(y, model.decision_function(new)).auc - evaluate(y, alone.decision_function(new)).auc)
    assert np.mean(gains) > 0


@pytest.mark.slow
def test_what_a_model_says_of_them(tmp_path: Path) -> None:
    x, s, y = gaussians(400)
    negative = ~y & (np.arange(400) % 4 == 0)
    model = quick().fit(x, s, negatives=np.flatnonzero(negative))
    n_p, n_n = int(s.sum()), int(negative.sum())
    rows = model.model_.record.rows
    assert (rows.n, rows.labelled, rows.unlabelled, rows.negative) == (400, n_p, 400 - n_p - n_n, n_n)
    assert f"400 rows (table), {n_p} of them labelled positives and {n_n} confirmed negatives." in model.summary()
    assert "specificity" in model.summary()
    page = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<strong>{n_n} confirmed negatives</strong>" in page
    assert "measured on confirmed negatives" in page and "<dt>Confirmed negatives</dt>" in page
    again = PUClassifier.load(model.save(tmp_path / "model"))
    assert again.model_.record == model.model_.record and again.summary() == model.summary()
    plain = quick().fit(x, s)
    assert plain.model_.record.fingerprint != model.model_.record.fingerprint
    assert "confirmed" not in plain.summary()
    assert "Confirmed negatives" not in plain.report(tmp_path / "plain.html").read_text(encoding="utf-8")


def test_what_is_kept_to_look_at_is_p_and_u() -> None:
    x, s, y = gaussians(400)
    negative = ~y & (np.arange(400) % 4 == 0)
    model = quick().fit(x, s, negatives=negative).model_
    kept, free = model.evidence, (s == 0) & ~negative
    assert kept is not None and kept.n_unlabelled == len(kept.quantiles) == free.sum()
    assert len(kept.top) == len(kept.unsure) == min(200, free.sum())
    assert free[kept.top.row].all() and free[kept.unsure.row].all() and not negative[kept.points.row].any()
    assert len(kept.held_logit) == len(kept.held_labelled) == (~negative).sum()


def test_folds_and_what_is_no_part_of_u() -> None:
    s, negative = np.arange(100) < 20, np.arange(100) >= 70
    plan = plan_of(s, np.flatnonzero(negative))
    for kind in (s, negative, ~(s | negative)):
        assert np.ptp(np.bincount(plan.fold.numpy()[kind], minlength=5)) == 0
    assert plan.n_unlabelled == 50 and plan.negatives is not None and (plan.negatives == negative).all()
    assert torch.equal(plan_of(s, None).fold, plan_of(s, np.zeros(100, bool)).fold)
    scarce = plan_of(s, np.arange(100) >= 22)
    assert (scarce.n_folds, scarce.n_unlabelled) == (2, 2)
    with pytest.raises(InputError, match="^PUClassifier: negatives must be few enough to leave 2 .*; got 79, which le"):
        plan_of(s, np.arange(100) >= 21)


def test_thresholds_and_temperatures_are_those_of_p_and_u() -> None:
    rng = np.random.default_rng(0)
    s, negative = np.arange(600) < 100, np.arange(600) >= 400
    logits = rng.normal(size=600) + 2 * s
    candidate = Candidate("raw", torch.zeros(600, 1), "cvir", "linear", (0,))
    with_them, without = plan_of(s, negative), plan_of(s[:400], None)
    judged, of_p_and_u = Judged(candidate, logits), Judged(candidate, logits[:400])
    logits[400:] = -50.0  # confirmed negatives far away change nothing
    shifted, plain = at_share(judged, with_them.unlabelled, 0.2), at_share(of_p_and_u, without.unlabelled, 0.2)
    np.testing.assert_array_equal(shifted.logits[:400], plain.logits)
    assert calibrated(NO_HEAD, judged, with_them, 0.2).temperature == (
        calibrated(NO_HEAD, of_p_and_u, without, 0.2).temperature
    )


def test_a_candidate_is_not_chosen_by_its_ranking_of_confirmed_negatives() -> None:
    rng = np.random.default_rng(0)
    s, negative = np.arange(600) < 100, np.arange(600) >= 400
    candidate = Candidate("raw", torch.zeros(600, 1), "cvir", "linear", (0,))
    first, second = (Judged(candidate, rng.normal(size=600) + 1.5 * s) for _ in range(2))
    second.logits[negative] = -9.0
    assert choose([first, second], s) == 1 and choose([first, second], s, negative) == 0


def test_scores_where_hardly_any_row_of_u_was_judged() -> None:
    s, negative = np.arange(40) < 20, np.arange(40) >= 22
    plan = plan_of(s, negative)
    logits = np.where(plan.fold.numpy() == 0, 1.0, np.nan)
    hidden = Hidden.of(plan, Judged(Candidate("raw", torch.zeros(40, 1), "cvir", "linear", (0,)), logits))
    assert hidden.negative is None and len(hidden.logits) == 11 and hidden.labelled.sum() == 10
    everyone = Hidden.of(plan, Judged(Candidate("raw", torch.zeros(40, 1), "cvir", "linear", (0, 1)), np.ones(40)))
    assert everyone.negative is not None and everyone.negative.sum() == 18


def test_rivals_are_judged_on_p_and_u() -> None:
    x, s, _ = gaussians(200)
    negative = (s == 0) & (np.arange(200) % 3 == 0)
    with_them = simple_rivals(x, s, negatives=negative)
    alone = simple_rivals(x[~negative], s[~negative])
    assert with_them.keys() == alone.keys()
    for name, score in with_them.items():
        assert np.isnan(score[negative]).all()
        np.testing.assert_array_equal(score[~negative], alone[name])


def test_training_takes_them_for_unlabelled_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share that an objective is given is that of all rows it takes for unlabelled."""
    seen: dict[str, Any] = {}

    class Stop(Exception):  # noqa: N818
        pass

    def pretend(_rows: Any, shown: torch.Tensor, **how: Any) -> None:
        seen.update(how, shown=shown)
        raise Stop

    monkeypatch.setattr("pucl.fitting.encode.pretrain", pretend)
    s, negative = np.arange(100) < 20, np.arange(100) >= 60
    plan = plan_of(s, negative, encoder="mlp", prior=0.4)
    with pytest.raises(Stop):
        encode(plan)
    assert seen["prior"] == pytest.approx(0.2) and not seen["shown"][20:].any()


def test_negatives_picked_by_their_scores_are_not_counted() -> None:
    x, s, negative, _ = overlapping(0, sizes=(100, 600, 0))
    picked = np.argsort(-x[:, 0] + 100 * s)[:60]
    with pytest.warns(RunWarning, match="they do not look like a random sample of all negatives"):
        model = quick().fit(x, s, negatives=picked)
    assert model.prior_is_bound_ and not model.pseudo_labels_.labels[picked].any() and not negative.any()
    with pytest.warns(RunWarning, match="without the 5 negatives: at least 10 are needed"):
        quick().fit(x, s, negatives=picked[:5])
    named = quick(prior="bbe").fit(x, s, negatives=picked)  # a named estimator does not count them
    assert named.model_.record.prior.method == "bbe"
    assert quick(prior=0.2).fit(x, s, negatives=picked).prior_ == 0.2


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
@pytest.mark.parametrize("fine_tune", [False, True])
def test_images_with_a_trained_encoder(fine_tune: bool) -> None:
    digits = load_digits()
    images, y = (digits.images[:600] * 15).astype(np.uint8), digits.target[:600] % 2 == 1
    s, negative = y & (np.arange(600) % 3 == 0), ~y & (np.arange(600) % 5 == 0)
    model = PUClassifier(encoder="small_cnn", epochs=3, fine_tune=fine_tune, random_state=0)
    model.fit(images, s, negatives=negative)
    free = ~(s | negative)
    assert not model.pseudo_labels_.labels[negative].any() and not model.prior_is_bound_
    assert abs(model.prior_ - y[free].mean()) < 0.15
    assert evaluate(y[free], model.decision_function(images)[free]).auc > 0.85
    assert model.scores_["specificity"]["value"] > 0.6
    assert model.choices_["objective"] == "pucl"


@pytest.mark.slow
def test_data_that_were_read_and_cross_validation() -> None:
    x, s, y = gaussians()
    negative = ~y & (np.arange(len(y)) % 3 == 0)
    of_arrays = quick().fit(x, s, negatives=negative)
    of_data = quick().fit(read(x, label=s, negatives=np.flatnonzero(negative), kind="table"))
    np.testing.assert_array_equal(of_arrays.decision_function(x), of_data.decision_function(x))
    found = cross_validate(
        quick(), x, s, params={"negatives": negative}, cv=3, return_estimator=True, scoring="roc_auc"
    )
    assert (found["test_score"] > 0.6).all()
    assert sum(each.model_.record.rows.negative for each in found["estimator"]) == 2 * negative.sum()


def test_a_score_report_of_other_rows() -> None:
    x, s, y = gaussians()
    negative = ~y & (np.arange(len(y)) % 3 == 0)
    model = quick().fit(x, s, negatives=negative)
    new, t, truth = gaussians(seed=1)
    rows = np.flatnonzero(~truth)[:40]
    scores = model.score_report(new, t, negatives=rows)
    assert scores.specificity is not None and scores.specificity.value == (model.predict(new)[rows] == 0).mean()
    free = np.setdiff1d(np.arange(len(new)), rows)
    assert replace(scores, specificity=None, pn_auc=None) == model.score_report(new[free], t[free])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The share of positives is estimated without:pucl.errors.RunWarning")
@pytest.mark.parametrize("n_u", [2, 3, 6])
def test_very_few_unlabelled_rows_remain(n_u: int) -> None:
    x, s, negative, _ = overlapping(0, gap=6.0, sizes=(30, n_u, 30))
    model = PUClassifier(random_state=0).fit(x, s, negatives=negative)
    known = s | negative
    assert model.model_.record.rows.unlabelled == n_u
    assert evaluate(s[known], model.decision_function(x)[known]).auc > 0.99
