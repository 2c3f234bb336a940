"""Accuracy of mixed contrastive learning over its mixing weight, at several strengths of supervision."""

from collections.abc import Mapping
from types import MappingProxyType

from pucl.bench.figures.sweep import Published, Sweep, gamma_of
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.registry import register

ENDS: Mapping[str, float] = MappingProxyType({"sscl": 0.0, "scl_pu": 1.0})  # what mCL is at either end


@register("figures", name="mcl", reference="fig:mcl", inputs=("image",))
def mcl_figure() -> Sweep:
    """Accuracy of mCL(λ) over λ, a curve for each γ; λ = 0 is ssCL and λ = 1 is sCL-PU."""
    only = (
        "task=cifar0", "setting=overlapping", "objective=sscl,mcl,scl_pu", "n_labelled=500,5000", "readout=knn",
        "epoch=None",
    )  # fmt: skip
    theirs = Published(
        "mcl-over-mixing", lambda point: f"γ = {point.gamma:g}" if point.gamma in (0.05, 0.5) else None,
        lambda point: point.mixing,
    )  # fmt: skip
    return Sweep(
        "Mixed contrastive learning: how much the labels count", only, "mixing λ (0: ssCL, 1: sCL-PU)",
        lambda cell: f"γ = {gamma_of(cell):g}", mixing_of, published=(theirs,),
    )  # fmt: skip


def mixing_of(cell: Cell) -> float:
    """λ of a cell of mCL, ssCL or sCL-PU."""
    if not isinstance(cell, Pipeline):
        return 0.0
    return ENDS[cell.objective] if cell.objective in ENDS else float(str(cell.objective_options["mixing"]))
