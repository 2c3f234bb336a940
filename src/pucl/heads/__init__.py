"""Heads: from embeddings and pseudo-labels to a classifier of embeddings, a module (n, k) → logits (n,)."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from pucl.errors import Described, bad_argument, signed_by
from pucl.heads.stored import HeadParts, StoredHead
from pucl.labels import check_labels
from pucl.numerics.floats import check_finite
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import get

OWNER = "pucl.fit_head"
LARGEST = 1e15  # sums of squares of such numbers are well within float32


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
@torch.enable_grad()
def fit_head(z: Tensor, s: Any, pseudo: PseudoLabels, *, method: str = "linear", **options: Any) -> nn.Module:
    """Fit the head registered under `method` on embeddings (n, k) and their pseudo-labels.

    Embeddings are finite and of about length 1, as `pucl.embed` gives them; of any floating type, computed with in
    float32 at least.
    """
    z = _embeddings(z)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(z), owner=OWNER)).to(z.device)
    if len(pseudo.labels) != len(z):
        got = Described(f"{len(pseudo.labels)} pseudo-labels")
        raise bad_argument(OWNER, "pseudo", f"of length {len(z)}, one per row of z", got)
    head: nn.Module = get("heads", method).function(z, labelled, pseudo, **options)
    return head


def _embeddings(z: Tensor) -> Tensor:
    """The embeddings, checked, in float32 at least."""
    if z.ndim != 2 or not z.is_floating_point() or z.numel() == 0:
        got = Described(f"{z.dtype} of shape {tuple(z.shape)}")
        raise bad_argument(OWNER, "z", "a floating-point tensor (n, k)", got)
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    check_finite(OWNER, "z", wide)
    largest = float(wide.abs().max())
    if largest > LARGEST:
        allowed = f"embeddings of about length 1, with no value above {LARGEST:.0e}"
        raise bad_argument(OWNER, "z", allowed, Described(f"{largest:.3g}"))
    return wide
