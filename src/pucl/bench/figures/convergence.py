"""Accuracy of nearest neighbours while the encoder is trained."""

from pucl.bench.figures.sweep import Published, Sweep, gamma_of, objective_of
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.notebooks import Point
from pucl.registry import register


@register("figures", reference="fig:puCL_convergence", inputs=("image",))
def convergence() -> Sweep:
    """Accuracy of kNN over the epochs of ssCL and of puCL at several γ."""
    only = ("task=cifar0", "objective=sscl,pucl", "readout=knn")
    theirs = Published("knn-over-epochs", _theirs, lambda point: point.epoch)
    return Sweep(
        "Nearest neighbours while the encoder learns",
        only,
        "epoch",
        _ours,
        _epoch,
        without_labels=(),
        published=(theirs,),
    )


def _ours(cell: Cell) -> str:
    name = objective_of(cell)
    return name if name == "ssCL" else f"{name}, γ = {gamma_of(cell):g}"


def _theirs(point: Point) -> str:
    return point.method if point.method == "ssCL" else f"{point.method}, γ = {point.gamma:g}"


def _epoch(cell: Cell) -> float:
    if not isinstance(cell, Pipeline):
        return 0.0
    return cell.epoch or cell.recipe.training.epochs
