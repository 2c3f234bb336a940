"""LeNet-5 as the PU papers use it for F-MNIST, up to its last hidden layer."""

from torch import nn

from pucl.encoders.inputs import check_sides
from pucl.encoders.shapes import Shape
from pucl.registry import register

SMALLEST = 28  # the third convolution then sees 5 × 5, its own size


@register("encoders", reference="LeCun et al. 1998; Chen et al. 2020 (vPU)", inputs=("image",))
def lenet5(input_shape: Shape) -> nn.Module:
    """Three 5 × 5 convolutions and one linear layer with batch norm, 84 out.

        conv 6 (padding 2) – pool – ReLU – conv 16 – pool – ReLU – conv 120 – ReLU – linear 84 – batch norm

    Pools are 2 × 2 maxima and come before the ReLU. The encoder stops before the ReLU of the published classifier. The
    third convolution turns a 28 × 28 image into 120 numbers; larger images leave a map of 120 channels, which is
    flattened, so only the linear layer grows.
    """
    check_sides("lenet5", input_shape, SMALLEST)
    channels, *sides = input_shape
    height, width = ((side // 2 - 4) // 2 - 4 for side in sides)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 120, 5),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(120 * height * width, 84),
        nn.BatchNorm1d(84),
    )
