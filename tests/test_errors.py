"""Input errors: their wording, who signs them, and the checks that raise them."""

import pickle
import re
import shlex
import tomllib
from typing import Any

import numpy as np
import pytest

from pucl.errors import (
    PACKAGES,
    Described,
    InputError,
    MissingDataError,
    bad_argument,
    blamed_on,
    check_count,
    check_known,
    check_positive,
    check_share,
    how_to_install,
    one_line,
    signed_by,
    unknown_name,
)

from conftest import ROOT


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


def test_an_error_knows_its_parts() -> None:
    error = bad_argument("pucl.pretrain", "epochs", "whole", 0)
    assert (error.owner, error.argument, error.allowed, error.got) == ("pucl.pretrain", "epochs", "whole", "0")
    assert unknown_name("loss", "pulc", ["pucl"]).unknown == "pulc"
    plain = InputError("it is not so")
    assert str(plain) == "it is not so" and plain.owner == plain.argument == plain.allowed == ""
    assert str(InputError("m.json cannot be read", owner="pucl.load_model")) == "pucl.load_model: m.json cannot be read"


@pytest.mark.parametrize(
    ("owner", "signed"),
    [
        ("pucl", "PUClassifier"),
        ("pucl.pretrain", "PUClassifier"),
        ("pucl.contrastive_loss('pucl')", "PUClassifier"),
        ("TrainConfig", "PUClassifier"),
        ("pucl bench run", "PUClassifier"),
        ("pucl.read, column 'age'", "PUClassifier, column 'age'"),
        ("pucl bench table: --results r.jsonl", "PUClassifier: --results r.jsonl"),
        ("encoder 'lenet5'", "encoder 'lenet5'"),
        ("Grid.toml", "Grid.toml"),
    ],
)
def test_what_was_called_signs_and_things_stay_named(owner: str, signed: str) -> None:
    with pytest.raises(InputError) as caught, signed_by("PUClassifier"):
        check_positive(owner, "τ", 0)
    assert str(caught.value) == f"{signed}: τ must be a finite number > 0; got 0"
    assert caught.value.owner == signed


def test_the_outermost_caller_signs() -> None:
    @signed_by("pucl.outer")
    def outer() -> None:
        inner()

    @signed_by("pucl.inner")
    def inner() -> None:
        raise unknown_name("loss", "pulc", ["pucl"])

    with pytest.raises(InputError, match=r"^pucl\.outer: unknown loss 'pulc': did you mean 'pucl'\? known: pucl$"):
        outer()
    with pytest.raises(InputError, match=r"^pucl\.inner: unknown loss"):
        inner()


def test_signing_keeps_the_type_and_leaves_other_errors_alone() -> None:
    with pytest.raises(MissingDataError, match=r"^pucl\.load: no files$"), signed_by("pucl.load"):
        raise MissingDataError("no files", owner="pucl.data")
    with pytest.raises(InputError, match=r"^batch_1: no pickle$"), signed_by("pucl.load"):
        raise InputError("batch_1: no pickle")
    with pytest.raises(ValueError, match=r"^other$"), signed_by("pucl.load"):
        raise ValueError("other")


def test_a_command_names_itself_and_the_thing() -> None:
    error = bad_argument("encoder 'lenet5'", "x", "images", 3)
    error.sign("pucl fit")
    assert str(error) == "pucl fit: encoder 'lenet5': x must be images; got 3"


def test_a_part_of_a_file_is_named_and_functions_are_not() -> None:
    with pytest.raises(InputError, match=r"^recipe 'quick': epochs must be "), blamed_on("recipe 'quick'"):
        check_count("TrainConfig", "epochs", 0)
    with pytest.raises(InputError, match=r"^g\.toml: head 'knn': k must be "), blamed_on("g.toml"):
        check_count("head 'knn'", "k", 0)
    with pytest.raises(InputError, match=r"^g\.toml: unknown key 'x': known: y$"):
        check_known("g.toml", "key", ["y", "x"], ["y"])


def test_errors_cross_processes() -> None:
    error = bad_argument("pucl.pretrain", "encoder", "a network", lambda x: x)  # which itself cannot be pickled
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(again) == str(error)
    again.sign("PUEncoder")
    assert str(again).startswith("PUEncoder: encoder must be a network; got <function")


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


def test_hints_name_the_packages_of_the_extras() -> None:
    """pucl is on no package index, so a hint names what is."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, packages in PACKAGES.items():
        assert tuple(re.match(r"[\w-]+(\[[\w,]+\])?", each)[0] for each in extras[extra]) == packages  # type: ignore[index]
        assert how_to_install(extra) == f"pip install {shlex.join(packages)}"
    for file in (*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        assert not re.search(r"pip install [\"']?pucl", file.read_text(encoding="utf-8")), file


def test_what_another_library_says_is_one_line_that_changes_no_terminal() -> None:
    assert one_line(ValueError("a\n\tb  é")) == "a b é"
    assert one_line(ValueError("\x1b[1mbold\x07\udcff\u202e")) == "\ufffd[1mbold\ufffd\ufffd\ufffd"
    assert one_line(ValueError(" ")) == "ValueError" and len(one_line(ValueError("x" * 900))) == 200
