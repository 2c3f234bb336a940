"""Accuracy of nearest neighbours while the encoder is trained."""

from collections.abc import Mapping
from types import MappingProxyType

from pucl.bench.figures.picture import Panel
from pucl.bench.figures.sweep import ACCURACY, Lines, Published, Sweep, gamma_of, objective_of, published
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.notebooks import Point
from pucl.registry import register

# ssCL sees no labels, so one curve is enough; at the other end it has only its last epoch.
SSCL: Mapping[tuple[str, float], str | None] = MappingProxyType({("ssCL", 0.05): "ssCL", ("ssCL", 0.5): None})


@register("figures", reference="fig:puCL_convergence", inputs=("image",))
def convergence() -> Sweep:
    """Accuracy of kNN while ssCL, and puCL at several γ, are trained, over the training rows seen.

    Where labelled rows are in U too, an epoch has more steps with more labels, so that epochs do not compare.
    """
    only = ("task=cifar0", "setting=overlapping", "objective=sscl,pucl", "readout=knn")
    return Sweep(
        "Nearest neighbours while the encoder learns", only, "training rows seen (thousands)", _ours, _rows_seen,
        more=_theirs, same_scale=False,
    )  # fmt: skip


def _ours(cell: Cell) -> str | None:
    name, gamma = objective_of(cell), gamma_of(cell)
    return SSCL.get((name, gamma), f"{name}, γ = {gamma:g}")


def _theirs_named(point: Point) -> str:
    return "ssCL" if point.method == "ssCL" else f"{point.method}, γ = {point.gamma:g}"


def _rows_seen(cell: Cell) -> float:
    """Epochs times the rows of all full batches of an epoch, in thousands."""
    place = cell.place
    if not isinstance(cell, Pipeline) or place.n_unlabelled is None:
        return 0.0
    training = cell.recipe.training
    steps = (place.n_labelled + place.n_unlabelled) // training.batch_size
    return (cell.epoch or training.epochs) * steps * training.batch_size / 1000


def _theirs(_: Lines) -> tuple[Panel, ...]:
    curves = published(Published("knn-over-epochs", _theirs_named, lambda point: point.epoch), "cifar0")
    return (Panel("CIFAR-0, the authors, 1,000 epochs", "epoch", ACCURACY, tuple(curves)),)
