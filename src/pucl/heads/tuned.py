"""The networks of fine-tuning: an encoder with a linear layer, and the same with a batch norm while it learns."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.heads import LinearHead

MOMENTUM, EPS = 0.1, 1e-5  # of the batch norm before the layer


class FineTuned(nn.Module):
    """An encoder and a linear score of its L2-normalised output: raw rows → logits (n,), positive above 0."""

    def __init__(self, encoder: nn.Module, layer: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.layer = encoder, layer

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,) of raw rows."""
        return self.score(self.encoder(x))

    def score(self, z: Tensor) -> Tensor:
        """Logits (n,) of what the encoder gives (n, k), in the precision of the layer."""
        logits: Tensor = self.layer(_scaled(z.to(self.layer.weight.dtype)))
        return logits.squeeze(1)


class Normed(nn.Module):
    """The network of `FineTuned` with a batch norm before its layer, while it is trained.

    An encoder without batch norm puts all rows into a narrow cone; there every step of the encoder would move the
    logits of all rows together, by more than what tells them apart. Afterwards the norm becomes part of the layer.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, encoder: nn.Module, z: Tensor, head: LinearHead) -> None:
        super().__init__()
        self.encoder = encoder
        own = _scaled(z)
        self.register_buffer("mean", own.mean(dim=0))
        self.register_buffer("variance", own.var(dim=0))
        made = nn.utils.skip_init(nn.Linear, z.shape[1], 1, device=z.device)  # type: ignore[no-untyped-call]  # no draws
        self.layer: nn.Linear = made
        with torch.no_grad():
            weight = head.weight / z.shape[1] ** 0.5
            self.layer.weight.copy_(weight * self._deviation())
            self.layer.bias.copy_(head.bias + weight @ self.mean)

    def score(self, z: Tensor) -> Tensor:
        """Logits (n,) of what the encoder gives (n, k), in the precision of the layer."""
        own = _scaled(z.to(self.layer.weight.dtype))
        normed = F.batch_norm(own, self.mean, self.variance, training=self.training, momentum=MOMENTUM, eps=EPS)
        logits: Tensor = self.layer(normed)
        return logits.squeeze(1)

    @torch.no_grad()
    def folded(self) -> FineTuned:
        """Without the norm; it scores as this does in evaluation mode."""
        weight = self.layer.weight / self._deviation()
        self.layer.bias.sub_(weight @ self.mean)
        self.layer.weight.copy_(weight)
        return FineTuned(self.encoder, self.layer)

    def _deviation(self) -> Tensor:
        return (self.variance + EPS).sqrt()


def _scaled(z: Tensor) -> Tensor:
    """Embeddings (n, k) of unit mean square per feature."""
    scaled: Tensor = F.normalize(z, dim=1) * z.shape[1] ** 0.5
    return scaled
