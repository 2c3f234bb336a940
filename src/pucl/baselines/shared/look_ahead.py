"""Weights of rows from a look ahead (Ren et al. 2018): what a step on a row alone would do to a loss of other rows."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pucl.encoders.norm import NormReLU

INNER = 1e-3  # the learning rate of the step that is looked at
LEAST = 1e-10  # the weight that is left to the first cost of a row when neither would help


class LookAhead:
    """How much less a loss would be after a step on one cost of one row.

        g_i = −∂/∂ε_i  L(θ − a ∇ Σ_j ε_j c_j(θ)) |_{ε = 0} = a ∇L(θ) · ∇c_i(θ)

    where c_i are the costs of the rows of a batch, L the loss of other rows and a = 0.001. At ε = 0 the step leads
    nowhere, so that the products of gradients are all there is to compute; the second of them is differentiated with
    respect to ε. This is done on a copy of the network, whose batch norms it may touch, with operations that have
    second derivatives.

    Args:
        network: raw rows → logits (n,).
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.copy = _twice_differentiable(copy.deepcopy(network)).train()

    def __call__(
        self, x: Tensor, costs: Callable[[Tensor], Tensor], others: Tensor, loss: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The gains (m, k).

        Args:
            x: the rows.
            costs: logits (m,) → costs (m, k).
            others: the rows of the loss.
            loss: their logits → a scalar.
        """
        parameters: list[Tensor] = list(self.copy.parameters())
        with torch.no_grad():
            torch._foreach_copy_(parameters, list(self.network.parameters()))
        values = costs(self.copy(x))
        weights = torch.zeros_like(values, requires_grad=True)
        inner = torch.autograd.grad(
            (weights * values).sum(), parameters, create_graph=True, allow_unused=True, materialize_grads=True
        )
        outer = torch.autograd.grad(loss(self.copy(others)), parameters, allow_unused=True, materialize_grads=True)
        product = torch.stack([(a * b).sum() for a, b in zip(inner, outer, strict=True)]).sum()
        return INNER * torch.autograd.grad(product, weights)[0]


def shares(gains: Tensor, n_labelled: int, budget: float) -> Tensor:
    """How the weight 1 of every row is shared between its two costs, (m, 2).

        (w_i, v_i) ∝ (max(g_i, 0) + 1e-10, max(h_i, 0))

    where g and h are the gains (m, 2) by the first and the second cost. The first `n_labelled` rows keep all weight on
    the first, and so do all rows after those that have spent the budget: in the order of the batch, a row may only
    give weight to the second cost while Σ v of the rows before it is below `budget`.
    """
    first, second = gains.clamp(min=0).unbind(dim=1)
    second = second / (first + LEAST + second)
    free = torch.arange(len(second), device=second.device) >= n_labelled
    second = second * free
    spent = second.cumsum(dim=0) - second
    second = second * (spent < budget)
    return torch.stack([1 - second, second], dim=1)


class PlainNormReLU(NormReLU):
    """`NormReLU` without its kernels, whose derivatives cannot be differentiated again."""

    def _fast(self, x: Tensor, residual: Tensor | None) -> bool:
        del x, residual
        return False


def _twice_differentiable(module: nn.Module) -> nn.Module:
    for name, child in module.named_children():
        if isinstance(child, NormReLU):
            plain = PlainNormReLU(child.norm.num_features, relu=child.relu)
            plain.norm = child.norm
            setattr(module, name, plain)
        else:
            _twice_differentiable(child)
    return module
