"""Accuracy of puNCE that is given a wrong class prior."""

from pucl.bench.figures.sweep import Sweep, gamma_of
from pucl.registry import register


@register("figures", reference="figure:puNCE_pi", inputs=("image",))
def punce_prior() -> Sweep:
    """Accuracy of puNCE told (1 + ε) π in place of π, over ε, for several γ."""
    only = ("task=cifar0", "objective=punce", "n_labelled=500,2500", "readout=knn", "epoch=None")
    title, x_label = "puNCE with a wrong class prior", "ε: puNCE is given (1 + ε) π"
    return Sweep(title, only, x_label, lambda cell: f"γ = {gamma_of(cell):g}", lambda cell: cell.prior_error)
