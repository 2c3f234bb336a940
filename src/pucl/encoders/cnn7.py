"""The 7-layer CNN of vPU and P3Mix, in its CIFAR and its STL form, up to its last hidden layer."""

from torch import nn

from pucl.encoders.inputs import check_sides
from pucl.encoders.shapes import Shape
from pucl.encoders.stem import StemConvolution
from pucl.errors import bad_argument
from pucl.registry import register

STL_FROM = 64  # the shortest side from which the STL form is chosen


@register("encoders", reference="Chen et al. 2020 (vPU)", inputs=("image",))
def cnn7(input_shape: Shape, *, form: str | None = None) -> nn.Module:
    """Four convolutions and two linear layers, without padding or batch norm.

        cifar: conv 96 (3 × 3) – conv 96 (3 × 3 / 2) – conv 192 (1 × 1) – conv 10 (1 × 1) – linear 1000 – linear 1000
        stl:   conv 6 (3 × 3) – pool – conv 6 (3 × 3) – conv 16 (5 × 5) – pool – conv 32 (5 × 5) – pool
               – linear 120 – linear 84

    where / 2 is a stride of 2. A ReLU follows every layer but the last, where the encoder ends; pools are 2 × 2 maxima
    after the ReLU. The published sizes come out: 32 × 32 gives 10 · 14² = 1960 numbers to the first linear layer of the
    CIFAR form, 96 × 96 gives 32 · 8² = 2048 to that of the STL form.

    `form` is chosen by size when not given: "stl" when the shorter side has 64 pixels or more. The smallest images are
    5 × 5 for "cifar" and 38 × 38 for "stl".
    """
    if form not in ("cifar", "stl", None):
        raise bad_argument("encoder 'cnn7'", "form", "'cifar', 'stl' or None", form)
    form = form or ("stl" if min(input_shape[1:]) >= STL_FROM else "cifar")
    return _cifar(input_shape) if form == "cifar" else _stl(input_shape)


def _cifar(input_shape: Shape) -> nn.Module:
    check_sides("cnn7", input_shape, 5)
    channels, *sides = input_shape
    height, width = ((side - 3) // 2 for side in sides)
    return nn.Sequential(
        StemConvolution(channels, 96, 3),
        nn.ReLU(),
        *_conv(96, 96, 3, stride=2),
        *_conv(96, 192, 1),
        *_conv(192, 10, 1),
        nn.Flatten(),
        nn.Linear(10 * height * width, 1000),
        nn.ReLU(),
        nn.Linear(1000, 1000),
    )


def _stl(input_shape: Shape) -> nn.Module:
    check_sides("cnn7", input_shape, 38)
    channels, *sides = input_shape
    height, width = ((((side - 2) // 2 - 6) // 2 - 4) // 2 for side in sides)
    return nn.Sequential(
        *_conv(channels, 6, 3),
        nn.MaxPool2d(2),
        *_conv(6, 6, 3),
        *_conv(6, 16, 5),
        nn.MaxPool2d(2),
        *_conv(16, 32, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * height * width, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
    )


def _conv(before: int, after: int, size: int, *, stride: int = 1) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, size, stride), nn.ReLU()
