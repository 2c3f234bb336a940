"""FrozenEncoder: a network that is used as it came, with what is needed to store it and to find its cached results."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pucl.encoders.inputs import Encoder, Standardise, to_float


class FrozenEncoder(Encoder):
    """Rows → vectors by a network that is not trained here. Rows are not standardised: the network has its own way.

    Attributes:
        network: takes floats (images within [0, 1]), or the rows as they are if it says `takes_bytes`.
        name: for people.
        stored_as: by which `make_encoder` builds the network again, to be filled with its stored weights; None for
            the user's own code, which must be given again when a model is loaded.
        options: of `make_encoder`.
        cached: whether its results may be kept on disk: only where name, options and weights say all about it.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        name: str,
        stored_as: str | None = None,
        options: Mapping[str, Any] | None = None,
        cached: bool = False,
    ) -> None:
        super().__init__(Standardise(torch.zeros(1), torch.ones(1)), network)
        self.name, self.stored_as, self.options, self.cached = name, stored_as, dict(options or {}), cached
        self.eval().requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of raw rows."""
        out: Tensor = self.network(x if getattr(self.network, "takes_bytes", False) else to_float(x))
        return out

    def quick(self) -> "FrozenEncoder":
        """The same, with a faster copy of the network where it offers one (`fused`)."""
        fused = getattr(self.network, "fused", None)
        return self if fused is None else FrozenEncoder(fused(), name=self.name)

    @property
    def trainable(self) -> bool:
        """Whether the network has weights that gradients could change."""
        return any(True for _ in self.network.parameters())

    def identity(self) -> str:
        """A hash of name, options and weights: two encoders with the same one give the same vectors."""
        about = json.dumps([self.stored_as, self.options], sort_keys=True)
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        for name, value in sorted(self.network.state_dict().items()):
            digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
            digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).tobytes())
        return digest.hexdigest()
