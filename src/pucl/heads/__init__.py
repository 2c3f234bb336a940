"""Heads: from embeddings and pseudo-labels to a classifier of embeddings, a module (n, k) → logits (n,)."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from pucl.errors import Described, bad_argument, signed_by
from pucl.heads.stored import HeadParts, StoredHead
from pucl.labels import check_labels
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import get

OWNER = "pucl.fit_head"


class LinearHead(StoredHead):
    """A linear score of the L2-normalised embedding; positive where the logit is above 0."""

    kind = "linear"

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias, requires_grad=False)

    def forward(self, z: Tensor) -> Tensor:
        """Logits (n,) of embeddings (n, k)."""
        return z @ self.weight.to(z.dtype) + self.bias.to(z.dtype)

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored head."""
        return cls(parts.tensors["weight"], parts.tensors["bias"])


@signed_by(OWNER)
def fit_head(z: Tensor, s: Any, pseudo: PseudoLabels, *, method: str = "linear", **options: Any) -> nn.Module:
    """Fit the head registered under `method` on embeddings (n, k) and their pseudo-labels."""
    labelled = torch.from_numpy(check_labels(s, n_rows=len(z), owner=OWNER)).to(z.device)
    if len(pseudo.labels) != len(z):
        got = Described(f"{len(pseudo.labels)} pseudo-labels")
        raise bad_argument(OWNER, "pseudo", f"of length {len(z)}, one per row of z", got)
    head: nn.Module = get("heads", method).function(z, labelled, pseudo, **options)
    return head
