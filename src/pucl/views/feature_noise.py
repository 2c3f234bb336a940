"""Tables and vectors: Gaussian noise in units of the batch's spread, and features swapped between rows."""

import torch
from torch import Generator, Tensor

from pucl.registry import register


@register("views", reference="Bahri et al. 2022 (SCARF)", inputs=("table", "vector"))
def feature_noise(x: Tensor, generator: Generator, *, noise: float = 0.1, swap: float = 0.2) -> Tensor:
    """Noise on every feature; a share of the features replaced by those of another row.

    Args:
        x: rows (n, d).
        generator: source of all randomness, on the device of `x`.
        noise: standard deviation of the noise, in units of each feature's standard deviation over the batch.
        swap: probability that a feature takes the value of a random row of the batch (its empirical marginal).
    """
    spread = x.std(dim=0, correction=0)
    noisy = x + noise * spread * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    donor = torch.randint(len(x), x.shape, generator=generator, device=x.device)
    swapped = torch.rand(x.shape, generator=generator, device=x.device) < swap
    return torch.where(swapped, x.gather(0, donor), noisy)
