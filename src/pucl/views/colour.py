"""Brightness, contrast, saturation, hue and greyscale, as one affine map of colour per image."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

COLOUR_DRAWS = 6  # uniform numbers an image needs
LUMA = (0.299, 0.587, 0.114)  # Y of YIQ
QUARTER_TURN = (  # T⁻¹ J T of T = RGB → YIQ (four digits) and J the quarter turn of the plane (I, Q)
    (0.1677032467, 0.3292681464, -0.4969713931),
    (-0.3281308140, 0.0355209289, 0.2926098851),
    (1.2497326056, -1.0465084301, -0.2032241755),
)


class Colour(NamedTuple):
    """Factors (1 changes nothing), a share of a full turn of hue, and whether to remove colour; every field is (n,)."""

    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    grey: Tensor


def draw_colour(
    uniform: Tensor,
    *,
    jitter: float,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    greyscale: float,
) -> Colour:
    """Parameters from uniform numbers (`COLOUR_DRAWS`, n).

    With probability `jitter` the factors are uniform in [max(0, 1 − amount), 1 + amount] and the hue in [−hue, hue],
    all four independently; otherwise they change nothing. With probability `greyscale` the colour is removed.
    """
    of_brightness, of_contrast, of_saturation, of_hue, of_jitter, of_grey = uniform.unbind()
    jittered = of_jitter < jitter

    def factor(u: Tensor, amount: float) -> Tensor:
        low = max(0.0, 1 - amount)
        return torch.where(jittered, low + (1 + amount - low) * u, 1.0)

    return Colour(
        factor(of_brightness, brightness),
        factor(of_contrast, contrast),
        factor(of_saturation, saturation),
        torch.where(jittered, hue * (2 * of_hue - 1), 0.0),
        of_grey < greyscale,
    )


def recolour(x: Tensor, colour: Colour) -> Tensor:
    """Change the colours of images (n, c, h, w); the result is not clamped to [0, 1].

    In this order, whatever the image:

        x ← b x                                  brightness
        x ← c x + (1 − c) m                      contrast, m = mean of Y over the pixels
        x ← s x + (1 − s) Y 1                    saturation
        x ← T⁻¹ R(2π·hue) T x                    hue
        x ← Y 1                                  greyscale

    where x is a colour (R, G, B), Y = wᵀx its luma, T the matrix from RGB to YIQ and R(φ) the rotation of (I, Q) by φ.
    Hue is turned in YIQ, a linear map that keeps the luma, and not in HSV, which would change it. All five steps are
    affine and leave grey grey, so that they make one map per image,

        x' = b c C x + b (1 − c) m₀ 1,    C = α I + (1 − α) 1wᵀ + β T⁻¹JT,    (α, β) = s (cos, sin)(2π·hue)

    where m₀ is the mean of Y before the first step, J the quarter turn of (I, Q), and s = 0 for greyscale. Grey images
    (one channel) have brightness and contrast only.
    """
    coloured, pixels = x.shape[1] == 3, x.flatten(2)
    means = pixels.mean(dim=2).unbind(1)
    mean = LUMA[0] * means[0] + LUMA[1] * means[1] + LUMA[2] * means[2] if coloured else means[0]
    gain = colour.brightness * colour.contrast
    gain, offset = gain[:, None, None], ((colour.brightness - gain) * mean)[:, None, None]
    out = torch.baddbmm(offset, gain * colour_matrix(colour), pixels) if coloured else pixels * gain + offset
    return out.view_as(x)


def colour_matrix(colour: Colour) -> Tensor:
    """Saturation, hue and greyscale as matrices C (n, 3, 3), see `recolour`.

    The constants enter as Python numbers: a constant tensor would have to be copied to the device at every call.
    """
    angle, chroma = 2 * math.pi * colour.hue, torch.where(colour.grey, 0.0, colour.saturation)
    along, across = chroma * angle.cos(), chroma * angle.sin()
    luma = [(1 - along) * weight for weight in LUMA]
    entries = [
        torch.add(luma[j] + along if i == j else luma[j], across, alpha=QUARTER_TURN[i][j])
        for i in range(3)
        for j in range(3)
    ]
    return torch.stack(entries, dim=1).view(-1, 3, 3)
