"""Support vector machines with a Gaussian kernel, one or a bag of them, as one set of vectors."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.errors import Described, bad_argument, is_number
from pucl.heads.stored import HeadParts, StoredHead

OWNER = "head 'support_vectors'"
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

    @classmethod
    def of_sklearn(cls, machines: Sequence[Any], mean: NDArray[Any], scale: NDArray[Any]) -> "SupportVectors":
        """The mean of the decision functions of fitted SVC(kernel="rbf"); a vector of several machines is kept once.

        Args:
            machines: at least one, all of the same γ, fitted on (x − mean) / scale; above 0 for class 1.
            mean: (d,).
            scale: (d,).
        """
        gammas = {float(machine._gamma) for machine in machines}  # a number also where the machine says "scale"
        if len(gammas) != 1 or any(machine.kernel != "rbf" for machine in machines):
            got = Described(f"γ of {', '.join(f'{gamma:g}' for gamma in sorted(gammas)) or 'no machine'}")
            raise bad_argument(OWNER, "machines", "SVC of kernel 'rbf' with the same γ", got)
        every = np.concatenate([machine.support_vectors_ for machine in machines])
        vectors, place = np.unique(every, axis=0, return_inverse=True)
        weight = np.zeros(len(vectors))
        np.add.at(weight, place.reshape(-1), np.concatenate([machine.dual_coef_[0] for machine in machines]))
        bias = sum(float(machine.intercept_[0]) for machine in machines)
        arrays = (mean, scale, vectors, weight / len(machines), np.asarray(bias / len(machines)))
        m, s, v, a, b = (torch.as_tensor(np.asarray(array), dtype=torch.float32) for array in arrays)
        return cls(m, s, v, a, b, gamma=gammas.pop())

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
        scaled = (x.to(self.mean.dtype) - self.mean) / self.scale
        exponent = torch.addmm(-self.gamma * self.vectors.square().sum(dim=1), scaled, 2 * self.gamma * self.vectors.T)
        exponent = exponent.sub_(self.gamma * scaled.square().sum(dim=1, keepdim=True)).clamp_(max=0)
        return exponent.exp_() @ self.weight + self.bias
