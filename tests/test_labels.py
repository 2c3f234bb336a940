from typing import Any

import numpy as np
import pytest
import torch

from pucl.errors import InputError
from pucl.labels import as_labels, check_labels, check_negatives

EXPECTED = [True, False, True, False]


@pytest.mark.parametrize(
    "s",
    [
        [1, 0, 1, 0],
        (True, False, True, False),
        [1, -1, 1, -1],
        [1.0, 0.0, 1.0, 0.0],
        np.array([1, 0, 1, 0], dtype=np.uint8),
        np.array([True, False, True, False], dtype=object),
        torch.tensor([1, -1, 1, -1]),
        torch.tensor([1, 0, 1, 0], dtype=torch.bfloat16),
        torch.tensor([True, False, True, False]),
        iter([1, 0, 1, 0]),
    ],
    ids=["ints", "bools", "signs", "floats", "uint8", "object", "tensor", "bfloat16 tensor", "bool tensor", "iterator"],
)
def test_accepts_every_spelling(s: Any) -> None:
    assert check_labels(s).tolist() == EXPECTED


@pytest.mark.parametrize(
    ("s", "message"),
    [
        ([0, 0, 0], "at least one labelled positive; got no positive"),
        ([-1, -1], "at least one labelled positive; got no positive"),
        ([1, 1], "at least one unlabelled row; got only positives"),
        ([1, 0, 2], "{-1, 1}; got the values [0, 1, 2]"),
        ([1, 0, -1], "{-1, 1}; got the values [-1, 0, 1]"),
        ([0.5, 1.0], "{-1, 1}; got the values [0.5, 1.0]"),
        ([1, 0, float("nan")], "{-1, 1}; got NaN at row 2"),
        (["yes", "no"], "{-1, 1}; got 'yes'"),
        ([1, None, 0], "{-1, 1}; got None"),
        ([[1, 0], [0, 1]], "a vector; got an array of shape (2, 2)"),
        (1, "a vector; got an array of shape ()"),
        ([1 + 2j, 0], "{-1, 1}; got dtype('complex128')"),
        ([], "at least one labelled positive"),
    ],
)
def test_refuses_the_rest_in_one_line(s: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_labels(s, owner="pucl.fit")
    text = str(caught.value)
    assert text.startswith("pucl.fit: s must be ") and message in text and "\n" not in text


def test_series_of_pandas_and_polars() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for series in (pandas.Series([1, 0, 1, 0]), polars.Series([True, False, True, False]), pandas.Series(EXPECTED)):
        assert check_labels(series).tolist() == EXPECTED
    with pytest.raises(InputError, match="s must be 1"):
        check_labels(pandas.Series([1, None, 0]))
    with pytest.raises(InputError, match="s must be 1"):
        check_labels(pandas.Series([1, None, 0], dtype="Int64"))


def test_wrong_length_says_both_lengths() -> None:
    with pytest.raises(InputError, match=r"s must be of length 3, one label per row; got length 2"):
        check_labels([1, 0], n_rows=3)


def test_a_batch_may_lack_either_kind() -> None:
    assert as_labels([0, 0]).tolist() == [False, False]
    assert as_labels([1, 1]).tolist() == [True, True]


LABELLED = np.array([True, True, False, False, False, False])


@pytest.mark.parametrize(
    "negatives",
    [
        [3, 4],
        {3, 4},
        np.array([4, 3, 3], dtype=np.uint8),
        torch.tensor([3, 4]),
        [False, False, False, True, True, False],
        np.array([0, 0, 0, 1, 1, 0]),
        torch.tensor([0, 0, 0, 1, 1, 0]).bool(),
    ],
    ids=["row numbers", "set", "twice", "tensor", "mask", "0/1", "bool tensor"],
)
def test_negatives_as_row_numbers_or_as_a_mask(negatives: Any) -> None:
    checked = check_negatives(negatives, LABELLED, 6)
    assert checked is not None and checked.tolist() == [False, False, False, True, True, False]


@pytest.mark.parametrize("negatives", [None, [], np.zeros(6, dtype=bool), [0] * 6])
def test_no_negatives_are_none(negatives: Any) -> None:
    assert check_negatives(negatives, LABELLED, 6) is None


@pytest.mark.parametrize(
    ("negatives", "message"),
    [
        ([1, 3], "must be rows that are not labelled positive; got row 1, which is labelled positive"),
        ([True] * 6, "must be rows that are not labelled positive; got row 0,"),
        ([False, True], "must be a mask of length 6 or a list of row numbers; got a mask of length 2"),
        ([6], "must be row numbers from 0 to 5; got row 6"),
        ([-1, 3], "must be row numbers from 0 to 5; got row -1"),
        ([0.5], "must be a mask of length 6 or a list of row numbers; got an array of shape (1,) and type float64"),
        (["a"], "must be a mask of length 6 or a list of row numbers; got an array of shape (1,)"),
        ([[3, 4]], "got an array of shape (1, 2)"),
        ([2, 3, 4], "must be few enough to leave 2 unlabelled rows or more; got 3, which leave 1"),
    ],
)
def test_negatives_that_cannot_be_are_one_line(negatives: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_negatives(negatives, LABELLED, 6, "pucl.fit")
    text = str(caught.value)
    assert text.startswith("pucl.fit: negatives ") and message in text and "\n" not in text
