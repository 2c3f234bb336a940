"""Images as a pretrained network takes them: three channels, its size, its mean and spread."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.errors import Described, bad_argument

MODES = ("bilinear", "bicubic")


class Preprocess(nn.Module):
    """Images within [0, 1], grey or in colour and of any size → (n, 3, h, w), resized and standardised.

    The mean and the spread are those of the network's own training. They belong to its definition, not to its weights,
    and are not stored with these.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, channels: int, size: tuple[int, int], mean: Sequence[float], std: Sequence[float], mode: str = "bilinear"
    ) -> None:
        super().__init__()
        if channels not in (1, 3):
            raise bad_argument("encoder", "x", "grey or colour images", Described(f"images of {channels} channels"))
        self.size, self.mode = size, mode if mode in MODES else MODES[0]
        for name, value in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32)[:, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1 or 3, h', w') → (n, 3, h, w)."""
        if tuple(x.shape[-2:]) != self.size:
            x = F.interpolate(x, size=self.size, mode=self.mode, align_corners=False, antialias=True)
        return (x.expand(-1, 3, -1, -1) - self.mean) / self.std


class Preprocessed(nn.Module):
    """A network that came with weights, behind its own preprocessing: images within [0, 1] → vectors."""

    own_scaling = True

    def __init__(self, preprocess: Preprocess, body: nn.Module) -> None:
        super().__init__()
        self.preprocess, self.body = preprocess, body

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, k)."""
        out: Tensor = self.body(self.preprocess(x))
        return out.flatten(1)
