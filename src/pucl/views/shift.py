"""A small shift by whole pixels, and a flip if wanted: the mildest view of an image."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import check_count, check_share
from pucl.registry import register
from pucl.views.row_generator import uniform

OWNER = "view 'shift'"


@register("views", reference="def:augmentation", inputs=("image",))
def shift(x: Tensor, generator: Generator, *, pixels: int = 1, flip: float = 0.0) -> Tensor:
    """Every image moved by up to `pixels` in either direction, zeros coming in at the rim.

    Args:
        x: images (n, c, h, w).
        generator: source of all randomness, on the device of `x`.
        pixels: largest shift, down or up and right or left.
        flip: probability of a horizontal flip.
    """
    check_count(OWNER, "pixels", pixels)
    check_share(OWNER, "flip", flip, closed=True)
    n, _, h, w = x.shape
    of_down, of_right, of_flip = uniform(generator, x, 3).unbind(1)
    down, right = ((of * (2 * pixels + 1)).long().clamp(max=2 * pixels) for of in (of_down, of_right))
    rows = down[:, None] + torch.arange(h, device=x.device)
    columns = torch.arange(w, device=x.device).expand(n, w)
    columns = right[:, None] + torch.where((of_flip < flip)[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=x.device)[:, None, None]
    moved = F.pad(x, [pixels] * 4).movedim(1, 3)[image, rows[:, :, None], columns[:, None, :]]  # (n, h, w, c)
    return moved.movedim(3, 1).contiguous()
