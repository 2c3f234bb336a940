"""Gaussian blur with its own width for every image, as two products with banded matrices."""

import torch
from torch import Tensor

BLUR_DRAWS = 2  # uniform numbers an image needs


def draw_sigma(uniform: Tensor, *, blur: float, sigma: tuple[float, float]) -> Tensor:
    """Standard deviations (n,) in pixels from uniform numbers (`BLUR_DRAWS`, n).

    Uniform in `sigma` with probability `blur`, otherwise 0, which does nothing.
    """
    of_blur, of_sigma = uniform.unbind()
    low, high = sigma
    return torch.where(of_blur < blur, low + (high - low) * of_sigma, 0.0)


def gaussian_blur(x: Tensor, sigma: Tensor, *, reach: int | None = None) -> Tensor:
    """Blur images (n, c, h, w) by standard deviations (n,) of pixels.

        x' = K_h x K_wᵀ,    K[i, j] = exp(−(i − j)² / 2σ²) / Σ_k exp(−(i − k)² / 2σ²)    for |i − j|, |i − k| ≤ r

    where the kernel of 2r + 1 pixels spans a tenth of the shorter side and at least three pixels, or r is `reach`. Sums
    run inside the image only, so that a constant stays constant up to the rim.
    """
    h, w = x.shape[2:]
    radius = max(1, min(h, w) // 20) if reach is None else reach
    across, down = (_matrix(sigma, side, radius)[:, None] for side in (w, h))
    return down @ x @ across.mT


def _matrix(sigma: Tensor, side: int, radius: int) -> Tensor:
    """The kernels K (n, side, side); σ = 0 gives the identity."""
    place = torch.arange(side, device=sigma.device)
    distance = (place[:, None] - place).abs()
    narrow = -0.5 / sigma.clamp(min=1e-3).square()
    weight = (narrow[:, None, None] * distance.square()).exp() * (distance <= radius)
    return weight / weight.sum(dim=2, keepdim=True)
