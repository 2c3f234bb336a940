"""A kernel head: logistic regression on kernel features, for classes that are not linearly separable."""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.heads.stored import HeadParts, StoredHead
from pucl.numerics.logistic import fit_logistic
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.kernel_features import LANDMARKS, draw_landmarks, inverse_root
from pucl.registry import register

OWNER = "head 'kernel'"


class KernelHead(StoredHead):
    """A weighted sum of kernels around landmarks: Σ_j a_j exp((cos(z, c_j) − 1) / h) + b."""

    kind = "kernel"
    centres: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, centres: Tensor, weight: Tensor, bias: Tensor, *, width: float) -> None:
        super().__init__()
        self.register_buffer("centres", centres)
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.width = width

    def forward(self, z: Tensor) -> Tensor:
        """Logits (n,) of embeddings (n, k)."""
        z = z.to(self.centres.dtype)
        return (
            torch.exp((F.normalize(z, dim=1) @ self.centres.transpose(0, 1) - 1) / self.width) @ self.weight + self.bias
        )

    def options(self) -> dict[str, float]:
        """The width h of the kernel."""
        return {"width": self.width}

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored head."""
        tensors = parts.tensors
        return cls(tensors["centres"], tensors["weight"], tensors["bias"], width=parts.options["width"])


@register("heads", reference="ours; Williams and Seeger 2001")
def kernel(
    z: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    *,
    width: float = 0.2,
    landmarks: int = LANDMARKS,
    spread: float = 50.0,
    soft: bool = True,
    seed: int = 0,
) -> KernelHead:
    """Logistic regression on kernel features, on the probabilities or the labels of the labeller.

        min_w  mean_i CE(σ(w · φ(z_i) + b), p_i) + ‖w‖² / (2 v n)

    where φ are the features of `kernel_cvir`, p is the probability of the pseudo-label, n the number of rows and v the
    variance of the logits before any row is seen.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels.
        width: h of the kernel.
        landmarks: how many; all rows when there are fewer.
        spread: v; a smaller one is a stronger ridge.
        soft: whether targets are probabilities; labels otherwise.
        seed: of the landmarks.
    """
    del labelled
    check_positive(OWNER, "width", width)
    check_positive(OWNER, "spread", spread)
    check_count(OWNER, "landmarks", landmarks)
    rows = F.normalize(z, dim=1)
    centres = draw_landmarks(rows, landmarks, seed)
    root = inverse_root(centres, width)
    features = torch.exp((rows @ centres.T - 1) / width) @ root
    goal = pseudo.probability if soft else pseudo.labels
    layer = fit_logistic(features, goal, torch.ones_like(features[:, 0]), l2=1 / (spread * len(z)))
    return KernelHead(centres, root @ layer.weight[0], layer.bias[0], width=width)
