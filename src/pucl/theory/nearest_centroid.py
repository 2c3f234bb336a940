"""remark:kNN: the nearest centroid is a linear classifier."""

import torch
from torch import Generator, Tensor

from pucl.heads.nearest_centroid import nearest_centroid as nearest_centroid_head
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register
from pucl.theory.comparison import Comparison, exact

N, DIM = 2000, 5


def linear_score(z: Tensor, centre: Tensor) -> Tensor:
    """The score of a class, μ · z − ½ ‖μ‖², (n,)."""
    return z @ centre - centre.pow(2).sum() / 2


@register("statements", reference="remark:kNN", inputs=("vector",))
def nearest_centroid(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The nearest of two centroids is a linear decision, with the centroids as weights.

        argmin_μ ‖z − μ‖ = argmax_μ (μ · z − ½ ‖μ‖²)

    where μ is μ_P or μ_N.
    """
    generator = Generator().manual_seed(seed)
    positive = torch.rand(N, generator=generator) < 0.4
    z = torch.randn(N, DIM, generator=generator, dtype=torch.float64) + positive[:, None]
    pseudo = PseudoLabels.from_probability(positive.double(), torch.zeros(N, dtype=torch.bool))
    centres = z[positive].mean(dim=0), z[~positive].mean(dim=0)
    nearer = (z - centres[0]).norm(dim=1) < (z - centres[1]).norm(dim=1)
    larger = linear_score(z, centres[0]) > linear_score(z, centres[1])
    head = nearest_centroid_head(z, torch.zeros(N, dtype=torch.bool), pseudo)(z) > 0
    return (
        _same("μ · z − ½ ‖μ‖²", larger, nearer),
        _same("the head nearest_centroid", head, nearer),
    )


def _same(name: str, decided: Tensor, nearer: Tensor) -> Comparison:
    return Comparison(
        f"share of rows on which {name} and the nearest centroid agree", 1.0, exact((decided == nearer).double().mean())
    )
