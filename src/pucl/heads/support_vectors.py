"""Support vector machines with a Gaussian kernel, one or a bag of them, as one set of vectors."""

from typing import Self

import torch
from torch import Tensor

from pucl.errors import is_number
from pucl.heads.stored import HeadParts, StoredHead

PAIRS = 2**18  # of rows and support vectors held at a time
NAMES = ("mean", "scale", "vectors", "weight", "bias")


class SupportVectors(StoredHead):
    """A sum of Gaussian kernels around the support vectors.

        f(x) = Σ_i a_i exp(−γ ‖(x − m) / s − v_i‖²) + b

    where m and s are the mean and the scale of every feature in training.

    Attributes:
        mean: m, (d,).
        scale: s, (d,), above 0.
        vectors: v, (k, d), scaled.
        weight: a, (k,).
        bias: b, ().
        gamma: γ.
    """

    kind = "support_vectors"
    mean: Tensor
    scale: Tensor
    vectors: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self, mean: Tensor, scale: Tensor, vectors: Tensor, weight: Tensor, bias: Tensor, *, gamma: float
    ) -> None:
        super().__init__()
        for name, tensor in zip(NAMES, (mean, scale, vectors, weight, bias), strict=True):
            if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
                raise ValueError(f"{name} of the support vectors is not made of finite numbers")
            self.register_buffer(name, tensor)
        k, d = vectors.shape
        shapes = {"mean": (d,), "scale": (d,), "weight": (k,), "bias": ()}
        wrong = [name for name, shape in shapes.items() if tuple(getattr(self, name).shape) != shape]
        if wrong or k == 0:
            raise ValueError(f"{', '.join(wrong) or 'weight'} does not fit {k} support vectors of {d} features")
        if not bool((scale > 0).all()) or not is_number(gamma) or gamma <= 0:
            raise ValueError("scale and gamma of the support vectors are not above 0")
        self.gamma = float(gamma)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Scores (n,) of features (n, d), a batch of rows at a time."""
        if torch.compiler.is_compiling():  # a graph for any number of rows has no loop over them
            return self._scores(x)
        return torch.cat([self._scores(piece) for piece in torch.split(x, max(1, PAIRS // len(self.vectors)))])

    def options(self) -> dict[str, float]:
        """γ."""
        return {"gamma": self.gamma}

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored head; what does not fit raises KeyError or ValueError."""
        return cls(*(parts.tensors[name] for name in NAMES), gamma=parts.options["gamma"])

    def _scores(self, x: Tensor) -> Tensor:
        """The exponent is 2γ x · v − γ ‖v‖² − γ ‖x‖², kept from rising above 0 by rounding."""
        tensors: list[Tensor] = [getattr(self, name).to(x.dtype) for name in NAMES]
        mean, scale, vectors, weight, bias = tensors
        scaled = (x - mean) / scale
        exponent = torch.addmm(
            -self.gamma * vectors.square().sum(dim=1), scaled, 2 * self.gamma * vectors.transpose(0, 1)
        )
        exponent = exponent.sub_(self.gamma * scaled.square().sum(dim=1, keepdim=True)).clamp_(max=0)
        return exponent.exp_() @ weight + bias
