"""The siblings of PUClassifier: baselines, encoder, labeller and prior as estimators."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import pucl
from estimator_examples import contract, gaussians, quick
from pucl import PriorEstimator, PseudoLabeller, PUBaseline, PUClassifier, PUEncoder
from pucl.errors import InputError


def test_contract_of_scikit_learn_for_baselines() -> None:
    found = contract(PUBaseline("naive", encoder="raw", random_state=0))
    assert not {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}


@pytest.mark.slow
def test_a_baseline_with_a_prior_that_is_given_or_estimated() -> None:
    x, s, y = gaussians(800)
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


@pytest.mark.slow
def test_encoder_labeller_and_prior_alone() -> None:
    x, s, y = gaussians(600)
    encoder = PUEncoder(encoder="mlp", epochs=2, random_state=0).fit(x, s)
    z = encoder.transform(x)
    assert z.shape == (600, 300) and np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert len(encoder.history_) == 2 and encoder.get_feature_names_out()[0] == "puencoder0"
    assert PUEncoder().fit(x[:100], s[:100]).choices_ == {"encoder": "raw"}
    labeller = PseudoLabeller("cvir", random_state=0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert (labeller.fit_predict(unit, s) == y).mean() > 0.9
    assert np.array_equal(labeller.labels_, labeller.probability_ > 0.5) and labeller.reliability_.max() == 1
    prior = PriorEstimator(random_state=0).fit(unit, s)
    assert abs(prior.prior_ - y[s == 0].mean()) < 0.1 and prior.interval_[0] <= prior.prior_ <= prior.interval_[1]


@pytest.mark.slow
def test_the_share_of_a_table_is_what_a_fit_says() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    x, s, y = gaussians(300)
    frame = pd.DataFrame(x, columns=list("abcde")).assign(city=np.where(y, "bath", "york"), day="2024-01-01")
    frame.loc[::7, "a"], frame.loc[::11, "city"] = None, None
    frame.loc[::2, "day"] = "2024-05-01"
    for rows in (frame, x.astype(np.float64), x.tolist()):
        said, fitted = (estimator(random_state=0).fit(rows, s) for estimator in (PriorEstimator, PUClassifier))
        assert (said.prior_, said.prior_is_bound_) == (fitted.prior_, fitted.prior_is_bound_)
    with pytest.raises(InputError, match="PriorEstimator takes categories, dates and texts, too; got a DataFrame"):
        pucl.estimate_prior(frame, s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "result"),
    [
        (lambda: PseudoLabeller("cvir", random_state=0), "probability_"),
        (lambda: PriorEstimator("bbe", random_state=0), "prior_"),
        (lambda: PUEncoder(random_state=0), "transform"),
        (lambda: PUBaseline("naive", encoder="raw", random_state=0), "decision_function"),
        (quick, "decision_function"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_tensors_give_what_arrays_give(make: Any, result: str, dtype: torch.dtype) -> None:
    x, s, _ = gaussians()
    tensor = (torch.from_numpy(x) * 10).to(dtype)
    array = tensor.float().numpy() if dtype == torch.bfloat16 else tensor.numpy()
    tensor.requires_grad_(tensor.is_floating_point())
    of_tensor, of_array = make().fit(tensor, torch.from_numpy(s)), make().fit(array, s)
    given, expected = getattr(of_tensor, result), getattr(of_array, result)
    if callable(given):
        given, expected = given(tensor), expected(array)
    assert np.array_equal(given, expected)


def test_the_old_name_of_the_labeller_still_works() -> None:
    with pytest.warns(FutureWarning, match="pucl: 'PseudoLabeler' is now called 'PseudoLabeller'"):
        assert pucl.PseudoLabeler is PseudoLabeller


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (PUEncoder(temperature=-1), "PUEncoder: temperature must be"),
        (PUClassifier(temperature=-1), "PUClassifier: temperature must be"),
        (PUEncoder(encoder="mlp", objective="punce"), "PUEncoder: prior must be"),
        (PUBaseline(random_state=-1), "PUBaseline: random_state must be"),
    ],
)
def test_errors_are_signed_by_the_estimator(estimator: Any, words: str) -> None:
    x, s, _ = gaussians()
    with pytest.raises(InputError, match=f"^{words}"):
        estimator.fit(x, s)
