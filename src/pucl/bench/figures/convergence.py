"""Accuracy of nearest neighbours while the encoder is trained."""

from pucl.bench.figures.picture import Panel
from pucl.bench.figures.sweep import ACCURACY, Lines, Published, Sweep, objective_of, published
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.notebooks import Point
from pucl.registry import register


@register("figures", reference="fig:puCL_convergence", inputs=("image",))
def convergence() -> Sweep:
    """Accuracy of kNN over the epochs of ssCL and of puCL at several strengths of supervision.

    The number of all rows is fixed, so that an epoch has as many steps with any number of labels.
    """
    only = ("task=cifar0", "setting=single-set", "objective=sscl,pucl", "seed=0,1,2", "readout=knn")
    return Sweep("Nearest neighbours while the encoder learns", only, "epoch", _ours, _epoch, more=_theirs)


def _ours(cell: Cell) -> str:
    name = objective_of(cell)
    return name if name == "ssCL" else f"{name}, {cell.place.n_labelled:,} labelled"


def _curve(point: Point) -> str:
    return point.method if point.method == "ssCL" else f"{point.method}, {point.n_labelled:,} labelled"


def _epoch(cell: Cell) -> float:
    if not isinstance(cell, Pipeline):
        return 0.0
    return cell.epoch or cell.recipe.training.epochs


def _theirs(_: Lines) -> tuple[Panel, ...]:
    curves = published(Published("knn-over-epochs", _curve, lambda point: point.epoch), "cifar0")
    return (Panel("cifar0, the authors: ResNet-18, 1,000 epochs", "epoch", ACCURACY, tuple(curves)),)
