"""Confirmed negatives and weights in the estimators: what is used, and one clear line for what is not."""

from typing import Any

import numpy as np
import pytest

from estimator_examples import gaussians, quick
from pucl import PriorEstimator, PseudoLabeller, PUBaseline, PUClassifier, PUEncoder, read
from pucl.errors import InputError

ESTIMATORS: dict[str, Any] = {
    "PUClassifier": quick,
    "PUBaseline": lambda: PUBaseline("naive", encoder="raw"),
    "PUEncoder": lambda: PUEncoder(encoder="raw"),
    "PseudoLabeller": lambda: PseudoLabeller("cvir", random_state=0),
    "PriorEstimator": lambda: PriorEstimator("bbe"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("weight", [np.ones(300), np.ones(3), -np.ones(300), [1.0] * 300])
def test_weights_are_refused_in_one_line(name: str, weight: Any) -> None:
    x, s, _ = gaussians()
    with pytest.raises(InputError) as caught:
        ESTIMATORS[name]().fit(x, s, sample_weight=weight)
    text = str(caught.value)
    assert text.startswith(f"{name}: sample_weight must be left out: the share of positives, precision and recall are ")
    assert "draw rows in proportion to their weight" in text and "\n" not in text


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_weights_are_fine_and_other_keywords_are_not(name: str) -> None:
    x, s, _ = gaussians(60)
    estimator = ESTIMATORS[name]()
    assert estimator.fit(x, s, sample_weight=None) is estimator
    with pytest.raises(TypeError, match=rf"{name}.fit\(\) got an unexpected keyword argument 'groups'"):
        estimator.fit(x, s, groups=s)


def test_labeller_and_prior_take_negatives() -> None:
    x, s, y = gaussians()
    negative = ~y & (np.arange(len(y)) % 3 == 0)
    labeller = PseudoLabeller("cvir", random_state=0).fit(x, s, negatives=negative)
    assert not labeller.labels_[negative].any() and (labeller.reliability_[negative] == 1).all()
    assert (PseudoLabeller("cvir", random_state=0).fit_predict(x, s, negative) == labeller.labels_).all()
    prior = PriorEstimator(random_state=0).fit(x @ np.ones(5), s, negatives=np.flatnonzero(negative))
    assert prior.method_ == "adjusted_count"
    assert prior.prior_ == pytest.approx(y[(s == 0) & ~negative].mean(), abs=0.1)


@pytest.mark.parametrize("name", ["PUClassifier", "PseudoLabeller", "PriorEstimator"])
def test_negatives_that_cannot_be(name: str) -> None:
    x, s, _ = gaussians(60)
    pd = pytest.importorskip("pandas")
    first = int(np.flatnonzero(s)[0])
    with pytest.raises(InputError, match=f"^{name}: negatives must be rows that are not labelled positive; got row"):
        ESTIMATORS[name]().fit(x, s, negatives=[first])
    with pytest.raises(InputError, match=f"^{name}: negatives must be a mask of length 60 or a list of row numbers;"):
        ESTIMATORS[name]().fit(x, s, negatives=np.zeros(59, dtype=bool))
    frame, shifted = pd.DataFrame(x), pd.Series(np.zeros(60, dtype=bool), index=np.arange(60) + 1)
    with pytest.raises(InputError, match=f"^{name}: negatives must be a Series with the index of X; got another"):
        ESTIMATORS[name]().fit(frame, pd.Series(s), negatives=shifted)


def test_baselines_refuse_negatives_and_encoders_take_them_for_unlabelled() -> None:
    x, s, y = gaussians(120)
    rows = np.flatnonzero(~y)[:5]
    with pytest.raises(InputError, match="^PUBaseline: negatives must be left out: naive learns .*; got 5 of them"):
        ESTIMATORS["PUBaseline"]().fit(x, s, negatives=rows)
    data = read(x, label=s, negatives=rows, kind="table")
    with pytest.raises(InputError, match="^PUBaseline: negatives must be left out"):
        ESTIMATORS["PUBaseline"]().fit(data)
    with pytest.raises(InputError, match="^PUClassifier: negatives must be left out for data from pucl.read"):
        PUClassifier().fit(data, negatives=rows)
    with_them, without = ESTIMATORS["PUEncoder"]().fit(data), ESTIMATORS["PUEncoder"]().fit(x, s)
    np.testing.assert_array_equal(with_them.transform(x), without.transform(x))
