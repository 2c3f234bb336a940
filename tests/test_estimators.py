"""PUClassifier under the contract of scikit-learn: inputs of every kind, pipelines, scores, bad input."""

import pickle
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucl
from estimator_examples import EXPECTED, contract, gaussians, quick
from pucl import PUClassifier, PUScores, pu_scorer
from pucl.errors import InputError
from pucl.estimators.call import call_of


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_contract_of_scikit_learn() -> None:
    found = contract(PUClassifier(random_state=0))
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(EXPECTED), (
        "the list is no longer true"
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"encoder": "mlp", "epochs": 2}])
def test_rows_of_another_width_are_refused_by_every_method(how: dict[str, Any]) -> None:
    x, s, _ = gaussians()
    model = quick(**how).fit(x, s)
    for method in (model.predict, model.predict_proba, model.decision_function, model.transform):
        with pytest.raises(ValueError, match="X has 3 features, but PUClassifier is expecting 5 features as input"):
            method(x[:, :3])


def test_probabilities_decisions_and_classes_agree() -> None:
    x, s, _ = gaussians()
    model = quick().fit(x, s)
    probability = model.predict_proba(x)
    assert probability.shape == (len(x), 2) and probability.min() >= 0 and probability.max() <= 1
    assert np.allclose(probability.sum(axis=1), 1)
    assert np.array_equal(model.predict(x) == 1, model.decision_function(x) > 0)
    assert np.array_equal(probability[:, 1] > 0.5, model.decision_function(x) > 0)
    signed = quick().fit(x, 2 * s - 1)
    assert signed.classes_.tolist() == [-1, 1]
    assert np.array_equal(signed.predict(x) == 1, model.predict(x) == 1)


def test_probabilities_are_neither_extreme_nor_flat() -> None:
    """Where classes overlap, rows of probability 0.9 and more are positives about as often."""
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.5
    x = rng.standard_normal((4000, 5)) + 1.8 / 5**0.5 * y[:, None]
    s = (y & (rng.random(4000) < 0.3)).astype(int)
    model = quick().fit(x[:2000], s[:2000])
    probability, truth = model.predict_proba(x[2000:])[:, 1], y[2000:]
    free = s[2000:] == 0
    for low, high in ((0.1, 0.35), (0.35, 0.65), (0.65, 0.9), (0.9, 1.0)):
        rows = free & (probability >= low) & (probability < high)
        assert rows.sum() > 30 and low - 0.15 < truth[rows].mean() < high + 0.15


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["grey", "channels first", "channels last", "float", "bright float", "tensor"])
def test_images_in_every_layout(layout: str) -> None:
    digits = load_digits()
    images = (digits.images[:300] * 255 / 16).astype(np.uint8)
    y = digits.target[:300] % 2 == 1
    s = (y & (np.arange(300) % 3 == 0)).astype(int)
    as_given: dict[str, Any] = {
        "grey": images,
        "channels first": images[:, None],
        "channels last": images[..., None],
        "float": images / 255,
        "bright float": images.astype(float),
        "tensor": torch.from_numpy(images)[:, None],
    }
    model = quick(encoder="small_cnn", epochs=1, labeller="pupl").fit(as_given[layout], s)
    assert model.model_.schema.kind == "image" and model.model_.schema.shape == (1, 8, 8)
    assert model.choices_["view"] == "small_image" and len(model.history_) == 1
    # The same pictures, however they come: float images mean the same as those of 8 bits.
    assert np.allclose(model.decision_function(as_given[layout]), model.decision_function(images), atol=2e-3)


def test_tables_with_categories_and_missing_values() -> None:
    pd = pytest.importorskip("pandas")
    x, s, y = gaussians(300, dim=3)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame["colour"] = np.where(rng.random(300) < 0.8, np.where(y, "red", "blue"), "green")
    frame.loc[rng.random(300) < 0.1, "b"] = np.nan
    model = quick().fit(frame, pd.Series(s))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "colour"]
    assert (model.predict(frame) == y).mean() > 0.95
    shuffled = frame[["colour", "c", "a", "b"]]
    assert np.array_equal(model.predict(shuffled), model.predict(frame)), "columns are known by their names"
    with pytest.raises(InputError, match="'colour'"):
        model.predict(frame.drop(columns="colour"))
    with pytest.warns(UserWarning, match="purple"):
        model.predict(frame.assign(colour="purple"))


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_a_matrix_is_a_table_unless_it_looks_like_embeddings() -> None:
    x, s, _ = gaussians()
    assert quick().fit(x, s).model_.schema.kind == "table"
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert quick().fit(unit, s).model_.schema.kind == "vector"
    assert quick().fit(np.tile(x, 30), s).model_.schema.kind == "vector"
    assert quick(kind="table").fit(unit, s).model_.schema.kind == "table"
    codes = np.eye(4)[np.digitize(x[:, :3], [-1, 0, 1])].reshape(len(x), -1)  # all rows have the norm √3
    assert quick().fit(codes, s).model_.schema.kind == "table"
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.05, np.nan, x)
    model = quick().fit(holes, s)
    assert model.model_.schema.kind == "table" and np.isfinite(model.decision_function(holes)).all()


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_pipeline_search_clone_pickle_and_joblib(tmp_path: Any) -> None:
    x, s, y = gaussians()
    chain = make_pipeline(StandardScaler(), PCA(4), quick()).fit(x, s)
    assert (chain.predict(x) == y).mean() > 0.95
    assert pu_scorer("proxy_accuracy", prior=y[s == 0].mean())(chain, x, s) > 0.9
    assert pu_scorer("auc")(chain, x, s) > 0.5
    search = GridSearchCV(
        quick(), {"labeller": ["cvir", "pupl"], "head": ["linear", "kernel"]}, scoring=pu_scorer("auc"), cv=3
    ).fit(x, s)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all() and search.best_estimator_.prior_ > 0
    copy = clone(quick(prior=0.4))
    assert copy.get_params()["prior"] == 0.4 and not hasattr(copy, "model_")
    model = quick().fit(x, s)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    joblib.dump(model, tmp_path / "model.joblib")
    stored = joblib.load(tmp_path / "model.joblib")
    assert np.array_equal(again.decision_function(x), model.decision_function(x))
    assert np.array_equal(stored.decision_function(x), model.decision_function(x))


def test_transform_speaks_pandas() -> None:
    pd = pytest.importorskip("pandas")
    x, s, _ = gaussians()
    model = quick().set_output(transform="pandas").fit(x, s)
    frame = model.transform(x)
    assert isinstance(frame, pd.DataFrame) and list(frame.columns[:2]) == ["puclassifier0", "puclassifier1"]
    assert np.allclose(np.linalg.norm(frame.to_numpy(), axis=1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_order_of_rows_and_seeds() -> None:
    x, s, _ = gaussians()
    model = quick().fit(x, s)
    order = np.random.default_rng(1).permutation(len(x))
    assert np.allclose(model.decision_function(x[order]), model.decision_function(x)[order], atol=1e-5)
    assert np.array_equal(quick().fit(x, s).decision_function(x), model.decision_function(x))
    shuffled = quick().fit(x[order], s[order])
    assert (shuffled.predict(x) == model.predict(x)).mean() > 0.97
    state = np.random.RandomState(0)
    first = quick(random_state=state).fit(x, s).model_.record.seed
    assert first != quick(random_state=state).fit(x, s).model_.record.seed


def test_scores_without_negatives() -> None:
    x, s, _ = gaussians(600)
    x_new, s_new, y_new = gaussians(600, seed=1)
    model = quick().fit(x, s)
    report = model.score_report(x_new, s_new)
    assert isinstance(report, PUScores)
    assert model.score(x_new, s_new) == report.pu_auc.value, "the AUC of P against U, as of every classifier"
    assert 0.7 < report.pu_auc.value <= 1 - report.prior / 2 + 3 * report.pu_auc.error
    truth = (model.predict(x_new) == y_new)[s_new == 0].mean()
    assert report.prior == model.prior_interval_[0] < model.prior_, "the low end: rather too little than too much"
    assert report.proxy_accuracy.value < truth + 4 * report.proxy_accuracy.error
    known = model.score_report(x_new, s_new, prior=y_new[s_new == 0].mean())
    assert isinstance(known, PUScores)
    assert abs(known.proxy_accuracy.value - truth) < 4 * known.proxy_accuracy.error
    risk = pu_scorer("nnpu_risk")(model, x_new, s_new)
    assert risk == -report.nnpu_risk.value
    assert pu_scorer("auc", prior=0.2)(model, x_new, s_new) == report.pu_auc.value
    with pytest.raises(InputError, match="did you mean 'proxy_accuracy'"):
        pu_scorer("proxy_acuracy")


@pytest.mark.parametrize(
    ("s", "words"),
    [
        (["yes", "no"] * 150, "got 'yes'"),
        (np.arange(300) % 3, r"the values \[0, 1, 2\]"),
        (np.ones(300), "at least one unlabelled row"),
        (np.zeros(300), "at least one labelled positive"),
        (np.eye(300)[0], "at least two rows of each kind"),
        (np.ones(299), "of length 300"),
        (np.where(np.arange(300) < 9, np.nan, 1), "NaN at row 0"),
        (None, "s must be given"),
    ],
)
def test_wrong_labels(s: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        quick().fit(gaussians()[0], s)
    assert "\n" not in str(error.value)


def test_misaligned_index() -> None:
    pd = pytest.importorskip("pandas")
    x, s, _ = gaussians()
    frame = pd.DataFrame(x)
    with pytest.raises(InputError, match="a Series with the index of X"):
        quick().fit(frame, pd.Series(s).sample(frac=1, random_state=0))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"encoder": "resnet8"}, "did you mean 'resnet18'"),
        ({"labeller": "cvr"}, "did you mean 'cvir'"),
        ({"objective": "punc"}, "did you mean 'punce'"),
        ({"head": "nnpu"}, "known: auto, kernel, knn, linear, mlp, trees"),
        ({"prior": 1.0}, "strictly between 0 and 1"),
        ({"prior": "bb"}, "did you mean 'bbe'"),
        ({"epochs": 0}, "epochs must be a whole number ≥ 1"),
        ({"random_state": -1}, "random_state must be"),
        ({"kind": "sound"}, "one of image, table, vector"),
        ({"objective": "punce", "encoder": "mlp"}, "PUClassifier: prior must be a number or an estimator"),
        ({"device": "tpu"}, "device must be"),
    ],
)
def test_wrong_parameters(how: dict[str, Any], words: str) -> None:
    x, s, _ = gaussians()
    with pytest.raises(InputError, match=words):
        quick(**how).fit(x, s)


def test_rows_that_cannot_be_used() -> None:
    x, s, _ = gaussians()
    for bad, words in ((np.inf, "infinity"), (1e400, "infinity")):
        with pytest.raises(ValueError, match=words):
            quick().fit(np.where(np.arange(300)[:, None] == 7, bad, x), s)
    with pytest.raises(ValueError, match="at least two different"):
        quick().fit(np.ones_like(x), s)
    with pytest.warns(UserWarning, match="constant columns are dropped: 'x0'"):
        model = quick().fit(np.where(np.arange(5) == 0, 1.0, x), s)
    assert model.model_.schema.shape == (4,)


def test_saved_and_loaded(tmp_path: Any) -> None:
    x, s, _ = gaussians()
    model = quick().fit(x, s)
    loaded = PUClassifier.load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.decision_function(x), model.decision_function(x))
    assert loaded.summary() == model.summary() and loaded.prior_ == model.prior_
    page = loaded.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<html" in page and "://" not in page


def test_own_data_brings_its_s() -> None:
    cancer = load_breast_cancer()
    y = cancer.target == 0
    data = pucl.read(cancer.data, positives=np.flatnonzero(y)[::3].tolist(), kind="table")
    model = quick().fit(data)
    assert (model.predict(cancer.data) == y).mean() > 0.9
    with pytest.raises(InputError, match="left out for data from pucl.read, which has its own"):
        quick().fit(data, y)


def test_the_record_has_the_call_that_fits_again() -> None:
    x, s, _ = gaussians(120)
    model = quick(prior=0.3, epochs=3, random_state=None, kind="table").fit(x, s)
    call = str(model.model_.record.command)
    again = eval(call, {"pucl": pucl, "X": x, "s": s})  # noqa: S307
    assert np.array_equal(again.decision_function(x), model.decision_function(x))
    assert "prior=0.3" in call and "epochs=3" in call and "objective" not in call and "random_state=" in call
    network = torch.nn.Sequential(torch.nn.Linear(5, 4))
    assert "encoder=<Sequential>" in call_of(quick(encoder=network), s=s, negatives=None, seed=0)
    assert call_of(PUClassifier(), s=None, negatives=[3], seed=7).endswith(
        "(random_state=7).fit(X, negatives=negatives)"
    )
