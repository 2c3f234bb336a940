"""What rankers compute on the device of the embeddings, against slow versions; on a GPU nothing long comes back."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pucl.numerics.graph import SparseMatrix, both_ways, steps_to_nearest
from pucl.numerics.kmeans import kmeans
from pucl.numerics.logistic import stratified_folds
from pucl.priors.bbe import bbe, best_bin
from pucl.pseudo_labels import pseudo_label
from pucl.ranking.label_spreading import spreading_draws
from pucl.ranking.prior import estimate_prior
from pucl.ranking.share import share_by_bbe
from pucl.ranking.thresholds import drop_highest, threshold_for_share
from pucl.registry import entries
from ranking_examples import broad, cloud, scored

LONG = 64  # numbers: more than the ends of an interval, far fewer than rows


def by_numpy(p: Any, u: Any, cuts: str) -> float:
    """BBE with loops over cuts and scores."""
    at = p if cuts == "positive" else u[u <= p.max()]
    at = p if len(at) == 0 else at
    width = sum(np.sqrt(np.log(40) / (2 * len(scores))) for scores in (p, u))
    tails = [(np.mean([v >= c for v in p]), np.mean([v >= c for v in u])) for c in at]
    q_p, q_u = min(tails, key=lambda tail: (tail[1] + 1.01 * width) / tail[0])
    return min(float(q_u / q_p), 1.0)


@pytest.mark.parametrize("cuts", ["positive", "unlabelled"])
@pytest.mark.parametrize("kind", ["float32", "ties", "above"])
def test_bbe_on_tensors_is_bbe_on_arrays(kind: str, cuts: Any) -> None:
    score, _, labelled = scored(300)
    score = {"float32": score.float(), "ties": score.round(), "above": score - 10.0 * labelled}[kind]
    p, u = score[labelled], score[~labelled]
    estimate = bbe(p.numpy(), u.numpy(), cuts=cuts)
    assert best_bin(p, u, cuts=cuts) == estimate
    assert estimate.value == pytest.approx(by_numpy(p.numpy(), u.numpy(), cuts), abs=1e-12)
    if cuts == "positive":
        assert share_by_bbe(score, labelled) == estimate.value


@pytest.mark.parametrize("share", [0.0, 0.031, 0.5, 1.0])
def test_rows_dropped_together_are_those_dropped_alone(share: float) -> None:
    g = Generator().manual_seed(0)
    score, rows = torch.randn(6, 40, generator=g), torch.rand(6, 40, generator=g) < 0.6
    rows[2], rows[3], score[4] = False, torch.arange(40) == 7, 1.0  # no row, one row, equal scores
    together = drop_highest(score, rows, share)
    for k in range(6):
        assert torch.equal(together[k], drop_highest(score[k], rows[k], share))
    for k in (0, 1, 5):
        assert torch.equal(together[k], rows[k] & (score[k] < threshold_for_share(score[k][rows[k]], share)))
    assert torch.equal(together[2:5], rows[2:5]), "all stay where the cut would leave none"


def test_steps_along_edges_are_those_of_full_matrices() -> None:
    rows, _ = cloud(50)
    steps = steps_to_nearest(rows, rows, 6, 0.1, skip_self=True)
    full, cosine = steps.times(torch.eye(50)), rows @ rows.T
    assert not full.diagonal().any() and ((full > 0).sum(dim=1) == 6).all()
    i = 11
    chosen = full[i] > 0
    assert float(cosine[i][chosen].min()) >= float(cosine[i][~chosen & (torch.arange(50) != i)].max())
    assert torch.allclose(full[i][chosen], torch.softmax(cosine[i][chosen] / 0.1, dim=0), atol=1e-6)
    edges = full + full.T
    assert torch.allclose(both_ways(steps).times(torch.eye(50)), edges / edges.sum(dim=1, keepdim=True), atol=1e-6)
    assert steps_to_nearest(rows[:7], rows, 99, 0.1).shape == (7, 50), "all rows when there are fewer"


def test_products_of_a_sparse_matrix_are_the_same_by_segments() -> None:
    ends = torch.tensor([0, 2, 2, 5])  # a row without numbers
    matrix = SparseMatrix(ends, torch.tensor([1, 3, 0, 2, 3]), torch.arange(1.0, 6.0), 4)
    full = torch.tensor([[0.0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 5]])
    right = torch.randn(4, 3, generator=Generator().manual_seed(0))
    assert torch.allclose(matrix.times(right), full @ right) and matrix.rows().tolist() == [0, 0, 2, 2, 2]
    matrix.kept = None  # as on a GPU
    assert torch.allclose(matrix.times(right), full @ right)


def test_draws_on_one_graph_are_those_made_alone() -> None:
    rows, labelled = cloud(300, n_p=60)
    for max_rows in (1000, 50):  # one graph for all seeds, or one for each
        together = spreading_draws("test", rows, labelled, prior=None, seeds=range(3), max_rows=max_rows)
        for seed, draw in enumerate(together):
            alone = spreading_draws("test", rows, labelled, prior=None, seeds=[seed], max_rows=max_rows)[0]
            assert torch.equal(draw.score, alone.score) and draw.share == alone.share


class StaysOnDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to copy more than a few numbers from the GPU to the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.device.type == "cpu" and any(other.is_cuda for other in given):
                assert value.numel() <= LONG, f"{func}: {value.numel()} numbers left the GPU"
        return result


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["cvir", "kernel_cvir", "label_spreading", "stacked"])
@pytest.mark.parametrize("max_rows", [100, 10_000])
def test_rankers_stay_on_the_gpu_and_agree_with_the_cpu(name: str, max_rows: int) -> None:
    z, labelled, _ = broad()
    rank = entries("rankers")[name].function
    here = rank(z, labelled, seed=1, repeats=2, max_rows=max_rows)
    with StaysOnDevice():  # type: ignore[no-untyped-call]
        there = rank(z.cuda(), labelled.cuda(), seed=1, repeats=2, max_rows=max_rows)
    again = rank(z.cuda(), labelled.cuda(), seed=1, repeats=2, max_rows=max_rows)
    assert there.score.is_cuda and torch.equal(there.score, again.score), "the same every time"
    assert there.prior.value == pytest.approx(here.prior.value, abs=0.02)
    positive = [
        score.cpu() > threshold_for_share(score[~labelled], 0.4).cpu() for score in (here.score, there.score.cpu())
    ]
    assert float((positive[0] == positive[1]).float().mean()) > 0.98


@pytest.mark.cuda
def test_labels_on_the_gpu_are_those_on_the_cpu() -> None:
    z, labelled, _ = broad(1500)
    here, there = pseudo_label(z, labelled), pseudo_label(z.cuda(), labelled)
    assert there.labels.is_cuda
    assert float((here.labels == there.labels.cpu()).float().mean()) > 0.995
    assert here.prior == pytest.approx(there.prior, abs=5e-3)


@pytest.mark.cuda
def test_folds_are_the_same_on_every_device() -> None:
    target = torch.arange(203) % 4 == 0
    assert torch.equal(stratified_folds(target, 5, seed=0), stratified_folds(target.cuda(), 5, seed=0).cpu())


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["auto", "bbe", "km2"])
def test_the_prior_of_rows_on_the_gpu_is_that_of_rows_on_the_cpu(method: str) -> None:
    z, labelled, _ = broad(300)
    here, there = (estimate_prior(rows, labelled, method=method) for rows in (z, z.cuda()))
    assert there.value == pytest.approx(here.value, abs=0.02)


@pytest.mark.cuda
def test_kmeans_stays_on_the_gpu() -> None:
    z, _, _ = broad()
    rows = z.cuda()
    with StaysOnDevice():  # type: ignore[no-untyped-call]
        there = kmeans(rows, 12, generator=Generator().manual_seed(0))
    here = kmeans(z, 12, generator=Generator().manual_seed(0))
    assert there.labels.is_cuda and there.potential == pytest.approx(here.potential, rel=0.05)
