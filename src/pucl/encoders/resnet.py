"""Residual networks of 18, 34 and 50 layers, without their classifier."""

import torch.nn.functional as F
from torch import Tensor, nn

from pucl.encoders import Shape
from pucl.errors import bad_argument
from pucl.registry import register

CIFAR_UP_TO = 64  # the shortest side up to which the CIFAR stem is chosen
WIDTHS = (64, 128, 256, 512)


@register("encoders", reference="He et al. 2016", inputs=("image",))
def resnet18(input_shape: Shape, *, stem: str | None = None) -> nn.Module:
    """ResNet-18: basic blocks 2-2-2-2, 512 out.

    `stem` is what stands before the blocks:

        cifar:    conv 64, 3 × 3
        imagenet: conv 64, 7 × 7 / 2 – max-pool 3 × 3 / 2

    where / 2 is a stride of 2. It is chosen by size when not given: "cifar" when the shorter side has at most 64
    pixels. The blocks halve the image three times: 64 × 64 ends at 8 × 8 and, with the ImageNet stem, would end at
    2 × 2; 96 × 96 ends at 3 × 3 with the ImageNet stem and would cost sixteen times as much without. It takes images
    of any size.
    """
    return _resnet("resnet18", input_shape, (2, 2, 2, 2), stem, bottleneck=False)


@register("encoders", reference="He et al. 2016", inputs=("image",))
def resnet34(input_shape: Shape, *, stem: str | None = None) -> nn.Module:
    """ResNet-34: basic blocks 3-4-6-3, 512 out; `stem` as in `resnet18`."""
    return _resnet("resnet34", input_shape, (3, 4, 6, 3), stem, bottleneck=False)


@register("encoders", reference="He et al. 2016", inputs=("image",))
def resnet50(input_shape: Shape, *, stem: str | None = None) -> nn.Module:
    """ResNet-50: bottleneck blocks 3-4-6-3, 2048 out; `stem` as in `resnet18`."""
    return _resnet("resnet50", input_shape, (3, 4, 6, 3), stem, bottleneck=True)


class Residual(nn.Module):
    """A residual block: ReLU(main(x) + shortcut(x)); the shortcut is a 1 × 1 convolution where shapes change."""

    def __init__(self, main: nn.Module, before: int, after: int, stride: int) -> None:
        super().__init__()
        same = before == after and stride == 1
        self.main = main
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(before, after, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """The maps after the block, (n, after, h / stride, w / stride)."""
        return F.relu(self.main(x) + self.shortcut(x))


def _resnet(name: str, input_shape: Shape, depths: tuple[int, ...], stem: str | None, *, bottleneck: bool) -> nn.Module:
    """Stem, four stages of `depths` blocks, mean over the image; convolutions are drawn Kaiming-normal by fan out."""
    if stem not in ("cifar", "imagenet", None):
        raise bad_argument(f"encoder {name!r}", "stem", "'cifar', 'imagenet' or None", stem)
    stem = stem or ("cifar" if min(input_shape[1:]) <= CIFAR_UP_TO else "imagenet")
    layers = _stem(input_shape[0], stem)
    before = WIDTHS[0]
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            after = 4 * width if bottleneck else width
            main = _bottleneck(before, width, stride) if bottleneck else _basic(before, width, stride)
            layers.append(Residual(main, before, after, stride))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()).apply(_kaiming)


def _stem(channels: int, stem: str) -> list[nn.Module]:
    if stem == "cifar":
        return [*_conv(channels, WIDTHS[0], 3), nn.ReLU()]
    return [*_conv(channels, WIDTHS[0], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]


def _basic(before: int, width: int, stride: int) -> nn.Module:
    return nn.Sequential(*_conv(before, width, 3, stride), nn.ReLU(), *_conv(width, width, 3))


def _bottleneck(before: int, width: int, stride: int) -> nn.Module:
    # The stride is in the 3 × 3 convolution, as in every code base of today; the paper had it in the first 1 × 1.
    first, second = _conv(before, width, 1), _conv(width, width, 3, stride)
    return nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU(), *_conv(width, 4 * width, 1))


def _conv(before: int, after: int, size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    """A convolution that keeps the image's size but for its stride, with batch norm instead of a bias."""
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(after)


def _kaiming(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
