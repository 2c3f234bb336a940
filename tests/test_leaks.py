"""Leaks of the label: found where they are, and not in honest data that separate well."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import pucl
from pucl.errors import RunWarning
from pucl.selection import find_leaks

Bools = NDArray[np.bool_]


def two_classes(n: int = 400, gap: float = 2.0, seed: int = 0) -> tuple[NDArray[np.float64], Bools]:
    """Two Gaussian classes in three columns, and labels of a third of the positives."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    return rng.normal(size=(n, 3)) + gap * y[:, None], y & (rng.random(n) < 0.33)


def test_a_column_that_equals_s_is_named() -> None:
    x, s = two_classes()
    leaks = find_leaks(np.column_stack([x, s]), s, names=["a", "b", "c", "known"])
    assert leaks.columns == (("known", 1.0),)
    assert "column 'known' alone tells labelled from unlabelled rows (AUC 1.000)" in leaks.messages[0]


def test_a_column_that_nearly_equals_s_or_is_only_filled_for_p_is_named() -> None:
    x, s = two_classes(n=2000)
    nearly = s.astype(float) + np.random.default_rng(0).normal(scale=0.15, size=len(s))
    filled = np.where(s, 3.0, np.nan)
    leaks = find_leaks(np.column_stack([x, -nearly, filled]), s)
    assert {name for name, _ in leaks.columns} == {"x3", "x4"}


def test_a_category_that_only_p_has_is_named_and_ids_are_not() -> None:
    x, s = two_classes()
    code = np.where(s, 7.0, np.arange(len(s)) % 5)
    ids = np.arange(len(s), dtype=float)
    leaks = find_leaks(np.column_stack([x, code, ids]), s, categories=[3, 4])
    assert [name for name, _ in leaks.columns] == ["x3"]


def test_labelled_rows_that_stand_in_u_again_are_counted() -> None:
    x, s = two_classes()
    again = np.flatnonzero(s)[:20]
    both, known = np.concatenate([x, x[again]]), np.concatenate([s, np.zeros(20, bool)])
    leaks = find_leaks(both, known)
    assert leaks.repeated == 20 and f"20 of {known.sum()} labelled rows have an equal row" in leaks.messages[0]
    assert "in every column that is used" in leaks.messages[0], "ids are not compared, so they may be different cases"
    assert find_leaks(both, known, negative=np.arange(len(both)) >= len(x)).repeated == 0


def test_rows_of_few_values_repeat_each_other_without_a_warning() -> None:
    x, s = two_classes()
    assert find_leaks((x > 1).astype(float), s).messages == ()


@pytest.mark.parametrize("load", [load_digits, load_wine, load_breast_cancer, load_iris])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_honest_data_that_separate_well_are_not_accused(load: object, share: float) -> None:
    data = load()  # type: ignore[operator]
    y = data.target == 0
    for seed in range(3):
        s = y & (np.random.default_rng(seed).random(len(y)) < share)
        assert find_leaks(data.data, s, seed=seed).messages == ()


def test_a_leak_is_said_before_the_model_is_praised() -> None:
    x, s = two_classes(n=200)
    with pytest.warns(RunWarning, match="column 'x3' alone tells"):
        model = pucl.PUClassifier(random_state=0, time_limit=1e-3).fit(np.column_stack([x, s]), s)
    text = model.summary()
    assert text.index("Possible leak") < text.index("Estimated from hidden positives")
    assert model.verdict_.startswith("do not use: column 'x3' alone tells")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        honest = pucl.PUClassifier(random_state=0, time_limit=1e-3).fit(x, s)
    assert "Possible leak" not in honest.summary()
