"""log Z in one Triton kernel each way: similarities live in registers only. NVIDIA GPUs, float32, float16, bfloat16.

Imported only where Triton is installed and the tensors are on a GPU.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from pucl.losses.kernels.tiled import LARGEST_SAFE_SCALE

LOG2E = math.log2(math.e)


@triton.jit
def _forward(a, b, out, m, n, first, scale2, D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
             SAFE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """out_i = ln Σ_{j ≠ i} 2^(scale2 · a_i · b_j), for one block of rows."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    dim = tl.arange(0, BD)
    x = tl.load(a + row[:, None] * D + dim[None, :], mask=(row[:, None] < m) & (dim[None, :] < D), other=0.0)
    best = tl.full([BM], float("-inf"), tl.float32)
    sums = tl.zeros([BM], tl.float32)
    for start in range(0, n, BN):
        col = start + tl.arange(0, BN)
        r = tl.load(b + col[None, :] * D + dim[:, None], mask=(col[None, :] < n) & (dim[:, None] < D), other=0.0)
        s = tl.dot(x, r, input_precision=PRECISION) * scale2
        s = tl.where((col[None, :] < n) & (col[None, :] != first + row[:, None]), s, float("-inf"))
        if SAFE:
            sums += tl.sum(tl.exp2(s - scale2), 1)
        else:
            top = tl.maximum(best, tl.max(s, 1))
            sums = sums * tl.exp2(best - top) + tl.sum(tl.exp2(s - top[:, None]), 1)
            best = top
    if SAFE:
        best = tl.full([BM], 0.0, tl.float32) + scale2
    tl.store(out + row, (best + tl.log2(sums)) * 0.6931471805599453, mask=row < m)


@triton.jit
def _backward(a, b, lse, lse_all, g, g_all, out, unit, m, n, first, scale2, D: tl.constexpr, BD: tl.constexpr,
              BM: tl.constexpr, BN: tl.constexpr, SAFE: tl.constexpr, UNIT: tl.constexpr,
              PRECISION: tl.constexpr):  # fmt: skip
    """out_i = scale Σ_{j ≠ i} [g_i 2^(s_ij − l_i) + g_j 2^(s_ij − l_j)] b_j, for one block of rows; l = lse / ln 2."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    dim = tl.arange(0, BD)
    inside = (row[:, None] < m) & (dim[None, :] < D)
    x = tl.load(a + row[:, None] * D + dim[None, :], mask=inside, other=0.0)
    l_i = tl.load(lse + row, mask=row < m, other=0.0) * 1.4426950408889634
    g_i = tl.load(g + row, mask=row < m, other=0.0)
    size = scale2 * 0.6931471805599453
    if UNIT:
        largest = tl.load(unit)
        g_i = g_i / largest
        size = size * largest
    if SAFE:
        g_i = g_i * tl.exp2(scale2 - l_i)
    acc = tl.zeros([BM, BD], tl.float32)
    for start in range(0, n, BN):
        col = start + tl.arange(0, BN)
        r = tl.load(b + col[:, None] * D + dim[None, :], mask=(col[:, None] < n) & (dim[None, :] < D), other=0.0)
        l_j = tl.load(lse_all + col, mask=col < n, other=0.0) * 1.4426950408889634
        g_j = tl.load(g_all + col, mask=col < n, other=0.0)
        if UNIT:
            g_j = g_j / largest
        s = tl.dot(x, tl.trans(r), input_precision=PRECISION) * scale2
        if SAFE:
            w = tl.exp2(s - scale2) * (g_i[:, None] + (g_j * tl.exp2(scale2 - l_j))[None, :])
        else:
            w = tl.exp2(s - l_i[:, None]) * g_i[:, None] + tl.exp2(s - l_j[None, :]) * g_j[None, :]
        w = tl.where(col[None, :] == first + row[:, None], 0.0, w)  # columns beyond n meet zero rows of r
        acc = tl.dot(w.to(r.dtype), r, acc, input_precision=PRECISION)
    tl.store(out + row[:, None] * D + dim[None, :], acc * size, mask=inside)


def forward(anchors: Tensor, rows: Tensor, first: int, scale: float) -> Tensor:
    """The sum log Σ_{j ≠ i} exp(scale · a_i · r_j) for every anchor, (m,) float32; see the package docstring."""
    m, d = anchors.shape
    out = torch.empty(m, dtype=torch.float32, device=anchors.device)
    shape = _shape(d, anchors.dtype, backward=False)
    _forward[(triton.cdiv(m, shape["BM"]),)](
        anchors, rows, out, m, len(rows), first, scale * LOG2E, **shape, **_mode(scale, anchors.dtype)
    )
    return out


def backward(
    anchors: Tensor, rows: Tensor, first: int, scale: float, lse: Tensor, lse_rows: Tensor, g: Tensor, g_rows: Tensor
) -> Tensor:
    """The gradient of Σ_k g_k lse_k over all rows k with respect to the anchors, (m, d) float32."""
    m, d = anchors.shape
    out = torch.empty(m, d, dtype=torch.float32, device=anchors.device)
    # Weights of order 1/n are subnormal in float16: the kernel works with the largest at 1024 and undoes it at the end.
    narrow = anchors.dtype == torch.float16
    unit = g_rows.abs().max().clamp(min=1e-30) / 1024 if narrow else g_rows
    shape = _shape(d, anchors.dtype, backward=True)
    _backward[(triton.cdiv(m, shape["BM"]),)](
        anchors, rows, lse, lse_rows, g, g_rows, out, unit, m, len(rows), first, scale * LOG2E,
        UNIT=narrow, **shape, **_mode(scale, anchors.dtype),
    )  # fmt: skip
    return out


def _mode(scale: float, dtype: torch.dtype) -> dict[str, bool | str]:
    # float32 products follow PyTorch's own setting: full precision by three TF32 products, or plain TF32.
    exact = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return {"SAFE": scale <= LARGEST_SAFE_SCALE, "PRECISION": "tf32x3" if exact else "tf32"}


def _shape(d: int, dtype: torch.dtype, *, backward: bool) -> dict[str, int]:
    """Tile sizes: the fastest of a sweep on an H200 at d = 128; wider rows get narrower tiles to stay on the chip."""
    wide = dtype == torch.float32
    rows, columns, warps, stages = {
        (False, False): (128, 64, 4, 3),
        (False, True): (64, 128, 4, 2),
        (True, False): (128, 64, 8, 2),
        (True, True): (128, 32, 8, 3),
    }[wide, backward]
    width = max(16, triton.next_power_of_2(d))
    if width > 128:
        rows, columns, stages = 64, 32, 2
    return {"D": d, "BD": width, "BM": rows, "BN": columns, "num_warps": warps, "num_stages": stages}
