"""The networks of the baselines: an encoder, a ReLU, a linear layer."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.inputs import Encoder, Standardise, to_float
from pucl.seeds import seeded


class Network(nn.Module):
    """Raw rows → logits (n,), or (n, outputs) for more outputs than one, in float32.

    The published classifiers have a ReLU between the last hidden layer, where our encoders end, and the output; raw
    rows and user networks have none. On a GPU the network computes in bfloat16 while it is trained.
    """

    def __init__(self, encoder: Encoder, layer: nn.Linear, *, relu: bool = True) -> None:
        super().__init__()
        self.encoder, self.layer, self.relu = encoder, layer, relu
        self.low = False

    def forward(self, x: Tensor) -> Tensor:
        """Logits of raw rows."""
        return self.score(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """What the encoder makes of raw rows, (n, k)."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.low):
            out: Tensor = self.encoder(_laid_out(x))
        return out

    def score(self, z: Tensor) -> Tensor:
        """Logits of what the encoder gave."""
        with torch.autocast(z.device.type, torch.bfloat16, enabled=self.low):
            out: Tensor = self.layer(F.relu(z) if self.relu else z)
        return out.float().squeeze(1)

    def until(self, x: Tensor, depth: int) -> Tensor:
        """What lies behind the first `depth` layers of the encoder; the standardised rows for 0."""
        h: Tensor = self.encoder.standardise(to_float(_laid_out(x)))
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.low):
            for layer in self._layers[:depth]:
                h = layer(h)
        return h

    def onward(self, h: Tensor, depth: int) -> Tensor:
        """Logits of what `until` gave."""
        with torch.autocast(h.device.type, torch.bfloat16, enabled=self.low):
            for layer in self._layers[depth:]:
                h = layer(h)
        return self.score(h)

    def depth_after(self, count: int) -> int:
        """How many layers there are up to the one before the `count + 1`-st that has weights to multiply with.

        Norms, activations and pools belong to the layer before them. 0 for an encoder that is not a sequence.
        """
        heavy = [at for at, layer in enumerate(self._layers) if isinstance(layer, nn.Conv2d | nn.Linear)]
        return heavy[count] if count < len(heavy) else 0

    @property
    def _layers(self) -> list[nn.Module]:
        network = self.encoder.network
        return list(network) if isinstance(network, nn.Sequential) else [network]


def make_network(
    encoder: str | nn.Module, standardise: Standardise, shape: tuple[int, ...], *, seed: int, outputs: int = 1
) -> Network:
    """A fresh network, its weights drawn with `seed`; a module is copied with its weights."""
    body = make_encoder(encoder, shape, seed=seed) if isinstance(encoder, str) else copy.deepcopy(encoder)
    with seeded(seed + 1):
        layer = nn.Linear(embedding_dim(body, shape), outputs)
    return Network(Encoder(copy.deepcopy(standardise), body), layer, relu=isinstance(encoder, str) and encoder != "raw")


def _laid_out(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


class Moved(nn.Module):
    """The logits of a scorer minus a constant, so that another threshold than 0 is the border."""

    shift: Tensor

    def __init__(self, scorer: nn.Module, shift: float | Tensor) -> None:
        super().__init__()
        self.scorer = scorer
        self.register_buffer("shift", torch.as_tensor(shift, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,) of raw rows."""
        return torch.sub(self.scorer(x), self.shift)
