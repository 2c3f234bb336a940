"""Weighted logistic regressions by Newton's method, many at a time: deterministic, no learning rate, on any device."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.numerics.newton import NewtonSystem

FEW = 0.8  # share of the rows up to which those of weight 0 are left out, not multiplied by it
SHORTEST = 1e-6  # part of a Newton step that is tried


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
    begin = None if start is None else torch.cat([start.weight, start.bias[None]], dim=1)
    regressions = LogisticRegressions(z, target, l2=l2)
    return _layer(regressions.fit(weight[None], start=begin, max_iter=max_iter, tol=tol)[0])


class LogisticRegressions:
    """Logistic regressions on the same rows that differ in the weights of the rows.

        min_{w_m, b_m}  Σ_i v_mi · CE(σ(w_m · z_i + b_m), t_i) / Σ_i v_mi  +  (l2 / 2) ‖w_m‖²

    Each takes the Newton steps that it would take alone. A row of weight 0 is left out.

    Args:
        z: rows (n, k).
        target: t in [0, 1], (n,).
        l2: strength of the ridge; the intercepts are free.
    """

    def __init__(self, z: Tensor, target: Tensor, *, l2: float) -> None:
        self.system, self.goal, self.dtype = NewtonSystem(z, l2), target.to(torch.float64), z.dtype

    @torch.no_grad()
    def fit(self, weight: Tensor, *, start: Tensor | None = None, max_iter: int = 50, tol: float = 1e-6) -> Tensor:
        """Coefficients (m, k + 1) in the precision of the rows, the intercept last.

        Args:
            weight: v ≥ 0, (m, n), not all zero for any regression.
            start: where to begin, (m, k + 1), such as the solutions of similar problems.
            max_iter: most Newton steps.
            tol: a regression is done when the largest component of its gradient is below it.
        """
        system, goal, share = self.system, self.goal, weight.to(torch.float64)
        share = share / share.sum(dim=1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
        used = (weight > 0).any(dim=0)
        if used.sum() <= FEW * len(used):
            system, goal, share = system.only(used), goal[used], share[:, used]
        beta = share.new_zeros(len(share), len(system.ridge)) if start is None else start.to(share).roll(1, dims=1)
        logits, left = system.logits(beta), torch.arange(len(beta), device=beta.device)  # those that are not done
        for _ in range(max_iter):
            probability = torch.sigmoid(logits[left])
            gradient = system.gradient(share[left] * (probability - goal), beta[left])
            moving = gradient.abs().amax(dim=1) >= tol
            left, probability, gradient = left[moving], probability[moving], gradient[moving]
            if len(left) == 0:
                break
            step = system.steps(share[left] * probability * (1 - probability), gradient)
            along = system.logits(step)
            size = _step_sizes(system.ridge, goal, share[left], beta[left], logits[left], step, along)
            beta[left] -= size * step
            logits[left] -= size * along
            left = left[size[:, 0] > 0]
        self.system.by_factor = system.by_factor
        return beta.roll(-1, dims=1).to(self.dtype)


def _step_sizes(
    ridge: Tensor, goal: Tensor, share: Tensor, beta: Tensor, logits: Tensor, step: Tensor, along: Tensor
) -> Tensor:
    """How much of each step lowers its objective, 1, 1/2, 1/4 and so on, (m, 1); 0 where nothing does."""

    def objective(size: Tensor) -> Tensor:
        loss = F.binary_cross_entropy_with_logits(logits - size * along, goal.expand_as(logits), reduction="none")
        return (share * loss).sum(dim=1, keepdim=True) + ((beta - size * step) ** 2 @ ridge)[:, None] / 2

    size = step.new_ones(len(step), 1)
    now, then = objective(torch.zeros_like(size)), objective(size)
    while (worse := (then > now) & (size > SHORTEST)).any():
        size = torch.where(worse, size / 2, size)
        then = objective(size)
    return torch.where(then < now, size, torch.zeros_like(size))


def linear_scores(models: Tensor, z: Tensor) -> Tensor:
    """w_m · z_i + b_m, (m, n), of coefficients (m, k + 1) with the intercept last and rows (n, k)."""
    return torch.addmm(models[:, -1:], models[:, :-1], z.T)


def balanced_weights(target: Tensor) -> Tensor:
    """Weights that give both classes the same total, (n,)."""
    positive = target.to(torch.float64)
    return positive / positive.sum().clamp(min=1) + (1 - positive) / (1 - positive).sum().clamp(min=1)


def stratified_folds(target: Tensor, folds: int, seed: int) -> Tensor:
    """A fold number for every row (n,), each class dealt out evenly in random order; the same on every device."""
    generator, device = torch.Generator().manual_seed(seed), target.device
    fold = torch.empty(len(target), dtype=torch.long, device=device)
    for value in (True, False):
        members = (target.bool() == value).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator).to(device)
        fold[members[order]] = torch.arange(len(members), device=device) % folds
    return fold


class GivenLinear(nn.Linear):
    """A linear layer whose numbers are set later: it draws none, and loads nothing of torch that others do not."""

    def reset_parameters(self) -> None:
        """Leave the numbers unset."""


def _layer(beta: Tensor) -> nn.Linear:
    layer = GivenLinear(len(beta) - 1, 1, device=beta.device, dtype=beta.dtype).requires_grad_(False)
    layer.weight.copy_(beta[None, :-1])
    layer.bias.copy_(beta[-1:])
    return layer
