"""Accuracy of puNCE, which is given the class prior, and puCL, which is not."""

from pucl.bench.figures.sweep import Sweep
from pucl.registry import register


@register("figures", reference="figure:puNCE_vs_puCL", inputs=("image",))
def punce_vs_pucl() -> Sweep:
    """Accuracy of puNCE, told the true π, and puCL over γ."""
    only = ("task=cifar0", "objective=pucl,punce", "prior_error=0", "readout=knn", "epoch=None")
    return Sweep("puNCE with the true class prior, and puCL", only)
