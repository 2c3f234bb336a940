"""Batch norm with what follows it: the residual addition and the ReLU, in one pass over memory on a GPU."""

import importlib.util
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

HAS_TRITON = importlib.util.find_spec("triton") is not None
FAST = (torch.float32, torch.float16, torch.bfloat16)


class NormReLU(nn.Module):
    """Batch norm, an optional residual, ReLU.

        relu((x − μ) / σ · w + b + r)

    where μ and σ² + ε are mean and variance of a channel over the batch (in evaluation the running ones), w and b its
    weight and bias, and r the residual. In training on a GPU it is a few Triton kernels and keeps only x, μ, 1/σ and,
    with a residual, its output; anywhere else it is PyTorch's own operations. Memory format, running statistics and
    types are those of `nn.BatchNorm2d`, which it holds.
    """

    def __init__(self, channels: int, *, relu: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = relu

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """The maps after it, like x (n, c, h, w)."""
        return self._fused(x, residual)[0] if self._fast(x, residual) else self._plain(x, residual)

    def forward_twice(self, x: Tensor, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same maps for two uses: their two gradients are added where they are read, not in a pass of its own."""
        if self._fast(x, residual):
            return self._fused(x, residual)
        out = self._plain(x, residual)
        return out, out

    def extra_repr(self) -> str:
        """What its children do not show."""
        return "" if self.relu else "relu=False"

    def _plain(self, x: Tensor, residual: Tensor | None) -> Tensor:
        out: Tensor = self.norm(x)
        out = out if residual is None else out + residual
        return F.relu(out) if self.relu else out

    def _fused(self, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        norm = self.norm
        running = norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.momentum
        pair: tuple[Tensor, Tensor] = _Fused.apply(x, norm.weight, norm.bias, residual, running, norm.eps, self.relu)  # type: ignore[no-untyped-call]
        return pair

    def _fast(self, x: Tensor, residual: Tensor | None) -> bool:
        return (
            not torch.compiler.is_compiling()
            and HAS_TRITON
            and self.training
            and _in_rows(x)
            and (residual is None or (_in_rows(residual) and residual.shape == x.shape and residual.dtype == x.dtype))
            and _own_statistics(self.norm)
            and x.numel() > x.shape[1] == self.norm.num_features  # several values per channel
        )


def _in_rows(x: Tensor) -> bool:
    """Whether the maps lie on a GPU as rows of channels, in a type the kernels know."""
    return x.is_cuda and x.ndim == 4 and x.dtype in FAST and x.is_contiguous(memory_format=torch.channels_last)


def _own_statistics(norm: nn.BatchNorm2d) -> bool:
    """Whether it is plain batch norm in training, of the rows of this process alone, all its numbers in float32."""
    if type(norm) is not nn.BatchNorm2d or not norm.training or norm.momentum is None:
        return False
    numbers = norm.weight, norm.bias, norm.running_mean, norm.running_var
    tracked = norm.num_batches_tracked is not None
    return tracked and all(v is not None and v.is_cuda and v.dtype == torch.float32 for v in numbers)


class _Fused(torch.autograd.Function):
    """The Triton kernels in eager mode: two outputs of the same memory, whose gradients one kernel adds up."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, running: Any, eps: float, relu: bool
    ) -> tuple[Tensor, Tensor]:
        from pucl.encoders.kernels import fused_norm

        out, mean, rstd = fused_norm.forward(x, residual, weight, bias, fused_norm.Running(*running), eps, relu=relu)
        ctx.save_for_backward(x, weight, bias, mean, rstd, out if relu and residual is not None else None)
        ctx.relu, ctx.residual = relu, residual is not None
        ctx.set_materialize_grads(False)
        return out, out.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        from pucl.encoders.kernels import fused_norm

        x, weight, bias, mean, rstd, out = ctx.saved_tensors
        given = [_like(g, x) for g in grads if g is not None]
        if not given:
            return (None,) * 7
        d, d2 = given[0], given[1] if len(given) == 2 else None
        dx, dr, dw, db = fused_norm.backward(
            d, d2, x, out, weight, bias, mean, rstd, relu=ctx.relu, residual=ctx.residual, whole=ctx.needs_input_grad[0]
        )
        return dx, dw, db, dr, None, None, None


def _like(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient in memory like x: (n, c, h, w) as rows of channels."""
    return gradient.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else gradient.contiguous()
