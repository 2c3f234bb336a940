"""Logistic regressions many at a time, against each alone; Newton steps by products, against factors."""

import time

import pytest
import torch
from torch import Generator, Tensor

from pucl.numerics.logistic import LogisticRegressions, balanced_weights, fit_logistic, linear_scores
from pucl.numerics.newton import NewtonSystem, conjugate_gradients
from pucl.numerics.threads import threads_for
from pucl.ranking.kernel_features import KernelFeatures


def rows_of(kind: str, n: int = 500, k: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows (n, k) and targets; features of a kernel, or columns that are nearly sums of 20 others."""
    g = Generator().manual_seed(seed)
    z = torch.randn(n, 20, generator=g)
    target = z[:, 0] + 0.5 * torch.randn(n, generator=g) > 0.3
    z = torch.nn.functional.normalize(z, dim=1)
    if kind == "kernel":
        return KernelFeatures(z, width=0.5, landmarks=k, seed=0)(z), target
    return z @ torch.randn(20, k, generator=g) + 0.05 * torch.randn(n, k, generator=g) + 1, target


def weights_of_folds(target: Tensor, folds: int = 4) -> Tensor:
    """Balanced weights (folds, n), 0 inside the fold; the last takes few rows."""
    outside = torch.arange(len(target)) % folds != torch.arange(folds)[:, None]
    outside[-1, 60:] = False
    weight = torch.zeros(outside.shape, dtype=torch.float64)
    for row, rows in zip(weight, outside, strict=True):
        row[rows] = balanced_weights(target[rows])
    return weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "k"), [("kernel", 60), ("kernel", 200), ("correlated", 200)])
def test_many_regressions_are_those_of_each_alone(kind: str, k: int, dtype: torch.dtype) -> None:
    z, target = rows_of(kind, k=k)
    z, weight = z.to(dtype), weights_of_folds(target)
    models = LogisticRegressions(z, target, l2=1e-3).fit(weight, tol=1e-4)
    scores = linear_scores(models, z)
    for row, score in zip(weight, scores, strict=True):
        rows = row > 0
        alone = fit_logistic(z[rows], target[rows], row[rows], l2=1e-3, tol=1e-4)(z)[:, 0]
        assert torch.allclose(score, alone, atol=2e-4), "the same Newton steps"


@pytest.mark.parametrize("kind", ["kernel", "correlated"])
def test_steps_by_products_are_those_by_factors(kind: str) -> None:
    z, g = rows_of(kind)[0], Generator().manual_seed(1)
    curvature = torch.rand(3, len(z), generator=g, dtype=torch.float64) / len(z) / 4
    gradient = (
        (torch.rand(3, len(z), generator=g) - 0.5).double() / len(z) @ torch.cat([z[:, :1] * 0 + 1, z], 1).double()
    )
    by_products, by_factor = NewtonSystem(z, 1e-3), NewtonSystem(z, 1e-3)
    by_factor.by_factor = True
    steps, exact = (system.steps(curvature, gradient) for system in (by_products, by_factor))
    assert not by_products.by_factor, "products did"
    assert float((by_products.logits(steps) - by_products.logits(exact)).abs().max()) < 1e-3 * float(
        by_products.logits(exact).abs().max()
    )


def test_a_system_too_hard_for_products_is_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    z, target = rows_of("correlated")
    weight = weights_of_folds(target)
    models = LogisticRegressions(z, target, l2=1e-3).fit(weight)
    monkeypatch.setattr("pucl.numerics.newton.MAX_PRODUCTS", 1)
    regressions = LogisticRegressions(z, target, l2=1e-3)
    assert torch.allclose(linear_scores(regressions.fit(weight), z), linear_scores(models, z), atol=1e-4)
    assert regressions.system.by_factor


def test_conjugate_gradients_solve_several_systems() -> None:
    g = Generator().manual_seed(0)
    a = torch.randn(3, 12, 12, generator=g, dtype=torch.float64)
    a = a @ a.mT + torch.eye(12)
    right = torch.randn(3, 12, generator=g, dtype=torch.float64) / 1000
    diagonal = a.diagonal(dim1=1, dim2=2)
    x = conjugate_gradients(lambda v: (a @ v[:, :, None])[:, :, 0], lambda r: r / diagonal, right)
    assert x is not None
    assert torch.allclose(x, torch.linalg.solve(a, right[:, :, None])[:, :, 0], rtol=1e-3, atol=1e-8)
    assert conjugate_gradients(lambda v: v * 0, lambda r: r, right) is None, "what does not converge is said"


def test_a_regression_without_rows_stays_where_it_is() -> None:
    z, target = rows_of("kernel", n=80, k=10)
    weight = torch.stack([torch.zeros(80), torch.ones(80)])
    models = LogisticRegressions(z, target, l2=1e-2).fit(weight)
    assert not models[0].any() and models[1].any() and models.isfinite().all()


def test_small_work_takes_one_thread_and_gives_the_others_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(1000):
            assert torch.get_num_threads() == 1
        with threads_for(1 << 30):
            assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), threads_for(1000):
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_products_are_cheaper_than_factors() -> None:
    z, target = rows_of("kernel", n=1500, k=400)
    weight, cost = weights_of_folds(target, 5), {}
    for by_factor in (True, False):
        regressions = LogisticRegressions(z, target, l2=1e-3)
        regressions.system.by_factor = by_factor
        start = time.process_time()
        regressions.fit(weight, tol=1e-4)
        cost[by_factor] = time.process_time() - start
    assert cost[False] < cost[True] / 2
