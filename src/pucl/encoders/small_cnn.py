"""A small convolutional network for small images, quick on a CPU."""

from torch import nn

from pucl.encoders.shapes import Shape
from pucl.registry import register


@register("encoders", reference="this package", inputs=("image",))
def small_cnn(input_shape: Shape, *, width: int = 32) -> nn.Module:
    """Three 3 × 3 convolutions with batch norm, pooled to 2 × 2 × 128.

    Their widths are `width`, 2 · `width` and 4 · `width`; the second has stride 2.
    """
    return nn.Sequential(
        *_block(input_shape[0], width, stride=1),
        *_block(width, 2 * width, stride=2),
        *_block(2 * width, 4 * width, stride=1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )


def _block(before: int, after: int, *, stride: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
