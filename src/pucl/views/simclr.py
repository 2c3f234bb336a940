"""The views of SimCLR: crop and flip, colour jitter, greyscale and blur, with its own parameters for every image."""

import torch
from torch import Generator, Tensor

from pucl.errors import check_share
from pucl.registry import register
from pucl.views.blur import BLUR_DRAWS, draw_sigma, gaussian_blur
from pucl.views.checks import check_amount, check_images, check_range
from pucl.views.colour import COLOUR_DRAWS, Colour, draw_colour, recolour
from pucl.views.crop import CROP_DRAWS, Crop, crop_and_flip, draw_crop
from pucl.views.row_generator import uniform

OWNER = "view 'simclr'"


@register("views", reference="def:augmentation; Chen et al. 2020", inputs=("image",))
def simclr(
    x: Tensor,
    generator: Generator,
    *,
    scale: tuple[float, float] = (0.2, 1.0),
    aspect: tuple[float, float] = (3 / 4, 4 / 3),
    flip: float = 0.5,
    jitter: float = 0.8,
    brightness: float = 0.4,
    contrast: float = 0.4,
    saturation: float = 0.4,
    hue: float = 0.1,
    strength: float = 1.0,
    greyscale: float = 0.2,
    blur: float = 0.0,
    sigma: tuple[float, float] = (0.1, 2.0),
) -> Tensor:
    """A random crop of every image, mirrored and recoloured at random.

    The defaults are those of SimCLR on CIFAR-10. The steps have a fixed order: crop and flip, brightness, contrast,
    saturation, hue (turned in YIQ, see `pucl.views.colour`), greyscale, blur; values are clamped to [0, 1] once, at
    the end. Grey images have no saturation, hue or greyscale. Nothing waits for the device, and ``torch.compile``
    of the view makes a few kernels of it.

    Args:
        x: images (n, c, h, w) with c = 1 or 3, as floats in [0, 1] or as uint8.
        generator: source of all randomness, on the device of `x`.
        scale: smallest and largest area of the crop as a share of the image.
        aspect: smallest and largest width of the crop over its height, in pixels.
        flip: probability of mirroring left and right.
        jitter: probability of changing brightness, contrast, saturation and hue.
        brightness: largest relative change of brightness.
        contrast: largest relative change of contrast, around the mean luma of the crop.
        saturation: largest relative change of saturation.
        hue: largest turn of the hue, as a share of the full circle.
        strength: multiplies the four amounts above.
        greyscale: probability of removing the colour.
        blur: probability of blurring.
        sigma: smallest and largest standard deviation of the blur in pixels.

    Returns:
        float32 images of the shape of `x`.
    """
    scale, aspect = check_range(OWNER, "scale", scale, high=1), check_range(OWNER, "aspect", aspect)
    rates = {"flip": flip, "jitter": jitter, "greyscale": greyscale, "blur": blur}
    flip, jitter, greyscale, blur = (check_share(OWNER, name, rate, closed=True) for name, rate in rates.items())
    strength = check_amount(OWNER, "strength", strength)
    amounts = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    amounts = {name: strength * check_amount(OWNER, name, amount) for name, amount in amounts.items()}
    sigma = check_range(OWNER, "sigma", sigma)
    images = check_images(OWNER, x)

    draws = [CROP_DRAWS, COLOUR_DRAWS, BLUR_DRAWS]
    of_crop, of_colour, of_blur = torch.split(uniform(generator, images, sum(draws)).T, draws)
    return apply(
        images,
        draw_crop(of_crop, (x.shape[2], x.shape[3]), scale=scale, aspect=aspect, flip=flip),
        draw_colour(of_colour, jitter=jitter, greyscale=greyscale, **amounts),
        draw_sigma(of_blur, blur=blur, sigma=sigma) if blur > 0 else None,
    )


def apply(x: Tensor, crop: Crop, colour: Colour, sigma: Tensor | None = None) -> Tensor:
    """The view of float images (n, c, h, w) with given parameters, clamped to [0, 1]; no blur without `sigma`."""
    out = recolour(crop_and_flip(x, crop), colour)
    if sigma is not None:
        out = gaussian_blur(out, sigma)
    return out.clamp(0, 1)
