"""Accuracy of puNCE that is given a wrong class prior."""

from pucl.bench.figures.sweep import Published, Sweep, gamma_of
from pucl.bench.results.notebooks import Point
from pucl.registry import register

TRUE = 0.5  # π of CIFAR-0


@register("figures", reference="figure:puNCE_pi", inputs=("image",))
def punce_prior() -> Sweep:
    """Accuracy of puNCE told (1 + ε) π in place of π, over ε, for several γ."""
    only = ("task=cifar0", "setting=overlapping", "objective=punce", "n_labelled=500,2500", "readout=knn", "epoch=None")
    title, x_label = "puNCE with a wrong class prior", "ε: puNCE is given (1 + ε) π"
    theirs = Published("punce-over-prior", _curve, _error)
    return Sweep(
        title, only, x_label, lambda cell: f"γ = {gamma_of(cell):g}", lambda cell: cell.prior_error, published=(theirs,)
    )


def _curve(point: Point) -> str | None:
    return f"γ = {point.gamma:g}" if point.gamma in (0.05, 0.25) else None


def _error(point: Point) -> float | None:
    """ε of a given prior, as far as our axis reaches."""
    error = None if point.prior is None else round(point.prior / TRUE - 1, 6)
    return error if error is not None and abs(error) <= 0.3 else None
