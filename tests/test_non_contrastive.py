"""The non-contrastive loss: against a slow loop, its gradient, edge batches, and what it holds in memory."""

import math

import pytest
import torch
from torch import Generator, Tensor

from pucl.errors import InputError
from pucl.losses.kernels import tiled
from pucl.losses.non_contrastive import non_contrastive

EPSILON = 1e-4


def batch(n: int = 9, d: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = Generator().manual_seed(seed)
    q, k = (torch.randn(n, d, generator=g, dtype=dtype) for _ in range(2))
    return q, k, torch.rand(n, generator=g) < 0.4


def slowly(q: Tensor, k: Tensor, classes: Tensor) -> list[float]:
    """The formula in loops over numbers."""

    def cos(a: list[float], b: list[float]) -> float:
        norm = math.hypot(*a) * math.hypot(*b)
        return sum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else 0.0

    rows, targets, of = q.double().tolist(), k.double().tolist(), classes.tolist()
    terms = []
    for i in range(len(rows)):
        pairs = [2 * (1 - cos(rows[i], targets[i]))]
        for j in range(len(rows)):
            if j != i and of[j] == of[i]:
                pairs.append(2 * (math.sqrt(1 - cos(rows[i], targets[j]) + EPSILON) - math.sqrt(EPSILON)))
        terms.append(sum(pairs) / len(pairs))
    return terms


@pytest.mark.parametrize("tile", [2, 4, 512])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_equals_loops(n: int, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "TILE", tile)
    for seed in range(3):
        given = batch(n, seed=seed)
        assert non_contrastive(*given).tolist() == pytest.approx(slowly(*given), abs=1e-12)
    q, k, _ = batch(n)
    many = torch.arange(n) % 3  # more than two classes
    assert non_contrastive(q, k, many).tolist() == pytest.approx(slowly(q, k, many), abs=1e-12)


def test_does_not_depend_on_order_or_scale() -> None:
    q, k, classes = batch()
    value, order = non_contrastive(q, k, classes), torch.randperm(9, generator=Generator().manual_seed(1))
    torch.testing.assert_close(non_contrastive(q[order], k[order], classes[order]), value[order])
    torch.testing.assert_close(non_contrastive(3 * q, 0.5 * k, ~classes), value)


@pytest.mark.parametrize("tile", [2, 512])
def test_gradient_is_that_of_the_value(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "TILE", tile)
    q, k, classes = batch(5, d=3)
    for labels in (classes, torch.zeros(5, dtype=torch.bool), torch.arange(5)):
        assert torch.autograd.gradcheck(lambda q, labels=labels: non_contrastive(q, k, labels), q.requires_grad_())


def test_targets_are_constants() -> None:
    q, k, classes = batch()
    non_contrastive(q.requires_grad_(), k.requires_grad_(), classes).sum().backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None and k.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edge_batches_are_finite(dtype: torch.dtype) -> None:
    q, k, classes = batch(8, dtype=dtype)
    ones = torch.ones(8, 5, dtype=dtype)
    edges = [
        (q, k, torch.ones(8)), (q, k, torch.arange(8)), (ones, ones, classes), (ones, -ones, classes),
        (q, q, classes), (torch.zeros_like(q), k, classes), (q, torch.zeros_like(k), classes),
        (q[:1], k[:1], classes[:1]),
    ]  # fmt: skip
    for one, other, of in edges:
        leaf = one.clone().requires_grad_()
        value = non_contrastive(leaf, other, of)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        assert value.isfinite().all() and gradient.isfinite().all()
        assert (value > -1e-5).all() and (value <= 4.001).all()
    same = non_contrastive(ones, ones, classes)
    assert same.abs().max() < (2e-5 if dtype == torch.float32 else 1e-12), "equal rows are where they should be"


def test_far_rows_pull_less_than_near_ones() -> None:
    """What makes it robust: the pull of another row fades with the angle, down to nothing at the opposite side."""
    angles = torch.tensor([30.0, 90.0, 150.0, 175.0]).deg2rad().double()
    pulls = []
    for angle in angles:
        q = torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64, requires_grad=True)
        k = torch.stack([torch.tensor([1.0, 0]).double(), torch.stack([angle.cos(), angle.sin()])])
        (gradient,) = torch.autograd.grad(non_contrastive(q, k, torch.ones(2))[0], q)
        pulls.append(float(gradient[0].norm()))
    expected = [math.sqrt(2) * math.cos(float(angle) / 2) / 2 for angle in angles]  # a mean over two pairs
    assert pulls == pytest.approx(expected, rel=2e-3)


def test_lower_precision_is_close() -> None:
    q, k, classes = batch(64, 16)
    exact = non_contrastive(q, k, classes)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 2e-2)):
        close = non_contrastive(q.to(dtype), k.to(dtype), classes)
        assert torch.allclose(close.double(), exact, rtol=tolerance)


def test_no_matrix_of_all_pairs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "TILE", 64)
    q, k, classes = batch(2048, 8, dtype=torch.float32)
    sizes: list[int] = []

    def packed(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(packed, lambda tensor: tensor):
        value = non_contrastive(q.requires_grad_(), k, classes).sum()
    assert max(sizes) <= 2048 * 8
    value.backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None and q.grad.isfinite().all()


def test_bad_input() -> None:
    q, k, classes = batch()
    for given, message in (
        ((q[0], k[0], classes[0]), "q must be a floating-point tensor of shape (n, d), and k likewise"),
        ((q, k[:3], classes), "got torch.float64 of shape (9, 5) and (3, 5)"),
        ((q, k, classes[:3]), "classes must be of length 9, one per row of q; got shape (3,)"),
    ):
        with pytest.raises(InputError) as caught:
            non_contrastive(*given)
        assert message in str(caught.value)
