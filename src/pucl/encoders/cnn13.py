"""The "13-layer CNN" of nnPU, Self-PU and Dist-PU, up to its last hidden layer."""

from torch import nn

from pucl.encoders.norm import NormReLU
from pucl.encoders.shapes import Shape
from pucl.encoders.stem import StemConvolution
from pucl.registry import register

LAYERS = (  # channels, size, stride
    (96, 3, 1),
    (96, 3, 1),
    (96, 3, 2),
    (192, 3, 1),
    (192, 3, 1),
    (192, 3, 2),
    (192, 3, 1),
    (192, 1, 1),
    (10, 1, 1),
)


@register("encoders", reference="Kiryo et al. 2017 (nnPU)", inputs=("image",))
def cnn13(input_shape: Shape) -> nn.Module:
    """Nine convolutions with batch norm and ReLU, then two linear layers of 1000 units.

        96 – 96 – 96 / 2 – 192 – 192 – 192 / 2 – 192 – 192 (1 × 1) – 10 (1 × 1) – linear 1000 – ReLU – linear 1000

    where / 2 is a stride of 2 and convolutions are 3 × 3 with padding 1 unless said otherwise. A 32 × 32 image gives
    10 · 8² = 640 numbers to the first linear layer. The encoder ends at the second, without the ReLU of the published
    classifier. Weights are Kaiming-normal (fan in, gain √2), biases zero. It takes images of any size.
    """
    before, *sides = input_shape
    layers: list[nn.Module] = []
    for after, size, stride in LAYERS:
        kind = nn.Conv2d if layers else StemConvolution
        layers += [kind(before, after, size, stride, padding=size // 2), NormReLU(after)]
        before = after
    height, width = (-(-side // 4) for side in sides)
    linear = nn.Linear(10 * height * width, 1000), nn.ReLU(), nn.Linear(1000, 1000)
    return nn.Sequential(*layers, nn.Flatten(), *linear).apply(_kaiming)


def _kaiming(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
