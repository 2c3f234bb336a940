"""A 7-layer all-convolutional network with batch norm: a modern cnn7."""

from torch import nn

from pucl.encoders.norm import NormReLU
from pucl.encoders.shapes import Shape
from pucl.encoders.stem import StemConvolution
from pucl.registry import register

LAYERS = ((96, 1), (96, 1), (96, 2), (192, 1), (192, 1), (192, 2), (192, 1))  # channels, stride


@register("encoders", reference="this package, after Springenberg et al. 2015", inputs=("image",))
def cnn7bn(input_shape: Shape) -> nn.Module:
    """Seven 3 × 3 convolutions with batch norm and ReLU, averaged over the image, 192 out.

        96 – 96 – 96 / 2 – 192 – 192 – 192 / 2 – 192 – mean

    where / 2 is a stride of 2; padding 1, no bias. It takes images of any size.
    """
    layers: list[nn.Module] = []
    before = input_shape[0]
    for after, stride in LAYERS:
        kind = nn.Conv2d if layers else StemConvolution
        layers += [kind(before, after, 3, stride, padding=1, bias=False), NormReLU(after)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
