"""Vectors, such as frozen embeddings: mixing with a neighbour, noise in units of the spread, dropped features."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import bad_argument, check_count, check_share, is_number
from pucl.numerics.nearest import nearest
from pucl.registry import register
from pucl.views.checks import check_amount, check_rows

OWNER = "view 'vector'"


@register("views", reference="Verma et al. 2021 (DACL); ours", inputs=("vector",))
def vector(
    x: Tensor,
    generator: Generator,
    *,
    noise: float = 0.1,
    dropout: float = 0.1,
    mix: float = 0.1,
    neighbours: int = 0,
) -> Tensor:
    """A little of another row, noise on every feature, and a share of the features dropped.

        x'_i = d_i ⊙ ((1 − λ_i) x_i + λ_i x_k + noise · σ ⊙ ε_i) / (1 − dropout)

    where k is another row of the batch, λ_i ~ U(0, mix), σ the standard deviation of each feature over the batch, ε
    standard normal, and d_i has independent entries that are 0 with probability `dropout`, otherwise 1.

    Args:
        x: rows (n, d).
        generator: source of all randomness, on the device of `x`.
        noise: standard deviation of the noise, in units of each feature's standard deviation over the batch.
        dropout: probability that a feature is set to 0, below 1; the others grow so that the mean stays.
        mix: largest weight of the other row.
        neighbours: the other row is one of this many nearest rows of the batch by cosine; 0 for any row.
    """
    check_amount(OWNER, "noise", noise)
    check_share(OWNER, "mix", mix, closed=True)
    if not (is_number(dropout) and 0 <= dropout < 1):
        raise bad_argument(OWNER, "dropout", "a number in [0, 1)", dropout)
    check_count(OWNER, "neighbours", neighbours, low=0)
    other = x[_partner(check_rows(OWNER, x), neighbours, generator)]

    weight = mix * torch.rand(len(x), 1, generator=generator, device=x.device, dtype=x.dtype)
    grain = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    moved = torch.lerp(x, other, weight) + noise * x.std(dim=0, correction=0) * grain
    dropped = torch.rand(x.shape, generator=generator, device=x.device) < dropout
    return torch.where(dropped, 0.0, moved / (1 - dropout))


def _partner(x: Tensor, neighbours: int, generator: Generator) -> Tensor:
    """The number of another row for each row (n,): any, or one of the nearest; a row alone is its own partner."""
    n, k = len(x), min(neighbours, len(x) - 1)
    own = torch.arange(n, device=x.device)
    if k < 1:
        return (own + torch.randint(1, max(n, 2), (n,), generator=generator, device=x.device)) % n
    z = F.normalize(x, dim=1)
    _, near = nearest(z, z, k, skip_self=True)
    return near.gather(1, torch.randint(k, (n, 1), generator=generator, device=x.device)).squeeze(1)
