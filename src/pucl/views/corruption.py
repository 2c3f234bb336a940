"""Tables: features replaced by draws from their empirical marginals, and noise in units of their spread."""

import torch
from torch import Generator, Tensor

from pucl.errors import check_share
from pucl.registry import register
from pucl.views.checks import check_amount, check_rows

SCARF, FEATURE_NOISE = "view 'scarf'", "view 'feature_noise'"


@register("views", reference="Bahri et al. 2022 (SCARF)", inputs=("table", "vector"))
def scarf(x: Tensor, generator: Generator, *, corruption: float = 0.3, noise: float = 0.0) -> Tensor:
    """A share of the features replaced by those of other rows, feature by feature.

        x'_ij = x_kj with probability `corruption`, k uniform over the batch for each i and j;  x_ij + noise · σ_j ε_ij
        otherwise

    where σ_j is the standard deviation of feature j over the batch and ε standard normal.

    Args:
        x: rows (n, d).
        generator: source of all randomness, on the device of `x`.
        corruption: probability that a feature is replaced.
        noise: standard deviation of the noise on the others, in units of each feature's standard deviation.
    """
    check_share(SCARF, "corruption", corruption, closed=True)
    check_amount(SCARF, "noise", noise)
    return _corrupted(check_rows(SCARF, x), generator, noise=noise, swap=corruption)


@register("views", reference="Bahri et al. 2022 (SCARF)", inputs=("table", "vector"))
def feature_noise(x: Tensor, generator: Generator, *, noise: float = 0.1, swap: float = 0.2) -> Tensor:
    """Noise on every feature; a share of the features replaced by those of another row.

    The same transformation as `scarf`, weaker and with noise.

    Args:
        x: rows (n, d).
        generator: source of all randomness, on the device of `x`.
        noise: standard deviation of the noise, in units of each feature's standard deviation over the batch.
        swap: probability that a feature takes the value of a random row of the batch (its empirical marginal).
    """
    check_share(FEATURE_NOISE, "swap", swap, closed=True)
    check_amount(FEATURE_NOISE, "noise", noise)
    return _corrupted(check_rows(FEATURE_NOISE, x), generator, noise=noise, swap=swap)


def _corrupted(x: Tensor, generator: Generator, *, noise: float, swap: float) -> Tensor:
    spread = x.std(dim=0, correction=0)
    noisy = x + noise * spread * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    donor = torch.randint(len(x), x.shape, generator=generator, device=x.device)
    swapped = torch.rand(x.shape, generator=generator, device=x.device) < swap
    return torch.where(swapped, x.gather(0, donor), noisy)
