"""The partition function log Z, shared by all objectives: exact, and in memory O(batch) where the batch is large."""

import importlib.util
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor

from pucl.distributed import gather, rank_and_world
from pucl.errors import Described, bad_argument, unknown_name

Implementation = Literal["auto", "plain", "tiled", "fused"]
IMPLEMENTATIONS = ("auto", "plain", "tiled", "fused")
SMALL = 512  # rows up to which the whole matrix of similarities is cheaper than tiles of it
OWNER = "log_partition"
HAS_TRITON = importlib.util.find_spec("triton") is not None


def log_partition(
    z: Tensor,
    temperature: float,
    *,
    products: torch.dtype | None = None,
    implementation: Implementation = "auto",
    gather_distributed: bool = True,
) -> Tensor:
    """Log-sum-exp of every row's similarity to all the others, those of other processes included.

        log Z(z_i) = log Σ_{j ≠ i} exp(z_i · z_j / τ)

    Args:
        z: L2-normalised rows of this process (m, d), float32 or float64.
        temperature: τ.
        products: the type the similarities are multiplied in by the fused kernel; that of `z` when not given. Sums are
            always kept in float32 or better.
        implementation: ``"plain"`` holds the whole matrix, ``"tiled"`` a tile of it, ``"fused"`` (CUDA, Triton)
            nothing; ``"auto"`` takes the fastest that fits.
        gather_distributed: whether the rows of other processes take part.

    Returns:
        log Z for every row, (m,).
    """
    together = gather_distributed and rank_and_world()[1] > 1
    chosen = choose(z, implementation, alone=not together)
    if chosen == "plain":
        return _plain(z, temperature)
    compute: Any = _value_op if torch.compiler.is_compiling() else _LogPartition.apply
    out: Tensor = compute(z, 1 / temperature, products or z.dtype, chosen, together)
    return out


def choose(z: Tensor, implementation: Implementation, *, alone: bool = True) -> str:
    """The implementation to use for `z`; one that cannot be used there is an error."""
    if implementation not in IMPLEMENTATIONS:
        raise unknown_name("implementation", implementation, IMPLEMENTATIONS)
    fusable = z.is_cuda and z.dtype != torch.float64 and z.shape[1] <= 256 and HAS_TRITON
    if implementation == "auto":
        if fusable:
            return "fused"
        return "plain" if alone and len(z) <= SMALL else "tiled"
    if implementation == "fused" and not fusable:
        got = Described(f"{z.dtype} of width {z.shape[1]} on {z.device}" + ("" if HAS_TRITON else ", no Triton"))
        raise bad_argument(OWNER, "z", "float32 of width ≤ 256 on a CUDA device with Triton for 'fused'", got)
    if implementation == "plain" and not alone:
        got = Described(f"{rank_and_world()[1]} processes")
        raise bad_argument(OWNER, "implementation", "'tiled' or 'fused' on several processes", got)
    return implementation


def _plain(z: Tensor, temperature: float) -> Tensor:
    similarity = z @ z.T / temperature
    self_pair = torch.eye(len(z), dtype=torch.bool, device=z.device)
    return similarity.masked_fill(self_pair, float("-inf")).logsumexp(dim=1)


def _kernels(name: str) -> ModuleType:
    if name == "fused":
        from pucl.losses.kernels import fused

        return fused
    from pucl.losses.kernels import tiled

    return tiled


def _value(z: Tensor, scale: float, products: torch.dtype, kernels: str, together: bool) -> Tensor:
    """Log Z of the own rows against those of all processes, or of this one alone, (m,)."""
    anchors = _for_products(z, products, kernels)
    lse: Tensor = _kernels(kernels).forward(anchors, *_all_rows(anchors, together), scale)
    return lse


def _gradient(
    z: Tensor, lse: Tensor, g: Tensor, scale: float, products: torch.dtype, kernels: str, together: bool
) -> Tensor:
    """The gradient of the own rows, (m, d); similarities are computed again instead of kept.

    Over several processes, gathering log Z and the incoming gradients of the others gives each process the whole
    gradient of its own rows: two vectors travel instead of a matrix.
    """
    anchors, g = _for_products(z, products, kernels), g.to(lse.dtype).contiguous()
    rows, of_rows = _all_rows(anchors, together), ((gather(lse), gather(g)) if together else (lse, g))
    grad: Tensor = _kernels(kernels).backward(anchors, *rows, scale, lse, of_rows[0], g, of_rows[1])
    return grad.to(z.dtype)


def _all_rows(anchors: Tensor, together: bool) -> tuple[Tensor, int]:
    """The rows that anchors are contrasted with, and where the anchors begin among them."""
    return (gather(anchors), rank_and_world()[0] * len(anchors)) if together else (anchors, 0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    z, *ctx.options = inputs
    ctx.save_for_backward(z, output)


class _LogPartition(torch.autograd.Function):
    """For eager mode and `torch.func`."""

    forward = staticmethod(_value)
    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor, None, None, None, None]:
        z, lse = ctx.saved_tensors
        return _gradient(z, lse, g[0], *ctx.options), None, None, None, None


# For `torch.compile`: operators it takes as single steps, without looking into the tiles.
_value_op = torch.library.custom_op("pucl::log_partition", _value, mutates_args=())
_gradient_op = torch.library.custom_op("pucl::log_partition_gradient", _gradient, mutates_args=())
_value_op.register_fake(lambda z, *_: z.new_empty(len(z)))
_gradient_op.register_fake(lambda z, *_: torch.empty_like(z, memory_format=torch.contiguous_format))
_value_op.register_autograd(
    lambda ctx, g: (_gradient_op(*ctx.saved_tensors, g, *ctx.options), None, None, None, None), setup_context=_save
)


def _for_products(z: Tensor, products: torch.dtype, kernels: str) -> Tensor:
    """The rows in the type their similarities are multiplied in; only the fused kernel sums in a wider one."""
    return z.to(products if kernels == "fused" else z.dtype).contiguous()
