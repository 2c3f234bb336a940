"""Predicted against measured: what a statement hands back, the intervals of its figures, and the verdict on each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import torch
from torch import Tensor

from pucl.selection.scores import Estimate

Relation = Literal["=", "≤", "≥"]
Verdict = Literal["holds", "holds with corrected form", "fails as written", "vacuous"]
LEVEL = 0.99  # of the intervals of a statement, all of them together
ROUNDING = 1e-9  # what two ways to compute the same may differ by, relative to the figure


@dataclass(frozen=True)
class Comparison:
    """One figure of a statement: what it should be, and what it is.

    Attributes:
        compared: what the figure is, and on which problem.
        written: what the paper says it is, or its bound.
        measured: what it is; an error of 0 where it was computed exactly.
        relation: how the measured figure should stand to the one of the paper.
        corrected: what it is by the corrected form, where the paper's does not hold.
        vacuous: whether the statement says nothing here: its condition is not met, or anything meets its bound.
        note: the counter-example or the correction in words.
    """

    compared: str
    written: float
    measured: Estimate
    relation: Relation = "="
    corrected: float | None = None
    vacuous: bool = False
    note: str = ""


Statement = Callable[..., tuple[Comparison, ...]]


def exact(value: float | Tensor) -> Estimate:
    """A figure without sampling error."""
    return Estimate(float(value), 0.0)


def mean_of(draws: Sequence[float] | Tensor, *more: Estimate) -> Estimate:
    """The mean of independent draws with its standard error; `more` are estimates whose errors add to it."""
    values = torch.as_tensor(draws, dtype=torch.float64).flatten()
    error = values.std() / len(values) ** 0.5
    return Estimate(float(values.mean()), float((error**2 + sum(each.error**2 for each in more)) ** 0.5))


def interval(measured: Estimate, n_uncertain: int) -> tuple[float, float]:
    """The interval of one of `n_uncertain` figures, so wide that all of them are covered with probability `LEVEL`.

        x ± Φ⁻¹(1 − (1 − LEVEL) / 2m) · se

    where m is `n_uncertain` (Bonferroni); of exact figures what rounding may do.
    """
    width = ROUNDING * max(1.0, abs(measured.value))
    if measured.error > 0:
        width += NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * n_uncertain)) * measured.error
    return measured.value - width, measured.value + width


def judge(compared: Comparison, low: float, high: float) -> Verdict:
    """What an interval of the measured figure says of the statement."""
    mended = compared.corrected is not None and _agrees(compared.relation, compared.corrected, low, high)
    if compared.vacuous and (mended or compared.corrected is None):
        return "vacuous"
    if not compared.vacuous and _agrees(compared.relation, compared.written, low, high):
        return "holds"
    return "holds with corrected form" if mended else "fails as written"


def _agrees(relation: Relation, predicted: float, low: float, high: float) -> bool:
    return (relation == "≥" or low <= predicted) and (relation == "≤" or predicted <= high)
