"""The multi-viewed batch of eq:mv_dataset, and the means of rows that objectives draw their anchors to."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Pairs:
    """Both views of a batch of n samples, stacked: rows i and i + n are views of the same sample.

    Attributes:
        z: L2-normalised projections (2n, d), the anchors.
        partner: the other view of each anchor, z_a(i), (2n, d).
        labelled: whether the anchor is in P, (2n,) bool.
    """

    z: Tensor
    partner: Tensor
    labelled: Tensor

    @classmethod
    def of(cls, z1: Tensor, z2: Tensor, labelled: Tensor) -> "Pairs":
        """From the projections of the two views (n, d each) and the PU labels (n,), in float32 or better."""
        wide = torch.promote_types(z1.dtype, torch.float32)
        first, second = F.normalize(z1.to(wide), dim=1), F.normalize(z2.to(wide), dim=1)
        return cls(torch.cat([first, second]), torch.cat([second, first]), torch.cat([labelled, labelled]))

    def mean_of_others(self, members: Tensor) -> Tensor:
        r"""The mean of the member rows other than the anchor itself, (2n, d), without any n × n mask.

            t_i = (Σ_{j ∈ M} z_j − 1[i ∈ M] z_i) / |M \ i|

        Args:
            members: which rows make up M, (2n,) bool. Where M \ i is empty the mean is 0.
        """
        inside = members.to(self.z.dtype)[:, None]
        total = (self.z * inside).sum(dim=0)
        count = inside.sum() - inside
        return (total - inside * self.z) / count.clamp(min=1)
