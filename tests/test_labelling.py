"""From scores to labels: the best K, a wanted recall or precision, and models that only know a bound on the share."""

import csv
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from estimator_examples import gaussians
from model_examples import N, changed, table_model, write_table
from pucl import PUClassifier, pu_scorer
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError
from pucl.fitting.label import label
from pucl.models.folder import load_model, save_model
from pucl.models.labelling import threshold_for
from pucl.models.model import Model
from pucl.models.scoring import COLUMNS_OF_A_BOUND, ScoredFile, score_to_file, scores
from pucl.priors import PriorEstimate
from pucl.selection import PUScores, pu_scores, ranking_scores
from pucl.selection.thresholds import precision_threshold, recall_threshold


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("people")
    return load_model(save_model(folder / "model", table_model(folder)))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_table(tmp_path / "t.csv")


def bounded(model: Model) -> Model:
    return replace(model, record=replace(model.record, prior=PriorEstimate.bound(0.46, "cvir")))


def columns(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))


def logits(model: Model, source: Path) -> NDArray[Any]:
    return np.concatenate([found.score for found in scores(model, source)])


@pytest.mark.parametrize("k", [1, 7, N])
def test_the_best_rows_are_labelled(people: Model, source: Path, tmp_path: Path, k: int) -> None:
    progress: list[int] = []
    done = score_to_file(people, source, tmp_path / "s.csv", top=k, batch_size=25, on_progress=progress.append)
    assert done == ScoredFile(N, k, tmp_path / "s.csv", f"the {k} best") and progress == [25, 50, 60] * 2
    labelled = np.array(columns(tmp_path / "s.csv")["label"]) == "1"
    best = np.argsort(-logits(people, source), kind="stable")[:k]
    assert np.flatnonzero(labelled).tolist() == sorted(best.tolist())


def test_equal_rows_are_taken_in_their_order(people: Model, tmp_path: Path) -> None:
    rows = [["r", 50, "Ulm", 1.7, 0]] * 30
    done = score_to_file(people, write_table(tmp_path / "same.csv", rows), tmp_path / "s.csv", top=11, batch_size=4)
    assert done.positive == 11
    assert columns(tmp_path / "s.csv")["label"] == ["1"] * 11 + ["0"] * 19


def test_two_passes_warn_once(people: Model, tmp_path: Path) -> None:
    source = write_table(tmp_path / "new.csv", changed("city", "Rome", 3))
    with pytest.warns(ColumnWarning) as caught:
        score_to_file(people, source, tmp_path / "s.csv", top=5)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"top": 0}, "top must be a whole number ≥ 1; got 0"),
        ({"top": 61}, "top must be at most the number of rows, 60; got 61"),
        ({"top": 5, "recall": 0.5}, "top and recall must be given one at a time"),
        ({"threshold": 0.5, "precision": 0.9}, "threshold and precision must be given one at a time"),
        ({"recall": 1.5}, "recall must be a number strictly between 0 and 1; got 1.5"),
        ({"precision": 0}, "precision must be a number strictly between 0 and 1; got 0"),
    ],
)
def test_bad_rules_write_nothing(
    people: Model, source: Path, tmp_path: Path, rule: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        score_to_file(people, source, tmp_path / "s.csv", **rule)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_rules_that_a_bound_cannot_give(people: Model, source: Path, tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = [{"precision": 0.9}, {"threshold": 0.5}]
    for rule in rules:
        with pytest.raises(InputError, match="must be left out where the share of positives is only bounded") as caught:
            score_to_file(bounded(people), source, tmp_path / "s.csv", **rule)
        assert "recall=" in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "s.csv").exists()


def test_a_bound_gives_scores_and_no_probabilities(people: Model, source: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    model = bounded(people)
    done = score_to_file(model, source, tmp_path / "s.csv")
    score_to_file(model, source, tmp_path / "s.parquet", top=4)
    written, stored = columns(tmp_path / "s.csv"), pq.read_table(tmp_path / "s.parquet").to_pydict()
    assert tuple(written) == tuple(stored) == COLUMNS_OF_A_BOUND == ("id", "score", "label")
    expected = logits(model, source)
    np.testing.assert_allclose(np.array(written["score"], float), expected, rtol=1e-7)
    assert (np.array(written["label"]) == "1").tolist() == (expected > 0).tolist()
    assert done.rule == "above the model's own threshold" and sum(stored["label"]) == 4


def held(model: Model) -> tuple[NDArray[Any], NDArray[Any]]:
    assert model.evidence is not None
    return np.asarray(model.evidence.held_logit, np.float64), model.evidence.held_labelled


@pytest.mark.parametrize("recall", [0.1, 0.5, 0.8, 0.99])
def test_a_wanted_recall_is_reached_and_no_more(people: Model, source: Path, tmp_path: Path, recall: float) -> None:
    score, s = held(people)
    at = threshold_for(bounded(people), recall=recall)
    reached = (score[s] > at).mean()
    assert recall <= reached < recall + 1 / s.sum() + 1e-9
    done = score_to_file(people, source, tmp_path / "s.csv", recall=recall)
    assert done.positive == (logits(people, source) > at).sum()
    assert done.rule == f"above the threshold that finds {recall:.0%} of hidden positives"


def overlapping() -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.random(4000) < 0.3
        yield rng.normal(size=4000) + 2 * y, y & (rng.random(4000) < 0.3), y


@pytest.mark.parametrize("precision", [0.6, 0.8, 0.95])
def test_a_wanted_precision_is_reached(precision: float) -> None:
    true = []
    for score, s, y in overlapping():
        prior = float(y[~s].mean())
        at = precision_threshold(score, s, precision, prior=prior)
        assert pu_scores(score, s, prior=prior, threshold=at).precision.value >= precision - 1e-9
        true.append(y[~s & (score > at)].mean())
    assert np.mean(true) == pytest.approx(precision, abs=0.05)


def test_a_precision_nobody_reaches_is_refused() -> None:
    score, s, _ = next(overlapping())
    with pytest.raises(InputError, match="precision must be at most 0.0.*; got 0.9"):
        precision_threshold(score, s, 0.9, prior=0.001)


def test_ties_at_the_threshold_of_a_recall_are_all_above_it() -> None:
    assert (np.zeros(6) > recall_threshold(np.zeros(6), [1, 1, 1, 0, 0, 0], 0.5)).all()


def test_models_without_held_out_rows_have_no_thresholds(people: Model) -> None:
    with pytest.raises(InputError, match="the model must be one with held-out positives"):
        threshold_for(replace(people, evidence=None), recall=0.5)
    several: list[dict[str, Any]] = [{}, {"recall": 0.5, "precision": 0.5}]
    for wanted in several:
        with pytest.raises(InputError, match="recall and precision must be given one at a time"):
            threshold_for(people, **wanted)


@pytest.fixture(scope="module")
def classifier() -> PUClassifier:
    x, s, _ = gaussians(300)
    return PUClassifier(encoder="raw", head="linear", labeller="cvir", prior=0.3, random_state=0).fit(x, s)


def test_the_estimator_gives_the_best_rows(classifier: PUClassifier) -> None:
    x, _, y = gaussians(300, seed=1)
    best = classifier.top(x, 20)
    score = classifier.decision_function(x)
    assert len(set(best)) == 20 and (np.diff(score[best]) <= 0).all() and score[best].min() == np.sort(score)[-20]
    assert y[best].mean() > 0.9
    for k, message in ((0, "k must be a whole number ≥ 1"), (301, "k must be at most the number of rows, 300")):
        with pytest.raises(InputError, match=f"PUClassifier: {message}"):
            classifier.top(x, k)


def test_the_estimator_gives_thresholds(classifier: PUClassifier) -> None:
    x, _, y = gaussians(2000, seed=1)
    score = classifier.decision_function(x)
    assert (score[y == 1] > classifier.threshold_for(recall=0.8)).mean() == pytest.approx(0.8, abs=0.15)
    assert classifier.threshold_for(recall=0.5) > classifier.threshold_for(recall=0.9)
    with pytest.raises(InputError, match="PUClassifier: recall and precision must be given one at a time"):
        classifier.threshold_for()


def test_the_estimator_says_what_the_record_says(classifier: PUClassifier, tmp_path: Path) -> None:
    assert classifier.verdict_.startswith(("useful: ", "weak: ranking only: ")) and not classifier.prior_is_bound_
    assert set(classifier.lift_) <= {0.01, 0.05, 0.1} and all(each["value"] > 1 for each in classifier.lift_.values())
    assert classifier.score_ranges_ == {} and classifier.summary().endswith(f"\nVerdict: {classifier.verdict_}.")
    again = PUClassifier.load(classifier.save(tmp_path / "model"))
    assert (again.verdict_, again.lift_) == (classifier.verdict_, classifier.lift_)


def test_an_estimator_that_knows_a_bound_only(classifier: PUClassifier, tmp_path: Path) -> None:
    record = classifier.model_.record
    score, s = held(classifier.model_)
    record = replace(
        record,
        prior=PriorEstimate.bound(0.46, "cvir"),
        metrics=ranking_scores(score, s),
        score_ranges={"precision": (0.0, 0.55), "f1": (0.0, 0.61), "accuracy": (0.42, 0.83)},
    )
    model = PUClassifier.load(save_model(tmp_path / "model", replace(classifier.model_, record=record)))
    assert model.prior_is_bound_ and (model.prior_, model.prior_interval_) == (0.46, (0.0, 0.46))
    assert set(model.scores_) == {"pu_auc", "recall", "found"} and model.score_ranges_["f1"] == (0.0, 0.61)
    said = model.summary()
    bound = "at most 46 %, it could be far less; nothing in this data can tell; pass prior= if you know it."
    assert f"Positives among the unlabelled rows: {bound}\n" in said
    assert "precision at most 0.55, F1 at most 0.61, accuracy 0.42 to 0.83" in said
    assert "precision 0" not in said and said.index("recall") < said.index("lift") < said.index(
        "AUC against unlabelled"
    )
    x, s_new, _ = gaussians(300, seed=1)
    report = model.score_report(x, s_new)
    assert not isinstance(report, PUScores) and isinstance(model.score_report(x, s_new, prior=0.3), PUScores)
    assert model.threshold_for(recall=0.5) == classifier.threshold_for(recall=0.5)
    with pytest.raises(InputError, match="PUClassifier: precision must be left out"):
        model.threshold_for(precision=0.8)
    assert pu_scorer("auc")(model, x, s_new) == report.pu_auc.value
    with pytest.raises(InputError, match="prior must be given for a score that depends on it; got only the bound 0.46"):
        pu_scorer("f1")(model, x, s_new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(x).tolist() == classifier.predict(x).tolist()


def test_held_out_scores_are_on_the_scale_of_the_model(classifier: PUClassifier) -> None:
    """A threshold from held-out rows is of no use where the model scores on another scale."""
    evidence, temperature = classifier.model_.evidence, classifier.model_.head.temperature
    assert evidence is not None and abs(temperature - 1) > 0.05, "or this shows nothing"
    spread = [np.subtract(*np.quantile(part, [0.9, 0.1])) for part in (held(classifier.model_)[0], evidence.quantiles)]
    assert spread[0] == pytest.approx(spread[1], rel=0.2)


def test_a_fit_that_finds_a_bound_promises_nothing_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bound = PriorEstimate.bound(0.7, "cvir")
    monkeypatch.setattr("pucl.fitting.fit.label", lambda *given: replace(label(*given), prior=bound))
    x, s, _ = gaussians(300)
    model = PUClassifier(encoder="raw", head="linear", labeller="cvir", random_state=0).fit(x, s)
    assert model.prior_is_bound_ and set(model.scores_) == {"pu_auc", "recall", "found"}
    assert set(model.score_ranges_) == {"precision", "f1", "accuracy"}
    low, high = model.score_ranges_["precision"]
    found, recall = model.scores_["found"]["value"], model.scores_["recall"]["value"]
    assert low == 0 and high == pytest.approx(min(0.7 * recall, found) / found)
    assert all(candidate.accuracy is None for candidate in model.model_.record.candidates)
    page = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "at most 70 %, it could be far less" in page and "at most 70 %" in model.summary()
