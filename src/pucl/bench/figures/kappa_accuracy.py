"""Accuracy over κ, the factor in the bias of sCL-PU, where π and γ vary, and its cuts along either."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import fmean

from pucl.bench.figures.picture import Heat, Panel
from pucl.bench.figures.sweep import ACCURACY, GAMMA, Lines, Sweep, gamma_of, measured, objective_of
from pucl.bench.grid.cells import Cell
from pucl.data.pu_split import kappa
from pucl.registry import register

ONLY = ("task=fmnist1", "setting=case-control", "objective=sscl,scl_pu,pucl", "readout=knn", "epoch=None")
PRIOR, KAPPA = "π (share of positives in U)", "κ = π(1 − π)/(1 + γ)"
ORDER = ("ssCL", "sCL-PU", "puCL")
MARGIN = 1.0  # points above and below what is shown


@register("figures", reference="fig:kappa_var_3D", inputs=("image",))
def kappa_accuracy() -> Sweep:
    """Accuracy of ssCL, sCL-PU and puCL over π × γ, and over κ.

    κ is the same for π and 1 − π: fewer positives than negatives in U and more are shown apart.
    """
    return Sweep(
        "Accuracy over π, γ and κ", ONLY, KAPPA, x=_kappa, panel=_side, joined=False, more=_over_both, more_first=True
    )  # fmt: skip


@register("figures", reference="fig:kappa_var_isolation", inputs=("image",))
def kappa_cuts() -> Sweep:
    """Accuracy of ssCL, sCL-PU and puCL over γ at each π, and over π at each γ."""
    title = "Accuracy over π at fixed γ, and over γ at fixed π"
    return Sweep(title, ONLY, panel=_at_prior, more=_over_prior, more_first=True)


def _over_both(lines: Lines) -> tuple[Panel, ...]:
    """A map of the mean accuracy for every objective, all on one scale."""
    values: dict[str, dict[tuple[float, float], list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        values[objective_of(line.cell)][gamma_of(line.cell), _prior(line.cell)].append(line.accuracy)
    limits = _limits(fmean(of) for found in values.values() for of in found.values())
    at = sorted({place for found in values.values() for place in found})
    priors, gammas = sorted({prior for _, prior in at}), sorted({gamma for gamma, _ in at})
    return tuple(
        Panel(f"{name}, {ACCURACY}", PRIOR, GAMMA, heat=_heat(values[name], priors, gammas, limits))
        for name in sorted(values, key=ORDER.index)
    )


def _heat(
    found: Mapping[tuple[float, float], list[float]], priors: list[float], gammas: list[float],
    limits: tuple[float, float],
) -> Heat:  # fmt: skip
    """Means over seeds, NaN where there is no result."""
    table = [[found.get((gamma, prior), []) for prior in priors] for gamma in gammas]
    means = tuple(tuple(fmean(of) if of else math.nan for of in row) for row in table)
    counts = tuple(tuple(len(of) for of in row) for row in table)
    return Heat(tuple(priors), tuple(gammas), means, ACCURACY, limits, counts)


def _over_prior(lines: Lines) -> tuple[Panel, ...]:
    """A panel over π for every γ."""
    sweep = replace(kappa_cuts(), panel=_at_gamma, x=_prior)
    found = sorted(measured(lines, sweep, "kappa_cuts").items(), key=_value)
    return tuple(Panel(title, PRIOR, ACCURACY, tuple(curves)) for title, curves in found)


def _value(item: tuple[str, object]) -> float:
    return float(item[0].rpartition("= ")[2])


def _limits(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    return min(known) - MARGIN, max(known) + MARGIN


def _prior(cell: Cell) -> float:
    return cell.place.true_prior or 0.0


def _kappa(cell: Cell) -> float:
    return kappa(_prior(cell), gamma_of(cell))


def _side(cell: Cell) -> str:
    return "π ≤ ½" if _prior(cell) <= 0.5 else "π > ½"


def _named(name: str, value: Callable[[Cell], float]) -> Callable[[Cell], str]:
    return lambda cell: f"{name} = {value(cell):g}"


_at_prior, _at_gamma = _named("π", _prior), _named("γ", gamma_of)
