"""The multi-viewed batch of eq:mv_dataset, and the means of rows that objectives draw their anchors to."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pucl.distributed import rank_and_world, total
from pucl.losses.partition import Implementation, log_partition


@dataclass(frozen=True)
class Pairs:
    """Both views of a batch of n samples, stacked: rows i and i + n are views of the same sample.

    Over several processes each holds its own pairs; sets such as P are the union over all of them, unless
    `gather_distributed` is off.

    Attributes:
        z: L2-normalised projections (2n, d), the anchors, in float32 or better.
        partner: the other view of each anchor, z_a(i), (2n, d).
        labelled: whether the anchor is in P, (2n,) bool.
        products: the type of the projections as they came, used for the similarities where the hardware has it.
        implementation: how log Z is computed.
        gather_distributed: whether the pairs of all processes are one batch.
    """

    z: Tensor
    partner: Tensor
    labelled: Tensor
    products: torch.dtype
    implementation: Implementation = "auto"
    gather_distributed: bool = True

    @classmethod
    def of(
        cls,
        z1: Tensor,
        z2: Tensor,
        labelled: Tensor,
        implementation: Implementation = "auto",
        *,
        gather_distributed: bool = True,
    ) -> "Pairs":
        """From the projections of the two views (n, d each) and the PU labels (n,)."""
        z = unit_rows(torch.cat([z1, z2]))
        both = torch.cat([labelled, labelled])
        return cls(z, z.roll(len(z1), 0), both, z1.dtype, implementation, gather_distributed)

    @property
    def n_rows(self) -> int:
        """|I|, the rows of all processes."""
        return len(self.z) * (rank_and_world()[1] if self.gather_distributed else 1)

    def sum_and_count(self, members: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_{j ∈ M} z_j, (d,), and |M|, over the rows of all processes; `members` marks M among the own rows."""
        inside = members.to(self.z.dtype)
        sums = self._total(torch.cat([inside @ self.z, inside.sum()[None]]))
        return sums[:-1], sums[-1]

    def mean_of_others(self, members: Tensor) -> Tensor:
        r"""The mean of the member rows other than the anchor itself, (2n, d), without any n × n mask.

            t_i = (Σ_{j ∈ M} z_j − 1[i ∈ M] z_i) / |M \ i|

        Args:
            members: which rows make up M, (2n,) bool. Where M \ i is empty the mean is 0.
        """
        whole, count = self.sum_and_count(members)
        inside = members.to(self.z.dtype)[:, None]
        return (whole - inside * self.z) / (count - inside).clamp(min=1)

    def mean_of_own_side(self) -> Tensor:
        """The mean of the other rows with the anchor's own label, (2n, d); both sides in one sum over processes."""
        inside = self.labelled.to(self.z.dtype)
        sides = torch.stack([1 - inside, inside])  # U, P
        unlabelled, labelled = self._total(torch.cat([sides @ self.z, sides.sum(dim=1, keepdim=True)], dim=1))
        own = torch.where(self.labelled[:, None], labelled, unlabelled)  # sum and count, (2n, d + 1)
        return torch.div(own[:, :-1] - self.z, (own[:, -1:] - 1).clamp(min=1))

    def log_partition(self, temperature: float) -> Tensor:
        """The partition log Z(z_i) over the rows of all processes, (2n,)."""
        return log_partition(
            self.z, temperature, products=self.products, implementation=self.implementation,
            gather_distributed=self.gather_distributed,
        )  # fmt: skip

    def loss_towards(self, target: Tensor, temperature: float) -> Tensor:
        """The term of every anchor, ``log Z(z_i) − z_i · t_i / τ``, (2n,)."""
        return self.log_partition(temperature) - (self.z * target).sum(dim=1) / temperature

    def _total(self, x: Tensor) -> Tensor:
        return total(x) if self.gather_distributed else x


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1 in float32 or better; a row of zeros stays zero, as if its length were 1."""
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    length = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return torch.div(wide, length + (length == 0))
