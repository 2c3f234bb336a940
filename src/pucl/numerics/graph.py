"""Graphs of nearest rows as sparse matrices in torch, on any device and the same every time."""

import warnings

import torch
from torch import Tensor

from pucl.numerics.nearest import nearest

BETA_NOTICE = "Sparse CSR tensor support is in beta|Sparse invariant checks"  # torch's, for any such matrix


class SparseMatrix:
    """A matrix (n, m) of which few numbers are not 0.

    Args:
        ends: where the numbers of each row begin, and where those of the last end, (n + 1,).
        columns: of the numbers, row by row.
        values: the numbers.
        n_columns: m.
    """

    def __init__(self, ends: Tensor, columns: Tensor, values: Tensor, n_columns: int) -> None:
        self.ends, self.columns, self.values, self.shape = ends, columns, values, (len(ends) - 1, n_columns)
        self.kept = _csr(ends, columns, values, self.shape) if values.device.type == "cpu" else None

    def rows(self) -> Tensor:
        """The row of every number."""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.ends.device), self.ends.diff())

    def times(self, right: Tensor) -> Tensor:
        """The product with a full matrix (m, k), (n, k)."""
        if self.kept is not None:
            return self.kept @ right
        # Sums of segments, one after the other: the product of a GPU's library may differ from run to run.
        parts = self.values[:, None] * right[self.columns]
        return torch.segment_reduce(parts, "sum", offsets=self.ends, axis=0, unsafe=True)


def steps_to_nearest(
    rows: Tensor, among: Tensor, n_neighbors: int, temperature: float, *, skip_self: bool = False
) -> SparseMatrix:
    """The chances (n, m) of stepping from a row to its nearest ones, in float32.

        K_ij = exp(z_i · a_j / τ) / Σ_l exp(z_i · a_l / τ)

    where j and l run over the nearest rows a of z_i; all of them when there are fewer than `n_neighbors`. With
    `skip_self` the rows are the same, and no row steps to itself.
    """
    k = min(n_neighbors, len(among) - skip_self)
    similarity, columns = nearest(rows, among, k, skip_self=skip_self)
    chances = torch.softmax(similarity.float() / temperature, dim=1)
    ends = torch.arange(len(rows) + 1, device=rows.device) * k
    return SparseMatrix(ends, columns.flatten(), chances.flatten(), len(among))


def both_ways(steps: SparseMatrix) -> SparseMatrix:
    """D⁻¹ (K + Kᵀ), where D makes the rows add up to 1: steps along the edges of a graph (n, n), in both directions."""
    n, here, there = steps.shape[0], steps.rows(), steps.columns
    edge, order = torch.cat([here * n + there, there * n + here]).sort(stable=True)
    chance = steps.values.repeat(2)[order]
    again = edge[1:] == edge[:-1]  # an edge chosen by both of its rows; none occurs three times
    chance[:-1] += torch.where(again, chance[1:], torch.zeros_like(chance[1:]))
    first = torch.cat([again.new_ones(1), ~again])
    edge, chance = edge[first], chance[first]
    here, there = edge // n, edge % n
    ends = torch.searchsorted(here, torch.arange(n + 1, device=here.device))
    total = SparseMatrix(ends, there, chance, n).times(chance.new_ones(n, 1))
    return SparseMatrix(ends, there, chance / total[here, 0], n)


def _csr(ends: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", BETA_NOTICE)
        return torch.sparse_csr_tensor(ends, columns, values, size=shape, check_invariants=False)
