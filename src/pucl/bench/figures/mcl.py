"""Accuracy of mixed contrastive learning over its mixing weight, at several strengths of supervision."""

from pucl.bench.figures.sweep import Published, Sweep, gamma_of
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.registry import register


@register("figures", name="mcl", reference="fig:mcl", inputs=("image",))
def mcl_figure() -> Sweep:
    """Accuracy of mCL(λ) over λ, a curve for each γ."""
    only = ("task=cifar0", "objective=mcl", "readout=knn", "epoch=None")
    theirs = Published(
        "mcl-over-mixing", lambda point: f"γ = {point.gamma:g}" if point.gamma else None, lambda p: p.mixing
    )
    return Sweep(
        "Mixed contrastive learning: how much the labels count", only, "mixing λ (0: ssCL, 1: sCL-PU)",
        lambda cell: f"γ = {gamma_of(cell):g}", mixing_of, published=(theirs,),
    )  # fmt: skip


def mixing_of(cell: Cell) -> float:
    """λ of a cell of mCL."""
    return float(str(cell.objective_options["mixing"])) if isinstance(cell, Pipeline) else 0.0
