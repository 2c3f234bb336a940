"""Residual networks of 18, 34 and 50 layers, without their classifier."""

from torch import Tensor, nn

from pucl.encoders.norm import NormReLU
from pucl.encoders.shapes import Shape
from pucl.encoders.stem import StemConvolution
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


class Stem(nn.Module):
    """What stands before the blocks: convolution, batch norm, ReLU, for large images max-pooling.

    Without pooling its maps come twice, for the main path and the shortcut of the first block.
    """

    def __init__(self, channels: int, kind: str) -> None:
        super().__init__()
        size, stride = (3, 1) if kind == "cifar" else (7, 2)
        self.conv = StemConvolution(channels, WIDTHS[0], size, stride, padding=size // 2, bias=False)
        self.norm = NormReLU(WIDTHS[0])
        self.pool = None if kind == "cifar" else nn.MaxPool2d(3, 2, padding=1)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The maps, (n, 64, h, w), with pooling (n, 64, h / 4, w / 4)."""
        x = self.conv(x)
        return self.norm.forward_twice(x) if self.pool is None else self.pool(self.norm(x))


class Residual(nn.Module):
    """A residual block: ReLU(norm(main(x)) + shortcut(x)); the shortcut is a 1 × 1 convolution where shapes change.

    Between blocks the same maps are passed twice, for the main path and the shortcut: see `NormReLU.forward_twice`.
    """

    def __init__(self, main: nn.Module, before: int, after: int, stride: int, *, last: bool) -> None:
        super().__init__()
        same = before == after and stride == 1
        self.main = main
        self.norm = NormReLU(after)
        self.shortcut: nn.Module = nn.Identity()
        if not same:
            self.shortcut = nn.Sequential(_conv(before, after, 1, stride), NormReLU(after, relu=False))
        self.last = last

    def forward(self, x: Tensor | tuple[Tensor, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
        """The maps after the block, (n, after, h / stride, w / stride), twice unless it is the last block."""
        inner, outer = x if isinstance(x, tuple) else (x, x)
        inner, outer = self.main(inner), self.shortcut(outer)
        out: Tensor | tuple[Tensor, Tensor] = (self.norm if self.last else self.norm.forward_twice)(inner, outer)
        return out


def _resnet(name: str, input_shape: Shape, depths: tuple[int, ...], stem: str | None, *, bottleneck: bool) -> nn.Module:
    """Stem, four stages of `depths` blocks, mean over the image; convolutions are drawn Kaiming-normal by fan out."""
    if stem not in ("cifar", "imagenet", None):
        raise bad_argument(f"encoder {name!r}", "stem", "'cifar', 'imagenet' or None", stem)
    stem = stem or ("cifar" if min(input_shape[1:]) <= CIFAR_UP_TO else "imagenet")
    layers: list[nn.Module] = [Stem(input_shape[0], stem)]
    before = WIDTHS[0]
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            after = 4 * width if bottleneck else width
            main = _bottleneck(before, width, stride) if bottleneck else _basic(before, width, stride)
            last = stage + 1 == len(WIDTHS) and block + 1 == depth
            layers.append(Residual(main, before, after, stride, last=last))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()).apply(_kaiming)


def _basic(before: int, width: int, stride: int) -> nn.Module:
    return nn.Sequential(_conv(before, width, 3, stride), NormReLU(width), _conv(width, width, 3))


def _bottleneck(before: int, width: int, stride: int) -> nn.Module:
    # The stride is in the 3 × 3 convolution, as in every code base of today; the paper had it in the first 1 × 1.
    first, second = _conv(before, width, 1), _conv(width, width, 3, stride)
    return nn.Sequential(first, NormReLU(width), second, NormReLU(width), _conv(width, 4 * width, 1))


def _conv(before: int, after: int, size: int, stride: int = 1) -> nn.Module:
    """A convolution that keeps the image's size but for its stride; the batch norm behind it has the bias."""
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)


def _kaiming(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
