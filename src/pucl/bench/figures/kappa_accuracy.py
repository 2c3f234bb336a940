"""Accuracy over κ, the factor in the bias of sCL-PU, where π and γ vary, and its cuts along either."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import fmean

from pucl.bench.figures.picture import Heat, Panel
from pucl.bench.figures.sweep import ACCURACY, GAMMA, Lines, Sweep, gamma_of, measured, objective_of
from pucl.bench.grid.cells import Cell
from pucl.data.pu_split import kappa
from pucl.registry import register

ONLY = ("task=fmnist1", "setting=case-control", "objective=sscl,scl_pu,pucl", "readout=knn", "epoch=None")
PRIOR, KAPPA = "π (share of positives in U)", "κ = π(1 − π)/(1 + γ)"
MARGIN = 1.0  # points above and below what is shown


@register("figures", reference="fig:kappa_var_3D", inputs=("image",))
def kappa_accuracy() -> Sweep:
    """Accuracy of ssCL, sCL-PU and puCL over π × γ, and over κ.

    κ is the same for π and 1 − π: fewer positives than negatives in U and more are shown apart.
    """
    return Sweep(
        "Accuracy over π, γ and κ", ONLY, KAPPA, x=_kappa, panel=_side, joined=False, more=_over_both
    )  # fmt: skip


@register("figures", reference="fig:kappa_var_isolation", inputs=("image",))
def kappa_cuts() -> Sweep:
    """Accuracy of ssCL, sCL-PU and puCL over γ at each π, and over π at each γ."""
    return Sweep("Accuracy over γ at fixed π, and over π at fixed γ", ONLY, panel=_at_prior, more=_over_prior)


def _over_both(lines: Lines) -> tuple[Panel, ...]:
    """A map of the mean accuracy for every objective, all on one scale."""
    values: dict[str, dict[tuple[float, float], list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        values[objective_of(line.cell)][gamma_of(line.cell), _prior(line.cell)].append(line.accuracy)
    means = {name: {at: fmean(of) for at, of in found.items()} for name, found in values.items()}
    limits = _limits(mean for found in means.values() for mean in found.values())
    return tuple(
        Panel(f"{name} over π and γ", PRIOR, GAMMA, heat=_heat(found, limits)) for name, found in means.items()
    )


def _heat(means: dict[tuple[float, float], float], limits: tuple[float, float]) -> Heat:
    gammas, priors = sorted({gamma for gamma, _ in means}), sorted({prior for _, prior in means})
    rows = tuple(tuple(means.get((gamma, prior), float("nan")) for prior in priors) for gamma in gammas)
    return Heat(tuple(priors), tuple(gammas), rows, ACCURACY, limits)


def _over_prior(lines: Lines) -> tuple[Panel, ...]:
    """A panel over π for every γ."""
    sweep = replace(kappa_cuts(), panel=_at_gamma, x=_prior)
    found = sorted(measured(lines, sweep, "kappa_cuts").items(), key=_order)
    return tuple(Panel(title, PRIOR, ACCURACY, tuple(curves)) for title, curves in found)


def _order(item: tuple[str, object]) -> float:
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
