"""Graphs of nearest rows as sparse matrices in torch, on any device and the same every time."""

import warnings

import torch
from torch import Tensor

from pucl.numerics.nearest import nearest

BETA_NOTICE = "Sparse CSR tensor support is in beta|Sparse invariant checks"  # that torch gives for any such matrix


def steps_to_nearest(
    rows: Tensor, among: Tensor, n_neighbors: int, temperature: float, *, skip_self: bool = False
) -> Tensor:
    """The chances (n, m) of stepping from a row to its nearest ones, sparse, in float32.

        K_ij = exp(z_i · a_j / τ) / Σ_l exp(z_i · a_l / τ)

    where j and l run over the nearest rows a of z_i; all of them when there are fewer than `n_neighbors`. With
    `skip_self` the rows are the same, and no row steps to itself.
    """
    k = min(n_neighbors, len(among) - skip_self)
    similarity, columns = nearest(rows, among, k, skip_self=skip_self)
    chances = torch.softmax(similarity.float() / temperature, dim=1)
    ends = torch.arange(len(rows) + 1, device=rows.device) * k
    return sparse_matrix(ends, columns.flatten(), chances.flatten(), len(among))


def both_ways(steps: Tensor) -> Tensor:
    """D⁻¹ (K + Kᵀ), where D makes the rows add up to 1: steps along the edges of a graph (n, n), in both directions."""
    n, ends, there = len(steps), steps.crow_indices(), steps.col_indices()
    here = torch.repeat_interleave(torch.arange(n, device=ends.device), ends.diff())
    edge, order = torch.cat([here * n + there, there * n + here]).sort(stable=True)
    chance = steps.values().repeat(2)[order]
    again = edge[1:] == edge[:-1]  # an edge chosen by both of its rows; none occurs three times
    chance[:-1] += torch.where(again, chance[1:], torch.zeros_like(chance[1:]))
    first = torch.cat([again.new_ones(1), ~again])
    edge, chance = edge[first], chance[first]
    here = edge // n
    ends = torch.searchsorted(here, torch.arange(n + 1, device=here.device))
    total = sparse_matrix(ends, edge % n, chance, n) @ chance.new_ones(n, 1)
    return sparse_matrix(ends, edge % n, chance / total[here, 0], n)


def sparse_matrix(ends: Tensor, columns: Tensor, values: Tensor, n_columns: int) -> Tensor:
    """A sparse matrix (n, n_columns) from the ends of its rows (n + 1,), their columns and their values."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", BETA_NOTICE)
        return torch.sparse_csr_tensor(ends, columns, values, size=(len(ends) - 1, n_columns), check_invariants=False)
