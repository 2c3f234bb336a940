"""Weighted logistic regression by Newton's method: deterministic, no learning rate, on any device."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def fit_logistic(
    z: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    l2: float = 1e-3,
    start: nn.Linear | None = None,
    max_iter: int = 50,
    tol: float = 1e-6,
) -> nn.Linear:
    """The linear map whose sigmoid best explains the targets.

        min_{w, b}  Σ_i v_i · CE(σ(w · z_i + b), t_i) / Σ_i v_i  +  (l2 / 2) ‖w‖²

    Args:
        z: rows (n, k).
        target: t in [0, 1], (n,).
        weight: v ≥ 0, (n,), not all zero.
        l2: strength of the ridge; the intercept is free.
        start: where to begin, such as the solution of a similar problem.
        max_iter: most Newton steps.
        tol: stop when the largest component of the gradient is below it.

    Returns:
        A linear layer k → 1 in the precision of `z`, without gradients.
    """
    design = torch.cat([z, torch.ones_like(z[:, :1])], dim=1).to(torch.float64)  # (n, k + 1)
    goal, share = target.to(torch.float64), (weight / weight.sum()).to(torch.float64)
    ridge = torch.full((design.shape[1],), l2, dtype=torch.float64, device=z.device)
    ridge[-1] = 0
    beta = torch.zeros_like(ridge) if start is None else torch.cat([start.weight[0], start.bias]).to(torch.float64)

    def objective(b: Tensor) -> Tensor:
        return share @ F.binary_cross_entropy_with_logits(design @ b, goal, reduction="none") + ridge @ b**2 / 2

    value = objective(beta)
    for _ in range(max_iter):
        probability = torch.sigmoid(design @ beta)
        gradient = design.T @ (share * (probability - goal)) + ridge * beta
        if gradient.abs().max() < tol:
            break
        curvature = design.T @ (design * (share * probability * (1 - probability))[:, None])
        # A trace of ridge on the intercept keeps the system solvable when all probabilities are saturated.
        step = _solve(curvature + torch.diag(ridge + 1e-10), gradient)
        size = 1.0
        while (proposal := objective(beta - size * step)) > value and size > 1e-6:
            size /= 2
        if proposal >= value:
            break
        beta, value = beta - size * step, proposal
    return _layer(beta.to(z.dtype))


def _solve(system: Tensor, right: Tensor) -> Tensor:
    """The x of A x = b for a symmetric positive A, by Cholesky; by elimination where rounding spoilt A."""
    factor, failed = torch.linalg.cholesky_ex(system)
    x: Tensor = torch.linalg.solve(system, right) if failed else torch.cholesky_solve(right[:, None], factor)[:, 0]
    return x


def balanced_weights(target: Tensor) -> Tensor:
    """Weights that give both classes the same total, (n,)."""
    positive = target.to(torch.float64)
    return positive / positive.sum().clamp(min=1) + (1 - positive) / (1 - positive).sum().clamp(min=1)


def stratified_folds(target: Tensor, folds: int, seed: int) -> Tensor:
    """A fold number for every row (n,), each class dealt out evenly in random order; the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    fold = torch.empty(len(target), dtype=torch.long)
    for value in (True, False):
        members = (target.cpu().bool() == value).nonzero().flatten()
        fold[members[torch.randperm(len(members), generator=generator)]] = torch.arange(len(members)) % folds
    return fold.to(target.device)


def _layer(beta: Tensor) -> nn.Linear:
    layer: nn.Linear = nn.utils.skip_init(  # type: ignore[no-untyped-call]  # draws no numbers
        nn.Linear, len(beta) - 1, 1, device=beta.device, dtype=beta.dtype
    ).requires_grad_(False)
    layer.weight.copy_(beta[None, :-1])
    layer.bias.copy_(beta[-1:])
    return layer
