from typing import Any

import numpy as np
import pytest

from pucl.errors import Described, InputError, bad_argument, check_count, check_positive, check_share, unknown_name


def test_wording() -> None:
    assert (
        str(bad_argument("fit", "epochs", "a whole number ≥ 1", 0)) == "fit: epochs must be a whole number ≥ 1; got 0"
    )
    assert str(bad_argument("fit", "x", "finite", Described("3 NaN"))) == "fit: x must be finite; got 3 NaN"
    assert len(str(bad_argument("fit", "x", "short", "a" * 1000))) < 120


def test_unknown_name_suggests_the_nearest() -> None:
    text = str(unknown_name("loss", "pulc", ["sscl", "pucl"]))
    assert text == "unknown loss 'pulc': did you mean 'pucl'? known: pucl, sscl"
    assert "did you mean" not in str(unknown_name("loss", "xyz", ["sscl", "pucl"]))


@pytest.mark.parametrize("value", [1, np.int64(3), 5])
def test_counts(value: Any) -> None:
    assert check_count("f", "n", value, high=5) == value


@pytest.mark.parametrize("value", [0, 6, -1, 1.0, True, "3", None, float("nan")])
def test_bad_counts(value: Any) -> None:
    with pytest.raises(InputError, match=r"f: n must be a whole number from 1 to 5; got "):
        check_count("f", "n", value, high=5)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.1, float("nan"), "0.5", True, None])
def test_bad_shares(value: Any) -> None:
    with pytest.raises(InputError, match=r"f: prior must be a number strictly between 0 and 1; got "):
        check_share("f", "prior", value)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "1", False, [1]])
def test_bad_positives(value: Any) -> None:
    with pytest.raises(InputError, match=r"f: τ must be a finite number > 0; got "):
        check_positive("f", "τ", value)


def test_numpy_numbers_are_numbers() -> None:
    assert check_share("f", "p", np.float32(0.25)) == 0.25
    assert check_positive("f", "t", np.int64(2)) == 2.0
