"""Random resized crop and horizontal flip, as one bilinear resampling of the whole batch."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

CROP_DRAWS = 5  # uniform numbers an image needs


class Crop(NamedTuple):
    """One box per image, as shares of its width and height, and whether to mirror it; every field is (n,)."""

    left: Tensor
    top: Tensor
    width: Tensor
    height: Tensor
    flip: Tensor


def draw_crop(
    uniform: Tensor,
    size: tuple[int, int],
    *,
    scale: tuple[float, float],
    aspect: tuple[float, float],
    flip: float,
) -> Crop:
    """Boxes inside images of `size` = (h, w) from uniform numbers (`CROP_DRAWS`, n).

        a ~ U(scale),    t ~ U([log aspect_low − log q, log aspect_high − log q] ∩ [log a, −log a])
        width = √(a eᵗ),    height = √(a e⁻ᵗ)

    where a is the share of the area, q = w / h the shape of the image and q eᵗ the width of the box over its height,
    in pixels. The second interval holds the shapes at which a box of area a fits into the image, so that none has to
    be drawn again and the area keeps its distribution; if the two do not meet, the nearest shape that fits is taken.
    The place of the box is uniform among all that lie inside.
    """
    of_area, of_shape, of_left, of_top, of_flip = uniform.unbind()
    (small, large), q = scale, size[1] / size[0]
    reach = -(small + (large - small) * of_area).clamp(max=1).log()
    narrowest = (-reach).clamp(min=math.log(aspect[0] / q)).minimum(reach)
    widest = reach.clamp(max=math.log(aspect[1] / q)).maximum(-reach)
    shape = torch.lerp(narrowest, widest, of_shape)
    width, height = ((shape - reach) / 2).exp(), ((-shape - reach) / 2).exp()
    return Crop(of_left * (1 - width), of_top * (1 - height), width, height, of_flip < flip)


def crop_and_flip(x: Tensor, crop: Crop) -> Tensor:
    """The boxes, mirrored or not, resampled to the full size (n, c, h, w).

        u' = left + width · (1 − u if flip else u),    v' = top + height · v

    where (u, v) in [0, 1]² is a place in the result and (u', v') where it is read in `x`, bilinearly between the
    centres of pixels; beyond the outermost centres the image continues as it ends. At the rim of the box the pixels
    next to it take part.
    """
    n, _, h, w = x.shape
    columns, rows = (
        torch.linspace(1 / side - 1, 1 - 1 / side, side, device=x.device, dtype=x.dtype) for side in (w, h)
    )
    stretch = torch.where(crop.flip, -crop.width, crop.width)
    across = (2 * crop.left + crop.width - 1)[:, None] + stretch[:, None] * columns  # (n, w), in [-1, 1]
    down = (2 * crop.top + crop.height - 1)[:, None] + crop.height[:, None] * rows  # (n, h)
    grid = torch.stack([across[:, None, :].expand(n, h, w), down[:, :, None].expand(n, h, w)], dim=3)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
