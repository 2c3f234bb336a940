"""The first convolution of a network: images have three channels, fast kernels want eight."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS = 8  # 16 bytes of a 16-bit type


class StemConvolution(nn.Conv2d):
    """A convolution with the same parameters and values as `nn.Conv2d`, quick for images of few channels.

    On a GPU under autocast, where cuDNN has no fast kernels for other numbers, images and weights are filled up with
    channels of zeros to a multiple of 8.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The maps, (n, out, h / stride, w / stride)."""
        missing = -self.in_channels % CHANNELS
        if not (missing and x.is_cuda and x.ndim == 4 and self.groups == 1 and self.padding_mode == "zeros"):
            return super().forward(x)
        if not torch.is_autocast_enabled("cuda"):
            return super().forward(x)
        x = F.pad(x.to(torch.get_autocast_dtype("cuda")), (0, 0, 0, 0, 0, missing))
        weight = F.pad(self.weight, (0, 0, 0, 0, 0, missing))
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation)
