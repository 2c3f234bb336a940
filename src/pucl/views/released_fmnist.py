"""The view of Fashion-MNIST in the authors' released code: far stronger than the paper's text says."""

import torch
from torch import Generator, Tensor

from pucl.registry import register
from pucl.views.blur import BLUR_DRAWS, draw_sigma, gaussian_blur
from pucl.views.checks import check_images
from pucl.views.colour import COLOUR_DRAWS, draw_colour, recolour
from pucl.views.crop import CROP_DRAWS, crop_and_flip, draw_crop
from pucl.views.perspective import PERSPECTIVE_DRAWS, draw_pose, pose_images
from pucl.views.row_generator import uniform

OWNER = "view 'released_fmnist'"
SCALE, ASPECT, SIGMA = (0.08, 1.0), (3 / 4, 4 / 3), (0.1, 2.0)
REACH = 6  # pixels of the blur to either side, three of its largest standard deviations


@register("views", reference="the authors' released code", inputs=("image",))
def released_fmnist(x: Tensor, generator: Generator) -> Tensor:
    """Crops from 8 % of the area, tone, blur, mirroring, perspective, upside down and a quarter turn.

    In this order: a crop of 0.08 to 1 of the area; with probability 0.8 brightness and contrast by up to 0.4 (and, of
    colour images, saturation by 0.2 and hue by 0.1); with ½ a blur of 0.1 to 2 pixels; with ½ each mirrored, seen in
    perspective (corners move inwards by up to a quarter of the side), upside down, and turned by a quarter against the
    clock. Two things differ from their code, which draws corners at whole pixels and the steps of tone in any order.

    Args:
        x: images (n, c, h, w) with c = 1 or 3, as floats in [0, 1] or as uint8.
        generator: source of all randomness, on the device of `x`.

    Returns:
        float32 images of the shape of `x`.
    """
    images = check_images(OWNER, x)
    draws = [CROP_DRAWS, COLOUR_DRAWS, BLUR_DRAWS, PERSPECTIVE_DRAWS]
    of_crop, of_colour, of_blur, of_pose = torch.split(uniform(generator, images, sum(draws)).T, draws)
    crop = draw_crop(of_crop, (x.shape[2], x.shape[3]), scale=SCALE, aspect=ASPECT, flip=0.5)
    amounts = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1}
    tone = draw_colour(of_colour, jitter=0.8, greyscale=0.0, **amounts)
    toned = recolour(crop_and_flip(images, crop), tone).clamp(0, 1)
    blurred = gaussian_blur(toned, draw_sigma(of_blur, blur=0.5, sigma=SIGMA), reach=REACH)
    pose = draw_pose(of_pose, perspective=0.5, distortion=0.5, upset=0.5, turn=0.5)
    return pose_images(blurred, pose).clamp(0, 1)
