"""Accuracy of puCL where the positive classes look alike, and where they do not."""

from collections import defaultdict
from dataclasses import replace

from pucl.bench.figures.picture import Curve, Panel
from pucl.bench.figures.sweep import (
    GAMMA,
    Lines,
    Published,
    Sweep,
    Values,
    gamma_of,
    measured_curve,
    over,
    published,
    shown_name,
    task_of,
)
from pucl.bench.grid.cells import Pipeline
from pucl.bench.results.notebooks import Point
from pucl.registry import register

N = 20000  # rows of every task
TASKS = ("cifar_easy", "cifar_medium", "cifar_hard")
GAIN = "gain over ssCL (points)"


@register("figures", reference="fig:hard-to-classify", inputs=("image",))
def hardness() -> Sweep:
    """Accuracy of ssCL, puCL over γ and sCL on CIFAR-easy, -medium and -hard, and the gains over ssCL.

    The number of all rows is fixed. A gain is that of a seed over ssCL with the same seed.
    """
    only = (f"task={','.join(TASKS)}", "objective=sscl,pucl,scl", "readout=knn", "epoch=None")
    return Sweep(
        "Classes that look alike, and classes that do not", only, without_labels=FLAT, published=(THEIRS,), more=gains,
        order=TASKS,
    )  # fmt: skip


def gains(lines: Lines) -> tuple[Panel, ...]:
    """How much puCL, over γ, and sCL gain over ssCL, a curve for each task; the same of the authors' numbers."""
    plain: dict[tuple[str, int], float] = {}
    pipelines = [(line.cell, line) for line in lines if isinstance(line.cell, Pipeline)]
    for cell, line in pipelines:
        if cell.objective == "sscl":
            plain[cell.place.task, cell.place.seed] = line.accuracy
    found: dict[str, dict[str, Values]] = {name: defaultdict(lambda: defaultdict(list)) for name in ("pucl", "scl")}
    for cell, line in pipelines:
        key = cell.place.task, cell.place.seed
        if cell.objective in found and key in plain:
            found[cell.objective][task_of(cell)][gamma_of(cell)].append(line.accuracy - plain[key])
    curves = {
        name: [measured_curve(shown_name(task), of[task]) for task in TASKS if task in of] + _their_gains(shown)
        for (name, of), shown in zip(found.items(), ("puCL", "sCL"), strict=True)
    }
    reach = [x for curve in curves["pucl"] for x in curve.x] or [0.0, 1.0]
    flat = tuple(over((min(reach), max(reach)), curve) for curve in curves["scl"])
    return (
        Panel("gain of puCL", GAMMA, GAIN, tuple(curves["pucl"])),
        Panel("gain of sCL (every label)", GAMMA, GAIN, flat),
    )


def _their_gains(method: str) -> list[Curve]:
    """Gains over ssCL by the authors' numbers, a curve for each task."""
    gained = []
    for task in TASKS:
        curves = {curve.series: curve for curve in published(THEIRS, task, FLAT)}
        (plain,) = curves["ssCL"].y
        own = curves[method]
        gained.append(replace(own, series=shown_name(task), y=tuple(value - plain for value in own.y)))
    return gained


def _gamma(point: Point) -> float | None:
    """γ = n_P / n_U by the setting; the notebooks type n_P / N."""
    n = point.n_labelled
    return None if n is None else n / (N if point.setting == "overlapping" else N - n)


FLAT = ("ssCL", "sCL")  # see no labels, or all
THEIRS = Published("hardness", lambda point: point.method, _gamma)
