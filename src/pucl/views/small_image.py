"""Small grey or colour images: rotation, scaling, shear, shift, contrast, brightness and pixel noise in one pass."""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.registry import register
from pucl.views.row_generator import normal, uniform


@register("views", reference="def:augmentation", inputs=("image",))
def small_image(
    x: Tensor,
    generator: Generator,
    *,
    rotation: float = 15.0,
    scale: float = 0.15,
    shear: float = 0.15,
    shift: float = 0.12,
    contrast: float = 0.4,
    noise: float = 0.05,
) -> Tensor:
    """A random affine map and a random tone for every image of the batch.

    Args:
        x: images (n, c, h, w) with values in [0, 1].
        generator: source of all randomness, on the device of `x`.
        rotation: largest angle in degrees.
        scale: largest relative change of size.
        shear: largest shear.
        shift: largest shift as a share of the image.
        contrast: largest relative change of contrast; brightness moves by up to half of it.
        noise: standard deviation of the pixel noise.
    """
    of_angle, of_size, of_skew, of_right, of_down, of_gain, of_offset = (2 * uniform(generator, x, 7) - 1).unbind(1)
    angle, size, skew = math.radians(rotation) * of_angle, 1 + scale * of_size, shear * of_skew
    cos, sin = angle.cos() / size, angle.sin() / size
    row_x = torch.stack([cos, skew * cos - sin, 2 * shift * of_right], dim=1)  # grid units span [-1, 1]
    row_y = torch.stack([sin, skew * sin + cos, 2 * shift * of_down], dim=1)
    grid = F.affine_grid(torch.stack([row_x, row_y], dim=1), list(x.shape), align_corners=False)
    moved = F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)

    gain, offset = (1 + contrast * of_gain).view(-1, 1, 1, 1), (contrast / 2 * of_offset).view(-1, 1, 1, 1)
    grain = noise * normal(generator, x, *x.shape[1:])
    return (moved * gain + offset + grain).clamp(0, 1)
