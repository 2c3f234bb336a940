"""Accuracy of puCL where the positive classes look alike, and where they do not."""

from pucl.bench.figures.sweep import Published, Sweep
from pucl.registry import register


@register("figures", reference="fig:hard-to-classify", inputs=("image",))
def hardness() -> Sweep:
    """Accuracy of ssCL, puCL over γ and sCL on CIFAR-easy, -medium and -hard."""
    only = ("task=cifar_easy,cifar_medium,cifar_hard", "objective=sscl,pucl,scl", "readout=knn", "epoch=None")
    theirs = Published("hardness", lambda point: point.method)
    return Sweep("Classes that look alike, and classes that do not", only, published=(theirs,))
