"""Accuracy of ssCL, sCL-PU and puCL over the strength of supervision."""

from pucl.bench.figures.sweep import Published, Sweep
from pucl.bench.results.notebooks import Point
from pucl.registry import register

SHOWN = ("ssCL", "sCL-PU", "puCL")


@register("figures", name="nP_contrastive", reference="fig:nP_contrastive", inputs=("image",))
def np_contrastive() -> Sweep:
    """Accuracy of ssCL, sCL-PU and puCL over γ, with n_U fixed.

    Labelled rows are in U too, so that more labels mean more rows: all three see the same ones.
    """
    only = (
        "task=cifar0,imagenet2", "setting=overlapping", "objective=sscl,scl_pu,pucl", "readout=knn", "epoch=None"
    )  # fmt: skip
    theirs = Published("objectives-over-gamma-200-epochs", _curve)
    return Sweep("Contrastive objectives over the strength of supervision", only, published=(theirs,))


def _curve(point: Point) -> str | None:
    return point.method if point.method in SHOWN else None
