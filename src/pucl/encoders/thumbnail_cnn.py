"""The small convolutional network on thumbnails: images of any size at the cost of small ones."""

from torch import nn

from pucl.encoders.shapes import Shape
from pucl.encoders.small_cnn import small_cnn
from pucl.registry import register

SIDE = 32  # pixels that the shorter side of a thumbnail has at least


@register("encoders", reference="this package", inputs=("image",))
def thumbnail_cnn(input_shape: Shape, *, width: int = 32) -> nn.Module:
    """`small_cnn` on the means of k × k pixels, where k is a 32nd of the shorter side.

    k is rounded down, so images below 64 pixels stay as they are. Its neurons see 9 × 9 pixels: of a thumbnail about a
    quarter of its width, of a photograph little but texture.
    """
    block = max(1, min(input_shape[1:]) // SIDE)
    return nn.Sequential(nn.AvgPool2d(block), small_cnn(input_shape, width=width))
