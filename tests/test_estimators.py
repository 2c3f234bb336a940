"""The scikit-learn face: contract, inputs of every kind, choices, bad input."""

import pickle
import warnings
from pathlib import Path
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
from sklearn.utils.estimator_checks import check_estimator

import pucl
from pucl import PriorEstimator, PseudoLabeler, PUBaseline, PUClassifier, PUEncoder, pu_scorer
from pucl.encoders.inputs import Encoder, Standardise
from pucl.errors import InputError
from pucl.fitting.compare import Candidate, Judged, choose
from pucl.fitting.fit import fit
from pucl.fitting.plan import FitOptions
from pucl.fitting.tune import WAYS
from pucl.models.schema import Schema
from pucl.training.pretraining import Pretrained

Array = np.ndarray[Any, np.dtype[Any]]
S_IS_NO_CLASS = (
    "s says which rows are labelled: it is 0 and 1 (or −1 and 1), both there, and errors say so in our words"
)
S_IS_CALLED_S = "the second argument is called s, since it is not the truth y"
EXPECTED = {
    "check_fit_score_takes_y": S_IS_CALLED_S,
    "check_n_features_in_after_fitting": S_IS_CALLED_S,  # calls score(X, y=y); the other methods are tested below
    "check_estimators_dtypes": S_IS_NO_CLASS,
    "check_classifier_data_not_an_array": S_IS_NO_CLASS,
    "check_classifiers_one_label": S_IS_NO_CLASS,
    "check_classifiers_classes": S_IS_NO_CLASS,
    "check_classifiers_regression_target": S_IS_NO_CLASS,
    "check_classifier_not_supporting_multiclass": S_IS_NO_CLASS,
    "check_fit2d_1feature": S_IS_NO_CLASS,
}


def gaussians(n: int = 300, dim: int = 5, seed: int = 0) -> tuple[Array, Array, Array]:
    """Two classes 4 apart, a third of the positives labelled: x, s, truth."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    x = rng.standard_normal((n, dim)) + 4 / dim**0.5 * y[:, None]
    return x, (y & (rng.random(n) < 1 / 3)).astype(int), y


def quick(**how: Any) -> PUClassifier:
    return PUClassifier(**{"encoder": "raw", "labeller": "cvir", "head": "linear", "random_state": 0, **how})


@pytest.mark.usefixtures("one_draw")
def test_contract_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks feed constant columns and few rows on purpose
        found = check_estimator(
            PUClassifier(random_state=0), expected_failed_checks=EXPECTED, on_fail=None, on_skip=None
        )
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(EXPECTED), (
        "the list is no longer true"
    )


@pytest.mark.parametrize("how", [{}, {"encoder": "mlp", "epochs": 2}])
def test_rows_of_another_width_are_refused_by_every_method(how: dict[str, Any]) -> None:
    x, s, _ = gaussians()
    model = quick(**how).fit(x, s)
    for method in (model.predict, model.predict_proba, model.decision_function, model.transform):
        with pytest.raises(ValueError, match="X has 3 features, but PUClassifier is expecting 5 features as input"):
            method(x[:, :3])


def test_defaults_learn_and_say_what_they_picked(capsys: pytest.CaptureFixture[str]) -> None:
    x, s, y = gaussians(400)
    model = PUClassifier(random_state=0, verbose=True).fit(x, s)
    assert (model.predict(x) == y).mean() > 0.95
    assert model.choices_["encoder"] == "raw" and "too few rows" in model.reasons_[0]
    assert "Model: encoder raw" in capsys.readouterr().out
    truth = y[s == 0].mean()
    low, high = model.prior_interval_
    assert abs(model.prior_ - truth) < 0.07 and low <= model.prior_ <= high
    assert model.pseudo_labels_.labels[s == 1].all() and model.history_ == []
    estimated = model.scores_["proxy_accuracy"]
    assert abs(estimated["value"] - (model.predict(x) == y)[s == 0].mean()) < 4 * estimated["error"]


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


@pytest.mark.usefixtures("one_draw")
def test_a_matrix_is_a_table_unless_it_looks_like_embeddings() -> None:
    x, s, _ = gaussians()
    assert quick().fit(x, s).model_.schema.kind == "table"
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert quick().fit(unit, s).model_.schema.kind == "vector"
    assert quick().fit(np.tile(x, 30), s).model_.schema.kind == "vector"
    assert quick(kind="table").fit(unit, s).model_.schema.kind == "table"
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.05, np.nan, x)
    model = quick().fit(holes, s)
    assert model.model_.schema.kind == "table" and np.isfinite(model.decision_function(holes)).all()


@pytest.mark.usefixtures("one_draw")
def test_prior_given_named_or_estimated() -> None:
    x, s, _ = gaussians(600)
    given = quick(prior=0.3).fit(x, s)
    assert given.prior_ == 0.3 and given.prior_interval_ == (0.3, 0.3)
    unlabelled = torch.from_numpy(s == 0)
    assert float(given.pseudo_labels_.labels[unlabelled].float().mean()) == pytest.approx(0.3, abs=0.005)
    for prior in (0.15, 0.3, 0.6):
        assert quick(prior=prior).fit(x, s).predict(x)[s == 0].mean() == pytest.approx(prior, abs=0.005)
    named = quick(prior="dedpul").fit(x, s)
    assert named.model_.record.prior.method == "dedpul"
    contrast = quick(encoder="mlp", epochs=1, prior=0.3).fit(x, s)
    assert contrast.choices_["objective"] == "punce"
    assert quick(encoder="mlp", epochs=1).fit(x, s).choices_["objective"] == "pucl"


@pytest.mark.usefixtures("one_draw")
def test_pipeline_search_clone_pickle_and_joblib(tmp_path: Any) -> None:
    x, s, y = gaussians()
    chain = make_pipeline(StandardScaler(), PCA(4), quick()).fit(x, s)
    assert (chain.predict(x) == y).mean() > 0.95
    assert pu_scorer("proxy_accuracy")(chain, x, s) > 0.9 and pu_scorer("auc")(chain, x, s) > 0.5
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
    assert model.score(x_new, s_new) == report.proxy_accuracy.value
    truth = (model.predict(x_new) == y_new)[s_new == 0].mean()
    assert abs(report.proxy_accuracy.value - truth) < 4 * report.proxy_accuracy.error
    risk = pu_scorer("nnpu_risk")(model, x_new, s_new)
    assert risk == -report.nnpu_risk.value
    assert pu_scorer("auc", prior=0.2)(model, x_new, s_new) == report.pu_auc.value
    with pytest.raises(InputError, match="did you mean 'proxy_accuracy'"):
        pu_scorer("proxy_acuracy")


def test_no_pretraining_where_it_does_not_pay() -> None:
    """On a plain table the encoder is trained, compared by hidden positives, and left."""
    x, s, y = gaussians(800, dim=8)
    model = PUClassifier(random_state=0, epochs=3).fit(x, s)
    names = [one.name for one in model.model_.record.candidates]
    assert any(name.startswith("trained") for name in names) and model.choices_["encoder"] == "raw"
    assert (model.predict(x) == y).mean() > 0.95


class ByHeart(torch.nn.Module):
    """Puts the rows it was told of apart from all others, which it knows by their last number; classes lie around 0."""

    def __init__(self, told: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("told", told)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = torch.isin(x[:, -1].round().long(), self.get_buffer("told"))
        return torch.cat([x[:, :4] - 1, 6 * known[:, None].float()], dim=1)


@pytest.mark.parametrize("strength", [0, 1])
def test_labelled_rows_an_encoder_knows_by_heart_do_not_stand_for_the_positives(
    strength: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, s, y = gaussians(800, dim=4)
    numbered = np.concatenate([x, np.arange(len(x))[:, None]], axis=1).astype(np.float32)

    def pretend(rows: torch.Tensor, shown: torch.Tensor, **_how: Any) -> Pretrained:
        network = ByHeart(rows[shown, -1].long() if strength else torch.empty(0, dtype=torch.long))
        plain = Standardise(torch.zeros(5), torch.ones(5))
        return Pretrained(Encoder(plain, network), [], [], torch.zeros(len(rows), dtype=torch.bool))

    monkeypatch.setattr("pucl.fitting.encode.pretrain", pretend)
    found = fit(torch.from_numpy(numbered), s, Schema("vector", (5,)), FitOptions(encoder="mlp"), device="cpu")
    record = found.model.record
    assert found.pseudo.prior == pytest.approx(y[s == 0].mean(), abs=0.05)
    assert (found.pseudo.labels.numpy() == y).mean() > 0.9
    assert any("memorised" in line for line in record.diagnostics) == bool(strength)
    assert record.metrics is not None
    assert record.metrics.recall.value > 0.8, "of hidden rows, by labels that others of them gave"
    if strength:
        monkeypatch.setattr("pucl.fitting.encode.memorised", lambda *_rows, **_how: (0.5, False))
        blind = fit(torch.from_numpy(numbered), s, Schema("vector", (5,)), FitOptions(encoder="mlp"), device="cpu")
        assert blind.pseudo.prior < found.pseudo.prior - 0.1
        assert blind.model.record.metrics is not None
        assert blind.model.record.metrics.recall.value < record.metrics.recall.value - 0.1


def test_a_later_candidate_must_be_better_by_more_than_noise() -> None:
    labelled = np.arange(400) < 100

    def judged(gap: float, encoder: str = "raw") -> Judged:
        logits = np.random.default_rng(round(100 * gap)).standard_normal(400) + gap * labelled
        return Judged(Candidate(encoder, torch.zeros(400, 1), "cvir", "linear", (0,)), logits)

    assert choose([judged(1.0), judged(1.05)], labelled) == 0, "within noise the first stays"
    assert choose([judged(1.0), judged(3.0)], labelled) == 1
    gains = [
        choose([judged(1.0), judged(gap / 50, encoder)], labelled)
        for encoder in ("raw", "trained")
        for gap in range(50, 100)
    ]
    assert 0 < sum(gains[50:]) < sum(gains[:50]), "another embedding must be better by more"
    part = judged(3.0)
    part.logits[:390] = np.nan  # not one labelled row in common
    assert choose([judged(1.0), part], labelled) == 0


def test_bumps_where_a_plane_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    corner = rng.integers(4, size=600)
    y = corner < 2
    x = np.array([[3.0, 3], [-3, -3], [3, -3], [-3, 3]])[corner] + rng.standard_normal((600, 2))
    s = (y & (rng.random(600) < 0.4)).astype(int)
    model = PUClassifier(encoder="raw", random_state=0).fit(x, s)
    assert model.choices_["head"] == "kernel" and (model.predict(x) == y).mean() > 0.95


@pytest.mark.usefixtures("one_draw")
def test_near_rows_where_classes_are_many_small_clusters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cluster = np.arange(720) % 60
    y = cluster < 30
    x = (2 * rng.standard_normal((60, 20)))[cluster] + rng.standard_normal((720, 20))
    s = (y & (rng.random(720) < 0.4)).astype(int)
    model = PUClassifier(encoder="raw", random_state=0).fit(x, s)
    assert model.choices_["head"] == "knn" and (model.predict(x) == y).mean() > 0.95
    model.save(tmp_path / "model")
    assert np.array_equal(PUClassifier.load(tmp_path / "model").predict_proba(x), model.predict_proba(x))


@pytest.mark.usefixtures("one_draw")
def test_fine_tuned_model_keeps_its_own_encoder() -> None:
    digits = load_digits()
    images, y = (digits.images[:500] * 15).astype(np.uint8), digits.target[:500] % 2 == 1
    s = (y & (np.arange(500) % 3 == 0)).astype(int)
    plain, tuned = (quick(encoder="small_cnn", epochs=2, fine_tune=tune).fit(images, s) for tune in (False, True))
    names = [one.name for one in tuned.model_.record.candidates]
    assert [name.partition(", fine-tuned on ")[2].partition(" +")[0] for name in names[1:]] == list(WAYS)
    assert tuned.choices_["fine_tuned"] in WAYS, "two epochs of contrast leave much to learn"
    assert not np.allclose(tuned.transform(images), plain.transform(images), atol=0.01)
    assert (tuned.predict(images) == y).mean() > (plain.predict(images) == y).mean()
    raw = quick(fine_tune=True).fit(images, s)
    assert raw.choices_["fine_tuned"] is None and "No fine-tuning" in raw.reasons_[-1]


def test_encoder_labeller_and_prior_alone() -> None:
    x, s, y = gaussians(600)
    encoder = PUEncoder(encoder="mlp", epochs=2, random_state=0).fit(x, s)
    z = encoder.transform(x)
    assert z.shape == (600, 300) and np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert len(encoder.history_) == 2 and encoder.get_feature_names_out()[0] == "puencoder0"
    assert PUEncoder().fit(x[:100], s[:100]).choices_ == {"encoder": "raw"}
    labeller = PseudoLabeler("cvir", random_state=0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert (labeller.fit_predict(unit, s) == y).mean() > 0.9
    assert np.array_equal(labeller.labels_, labeller.probability_ > 0.5) and labeller.reliability_.max() == 1
    prior = PriorEstimator(random_state=0).fit(unit, s)
    assert abs(prior.prior_ - y[s == 0].mean()) < 0.1 and prior.interval_[0] <= prior.prior_ <= prior.interval_[1]


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
        ({"head": "nnpu"}, "known: auto, kernel, knn, linear, mlp"),
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
    with pytest.raises(InputError, match="left out with data that brings its own"):
        quick().fit(data, y)


# Baselines as estimators


def test_contract_of_scikit_learn_for_baselines() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(
            PUBaseline("naive", encoder="raw", random_state=0),
            expected_failed_checks=EXPECTED,
            on_fail=None,
            on_skip=None,
        )
    assert not {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}


def test_a_baseline_with_a_prior_that_is_given_or_estimated() -> None:
    x, s, y = gaussians(400)
    quick = {"epochs": 8}
    given = PUBaseline("nnpu", prior=0.4, settings=quick, random_state=0).fit(x, s)
    assert (given.predict(x) == y).mean() > 0.9 and given.prior_ == 0.4 and given.settings_["epochs"] == 8
    guessed = PUBaseline("nnpu", prior="auto", settings=quick, random_state=0).fit(x, 2 * s - 1)
    assert abs(guessed.prior_ - y[s == 0].mean()) < 0.1 and guessed.classes_.tolist() == [-1, 1]
    assert np.array_equal(guessed.predict(x) == 1, guessed.decision_function(x) > 0)
    assert given.score_report(x, s).pu_auc.value == pytest.approx(given.score(x, s))
    none = PUBaseline("vpu", settings={"epochs": 2}, random_state=0).fit(x, s)
    assert none.prior_ is None and none.score_report(x, s, prior=0.4).pu_auc.value > 0.5
    with pytest.raises(InputError, match="PUBaseline: prior must be given to score_report"):
        none.score_report(x, s)
    assert isinstance(pickle.loads(pickle.dumps(given)), PUBaseline)  # noqa: S301


def test_a_baseline_on_images_tables_and_authors_settings() -> None:
    pd = pytest.importorskip("pandas")
    digits = load_digits()
    images, odd = (digits.images[:300] * 255 / 16).astype(np.uint8), digits.target[:300] % 2 == 1
    s = (odd & (np.arange(300) % 3 == 0)).astype(int)
    model = PUBaseline("upu", prior=0.4, settings={"epochs": 1}, random_state=0).fit(images, s)
    assert model.schema_.kind == "image" and model.predict(images).shape == (300,)
    x, s, _ = gaussians()
    frame = pd.DataFrame(x).rename(columns=str).assign(colour=np.where(x[:, 0] > 0, "red", "blue"))
    table = PUBaseline("bagging", random_state=0).fit(frame, pd.Series(s))
    assert table.feature_names_in_.tolist() == [*map(str, range(5)), "colour"] and table.n_features_in_ == 6
    assert PUBaseline("nnpu", task="cifar3", prior=0.4).get_params()["task"] == "cifar3"
    with pytest.raises(ValueError, match="X has 3 features, but PUBaseline is expecting 5 features as input"):
        PUBaseline("naive", encoder="raw").fit(x, s).predict(x[:, :3])
    with pytest.raises(InputError, match="baseline 'nnpu': prior must be a number strictly between 0 and 1"):
        PUBaseline("nnpu").fit(x, s)
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        PUBaseline("nnpu", prior=0.4, settings={"epoch": 1}).fit(x, s)


def test_very_many_columns_are_seen_along_their_axes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 6, 200)
    positive = group < 2
    x = (rng.normal(size=(6, 1100))[group] + rng.normal(size=(200, 1100))).astype(np.float32)
    s = positive & (rng.random(200) < 0.3)
    model = PUClassifier(random_state=0).fit(x, s)
    assert model.choices_["encoder"] == "pca"
    assert any("512 principal axes" in reason for reason in model.reasons_)
    assert (model.predict(x)[~s] == positive[~s]).mean() > 0.97
    model.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))
    assert PUEncoder(encoder="raw").fit(x, s).transform(x).shape == (200, 513)


def test_axes_can_be_asked_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 5))
    x[:40] += 3
    s = np.arange(80) < 15
    encoder = PUEncoder(encoder="pca").fit(x, s)
    assert encoder.choices_ == {"encoder": "pca"} and encoder.transform(x).shape == (80, 6)
    model = PUClassifier(encoder="pca", random_state=0).fit(x, s)
    assert model.choices_["encoder"] == "pca"
    assert any("as requested" in reason for reason in model.reasons_)
    assert (model.predict(x) == (np.arange(80) < 40)).mean() > 0.9
