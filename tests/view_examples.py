"""Images, parameters of views and statistical checks for the tests of views."""

import math

import torch
from torch import Generator, Tensor

from pucl.views.colour import Colour
from pucl.views.crop import Crop


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def images(n: int, *shape: int) -> Tensor:
    return torch.rand(n, *shape, generator=seeded(7))


def some_crops() -> Crop:
    left, top = torch.tensor([0.0, 0.31, 0.5, 0.07, 0.0]), torch.tensor([0.2, 0.0, 0.45, 0.6, 0.0])
    width, height = torch.tensor([0.4, 0.69, 0.5, 0.81, 1.0]), torch.tensor([0.8, 0.77, 0.55, 0.3, 1.0])
    return Crop(left, top, width, height, torch.tensor([False, True, True, False, True]))


def some_colours() -> Colour:
    return Colour(
        torch.tensor([1.3, 0.6, 1.0, 1.0, 0.9]),
        torch.tensor([0.7, 1.4, 0.0, 1.0, 1.2]),
        torch.tensor([1.35, 0.0, 0.8, 1.0, 0.6]),
        torch.tensor([0.1, -0.07, 0.02, 0.25, -0.1]),
        torch.tensor([False, False, False, False, True]),
    )


def assert_uniform(values: Tensor, low: float, high: float) -> None:
    """The Kolmogorov–Smirnov distance to U(low, high) is below 1.95 / √n."""
    assert values.min() >= low - 1e-5 and values.max() <= high + 1e-5
    cdf = ((values.double() - low) / (high - low)).sort().values
    n = len(values)
    assert (cdf - (torch.arange(n) + 0.5) / n).abs().max() < 1.95 / math.sqrt(n)


def assert_rate(hits: Tensor, p: float) -> None:
    assert abs(hits.double().mean() - p) < 3.3 * math.sqrt(p * (1 - p) / hits.numel())
