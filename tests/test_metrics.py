import numpy as np
import pytest

from pucl.errors import InputError
from pucl.metrics import evaluate


@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn(seed: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    rng = np.random.default_rng(seed)
    y, logits = rng.random(200) < 0.3, np.round(rng.normal(size=200), 1)  # rounded: many ties
    found = evaluate(y, logits)
    assert found.accuracy == pytest.approx(accuracy_score(y, logits > 0))
    assert found.f1 == pytest.approx(f1_score(y, logits > 0))
    assert found.auc == pytest.approx(roc_auc_score(y, logits))


def test_nothing_found_is_zero_f1() -> None:
    assert evaluate([1, 0], [-1.0, -1.0]).f1 == 0


def test_prints_for_people() -> None:
    assert str(evaluate([1, 0], [1.0, -1.0])) == "accuracy 1.000, F1 1.000, AUC 1.000"


def test_bad_input() -> None:
    with pytest.raises(InputError, match="two vectors of the same length; got shapes"):
        evaluate([1, 0], [1.0])
    with pytest.raises(InputError, match="y must be a vector with both classes"):
        evaluate([1, 1], [1.0, 2.0])
    with pytest.raises(InputError, match=r"y must be bool, \{0, 1\} or \{-1, 1\}; got the values \[0, 1, 2\]"):
        evaluate([0, 1, 2], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="logits must be finite; got nan at row 1"):
        evaluate([0, 1], [1.0, np.nan])


def test_minus_one_is_negative() -> None:
    assert evaluate([-1, 1, 1], [-1.0, 2.0, -3.0]) == evaluate([0, 1, 1], [-1.0, 2.0, -3.0])
