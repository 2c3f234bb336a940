"""The shared numerics against slow references: nearest rows, principal axes."""

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from pucl.numerics.nearest import most_similar, nearest
from pucl.numerics.pca import exact_axes, principal_axes, sample_size


def draw(n: int, k: int, *, seed: int = 0) -> Tensor:
    return torch.randn(n, k, generator=Generator().manual_seed(seed))


@pytest.mark.parametrize("block", [1, 70, 1 << 24])
def test_nearest_rows_one_by_one(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, among = draw(40, 5), draw(30, 5, seed=1)
    monkeypatch.setattr("pucl.numerics.nearest.BLOCK", block)
    similarity, index = nearest(rows, among, 7)
    for row, best, where in zip(rows, similarity, index, strict=True):
        products = [float(row.double() @ other.double()) for other in among]
        order = sorted(range(30), key=lambda j: -products[j])[:7]
        assert where.tolist() == order
        assert best.tolist() == pytest.approx([products[j] for j in order], abs=1e-5)


@pytest.mark.parametrize("block", [1, 100, 1 << 24])
def test_no_row_is_its_own_neighbour(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = draw(25, 4)
    rows[7] = rows[3]  # a copy of a row is another row
    monkeypatch.setattr("pucl.numerics.nearest.BLOCK", block)
    similarity, index = nearest(rows, rows, 24, skip_self=True)
    assert (index != torch.arange(25)[:, None]).all() and similarity.isfinite().all()
    assert [sorted(where) for where in index.tolist()] == [[j for j in range(25) if j != i] for i in range(25)]
    assert int(nearest(rows, 3 * rows, 1)[1][0]) in range(25), "other rows may be anybody's neighbours"


def test_a_block_is_the_same_as_before_the_search_was_shared() -> None:
    rows, among = draw(60, 8), draw(90, 8, seed=1)
    old = (rows @ among.T).topk(5, dim=1)
    similarity, index = most_similar(rows, among, 5)
    assert torch.equal(similarity, old.values) and torch.equal(index, old.indices)
    masked = (rows @ rows.T).fill_diagonal_(-torch.inf).topk(5, dim=1)
    similarity, index = nearest(rows, rows, 5, skip_self=True)
    assert torch.equal(similarity, masked.values) and torch.equal(index, masked.indices)


def test_no_rows_have_no_neighbours() -> None:
    similarity, index = nearest(draw(0, 4), draw(9, 4), 3)
    assert similarity.shape == index.shape == (0, 3)


def test_exact_axes_are_those_of_the_singular_values() -> None:
    rows = draw(200, 6) * torch.tensor([5.0, 3.0, 2.0, 1.0, 0.5, 0.1])
    rows = rows - rows.mean(dim=0)
    axes, variances = exact_axes(rows.T @ rows / len(rows))
    _, lengths, right = np.linalg.svd(rows.double().numpy(), full_matrices=False)
    assert variances.flip(0).numpy() == pytest.approx(lengths**2 / 200, rel=1e-4)
    assert (axes.flip(1).T.numpy() * right).sum(axis=1).__abs__() == pytest.approx(np.ones(6), abs=1e-6)
    assert axes.dtype == variances.dtype == torch.float64


def test_both_ways_to_principal_axes_agree() -> None:
    rows = draw(300, 40) * torch.linspace(4, 0.1, 40)
    rows = rows - rows.mean(dim=0)
    some, variances = principal_axes(rows, 5, seed=0)
    every, exact = exact_axes(rows.T @ rows / len(rows))
    assert torch.allclose(variances.double(), exact.flip(0)[:5], rtol=1e-2)
    inside = (every.flip(1)[:, :5].T @ some.double()).square().sum(dim=1)
    assert (inside > 0.98).all(), "the power method finds the same space"


def test_axes_are_found_on_fewer_rows_where_they_are_wide() -> None:
    assert sample_size(10) == 5000 and sample_size(10, 300) == 300
    assert sample_size(1 << 20) == 128 and sample_size(1 << 30) == 2
