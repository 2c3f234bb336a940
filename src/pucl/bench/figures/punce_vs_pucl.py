"""Accuracy of puNCE, which is given the class prior, and puCL, which is not."""

from pucl.bench.figures.sweep import Published, Sweep
from pucl.bench.results.notebooks import Point
from pucl.registry import register


@register("figures", reference="figure:puNCE_vs_puCL", inputs=("image",))
def punce_vs_pucl() -> Sweep:
    """Accuracy of puNCE, told the true π, and puCL over γ."""
    only = (
        "task=cifar0,imagenet2", "setting=overlapping", "objective=pucl,punce", "prior_error=0", "readout=knn",
        "epoch=None",
    )  # fmt: skip
    pucl = Published("objectives-over-gamma-200-epochs", lambda point: "puCL" if point.method == "puCL" else None)
    punce = Published("punce-over-prior", _told_the_truth)
    return Sweep("puNCE with the true class prior, and puCL", only, published=(pucl, punce))


def _told_the_truth(point: Point) -> str | None:
    return "puNCE" if (point.task, point.prior) in (("cifar0", 0.5), ("imagenet2", 0.488)) else None
