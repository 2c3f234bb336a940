"""The passes of batch norm, residual addition and ReLU as Triton kernels. NVIDIA GPUs, float32, float16, bfloat16.

Imported only where Triton is installed and the tensors are on a GPU. Sums are kept in float32, in a fixed order.
"""
# The body of a kernel is Triton, not Python.
# ruff: noqa: ANN001, ANN202, N803, SIM108
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

PARTS = 512  # programs of a pass that sums, at most
COLUMNS = 8  # channels a program of the small kernels adds up
FREE = ("m", "groups", "parts", "blocks")  # numbers that a kernel is not compiled anew for


@triton.jit
def _load(at, inside, WHOLE: tl.constexpr, POLICY: tl.constexpr):
    """The tile at `at` in float32; its places outside are zero. POLICY says whether the data is needed again soon."""
    if WHOLE:
        tile = tl.load(at, eviction_policy=POLICY)
    else:
        tile = tl.load(at, mask=inside, other=0.0, eviction_policy=POLICY)
    return tile.to(tl.float32)


@triton.jit
def _store(at, tile, inside, WHOLE: tl.constexpr):
    if WHOLE:
        tl.store(at, tile)
    else:
        tl.store(at, tile, mask=inside)


@triton.jit
def _channel(values, channel, c):
    """One number for every channel, (1, BC) float32."""
    return tl.load(values + channel, mask=channel < c, other=0.0).to(tl.float32)[None, :]


@triton.jit(do_not_specialize=FREE)
def _statistics(x, partial, m, c, groups, parts, blocks, BM: tl.constexpr, BC: tl.constexpr, UNROLL: tl.constexpr,
                WHOLE: tl.constexpr):  # fmt: skip
    """Mean and sum of squared deviations M of the rows of one part, for one group of channels.

        M_l = Σ (x − k_l)² − (Σ (x − k_l))² / n_l,    M = Σ_l M_l + n_l (μ_l − μ)²

    where l is a place in the tile, n_l the rows that pass through it, k_l the first of them. As k_l is one of the
    values, nothing is lost to a mean far from zero: the relative error is at most n_l units in the last place.
    Blocks of rows are taken from the last to the first: the end of x, written just before, is still in the cache, and
    so is its beginning for the next pass, which goes forwards.
    """
    part = tl.program_id(0) // groups
    channel = (tl.program_id(0) % groups) * BC + tl.arange(0, BC)
    row = tl.arange(0, BM)
    offsets = row[:, None] * c + channel[None, :]
    start = (blocks - 1 - part) * (BM * UNROLL)
    known = tl.minimum(start + row, m - 1).to(tl.int64)  # a row that exists even where the tile ends beyond the last
    shift = _load(x + known[:, None] * c + channel[None, :], channel[None, :] < c, WHOLE, "")
    total = tl.zeros([BM, BC], tl.float32)
    square = tl.zeros([BM, BC], tl.float32)
    count = tl.zeros([BM, 1], tl.float32)
    for i in range(part, blocks, parts):
        for u in tl.static_range(UNROLL):
            first = (blocks - 1 - i) * (BM * UNROLL) + u * BM
            inside = (first + row[:, None] < m) & (channel[None, :] < c)
            d = _load(x + first.to(tl.int64) * c + offsets, inside, WHOLE, "") - shift
            if WHOLE:
                count += 1.0
            else:
                d = tl.where(inside, d, 0.0)
                count += tl.where(first + row[:, None] < m, 1.0, 0.0)
            total += d
            square += d * d
    some = tl.maximum(count, 1.0)
    mean = shift + total / some
    centre = tl.sum(count * mean, 0) / tl.sum(count, 0)
    apart = mean - centre[None, :]
    spread = tl.sum(square - total * total / some + count * apart * apart, 0)
    at = partial + part * c + channel
    tl.store(at, centre, mask=channel < c)
    tl.store(at + parts * c, tl.maximum(spread, 0.0), mask=channel < c)


@triton.jit(do_not_specialize=FREE)
def _moments(partial, mean, rstd, running_mean, running_var, tracked, m, c, parts, blocks, momentum, eps,
             BLOCK: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):  # fmt: skip
    """Mean and 1/σ of all rows from those of the parts, and the running statistics.

        μ = Σ_p n_p μ_p / m,    σ² = Σ_p [M_p + n_p (μ_p − μ)²] / m + ε

    where n_p are the rows of part p: those of every parts-th block, the first part with the block that may end early.
    """
    part = tl.arange(0, BP)
    channel = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = (part[:, None] < parts) & (channel[None, :] < c)
    own = (blocks - part + parts - 1) // parts * BLOCK - tl.where(part == 0, blocks * BLOCK - m, 0)
    n = tl.where(part < parts, own, 0).to(tl.float32)[:, None]
    at = partial + part[:, None] * c + channel[None, :]
    means = tl.load(at, mask=inside, other=0.0)
    spreads = tl.load(at + parts * c, mask=inside, other=0.0)
    rows = m * 1.0
    centre = tl.sum(n * means, 0) / rows
    apart = means - centre[None, :]
    spread = tl.sum(spreads + n * apart * apart, 0)
    real = channel < c
    tl.store(mean + channel, centre, mask=real)
    tl.store(rstd + channel, tl.rsqrt(spread / rows + eps), mask=real)
    old = tl.load(running_mean + channel, mask=real, other=0.0)
    tl.store(running_mean + channel, (1 - momentum) * old + momentum * centre, mask=real)
    old = tl.load(running_var + channel, mask=real, other=0.0)
    tl.store(running_var + channel, (1 - momentum) * old + momentum * (spread / (rows - 1)), mask=real)
    if tl.program_id(0) == 0:
        tl.store(tracked, tl.load(tracked) + 1)


@triton.jit(do_not_specialize=FREE)
def _normalise(x, residual, out, mean, rstd, weight, bias, m, c, groups, BM: tl.constexpr, BC: tl.constexpr,
               WHOLE: tl.constexpr, RELU: tl.constexpr, RESIDUAL: tl.constexpr):  # fmt: skip
    """The output relu((x − μ) / σ · w + b + r), for one block of rows and one group of channels."""
    channel = (tl.program_id(0) % groups) * BC + tl.arange(0, BC)
    first = tl.program_id(0) // groups * BM
    row = tl.arange(0, BM)
    inside = (first + row[:, None] < m) & (channel[None, :] < c)
    at = first.to(tl.int64) * c + (row[:, None] * c + channel[None, :])
    tile = _load(x + at, inside, WHOLE, "evict_first")
    if RESIDUAL:
        r = _load(residual + at, inside, WHOLE, "evict_first")
    scale = _channel(weight, channel, c) * _channel(rstd, channel, c)
    tile = (tile - _channel(mean, channel, c)) * scale + _channel(bias, channel, c)
    if RESIDUAL:
        tile += r
    if RELU:
        tile = tl.where(tile < 0, 0.0, tile)  # NaN stays NaN
    _store(out + at, tile.to(out.dtype.element_ty), inside, WHOLE)


@triton.jit(do_not_specialize=FREE)
def _sums(d, d2, x, out, g, mean, rstd, weight, bias, partial, m, c, groups, parts, blocks, BM: tl.constexpr,
          BC: tl.constexpr, UNROLL: tl.constexpr, WHOLE: tl.constexpr, MASK: tl.constexpr, TWICE: tl.constexpr,
          WRITE: tl.constexpr):  # fmt: skip
    """Σ g and Σ g x̂ over the rows of one part, for one group of channels.

        g = (d + d′) · 1[out > 0],    x̂ = (x − μ) / σ

    where the sign of the output is read from it (MASK = "out"), computed again ("x"), or there was no ReLU ("").
    """
    part = tl.program_id(0) // groups
    channel = (tl.program_id(0) % groups) * BC + tl.arange(0, BC)
    row = tl.arange(0, BM)
    offsets = row[:, None] * c + channel[None, :]
    mu = _channel(mean, channel, c)
    inverse = _channel(rstd, channel, c)
    scale = _channel(weight, channel, c) * inverse
    shift = _channel(bias, channel, c)
    total = tl.zeros([BM, BC], tl.float32)
    product = tl.zeros([BM, BC], tl.float32)
    for i in range(part, blocks, parts):
        for u in tl.static_range(UNROLL):
            first = (blocks - 1 - i) * (BM * UNROLL) + u * BM
            inside = (first + row[:, None] < m) & (channel[None, :] < c)
            base = first.to(tl.int64) * c
            grad = _load(d + base + offsets, inside, WHOLE, "")
            if TWICE:
                grad2 = _load(d2 + base + offsets, inside, WHOLE, "")
            if MASK == "out":
                sign = _load(out + base + offsets, inside, WHOLE, "evict_first")
            centred = _load(x + base + offsets, inside, WHOLE, "") - mu
            if TWICE:
                grad += grad2
            if MASK == "out":
                grad = tl.where(sign > 0, grad, 0.0)
            if MASK == "x":
                grad = tl.where(centred * scale + shift > 0, grad, 0.0)
            if WRITE:
                narrow = grad.to(g.dtype.element_ty)
                _store(g + base + offsets, narrow, inside, WHOLE)
                grad = narrow.to(tl.float32)
            total += grad
            product += grad * centred
    at = partial + part * c + channel
    tl.store(at, tl.sum(total, 0), mask=channel < c)
    tl.store(at + parts * c, tl.sum(product * inverse, 0), mask=channel < c)


@triton.jit(do_not_specialize=FREE)
def _totals(partial, bias_grad, weight_grad, c, parts, BP: tl.constexpr, BC: tl.constexpr):
    """The gradients Σ g of b and Σ g x̂ of w from the sums of the parts."""
    part = tl.arange(0, BP)
    channel = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = (part[:, None] < parts) & (channel[None, :] < c)
    at = partial + part[:, None] * c + channel[None, :]
    total = tl.load(at, mask=inside, other=0.0)
    product = tl.load(at + parts * c, mask=inside, other=0.0)
    tl.store(bias_grad + channel, tl.sum(total, 0), mask=channel < c)
    tl.store(weight_grad + channel, tl.sum(product, 0), mask=channel < c)


@triton.jit(do_not_specialize=FREE)
def _gradient(d, d2, x, dx, mean, rstd, weight, bias, bias_grad, weight_grad, m, c, groups, BM: tl.constexpr,
              BC: tl.constexpr, WHOLE: tl.constexpr, MASK: tl.constexpr, TWICE: tl.constexpr):  # fmt: skip
    """The gradient of x, w / σ · (g − Σ g / m − x̂ · Σ g x̂ / m), for one block of rows and one group of channels."""
    channel = (tl.program_id(0) % groups) * BC + tl.arange(0, BC)
    first = tl.program_id(0) // groups * BM
    row = tl.arange(0, BM)
    inside = (first + row[:, None] < m) & (channel[None, :] < c)
    at = first.to(tl.int64) * c + (row[:, None] * c + channel[None, :])
    grad = _load(d + at, inside, WHOLE, "evict_first")
    if TWICE:
        grad += _load(d2 + at, inside, WHOLE, "evict_first")
    inverse = _channel(rstd, channel, c)
    scale = _channel(weight, channel, c) * inverse
    centred = _load(x + at, inside, WHOLE, "evict_first") - _channel(mean, channel, c)
    if MASK == "x":
        grad = tl.where(centred * scale + _channel(bias, channel, c) > 0, grad, 0.0)
    middle = _channel(bias_grad, channel, c) / m
    slope = _channel(weight_grad, channel, c) * inverse / m
    _store(dx + at, (scale * (grad - middle - centred * slope)).to(dx.dtype.element_ty), inside, WHOLE)


class Running(NamedTuple):
    """What batch norm keeps of the batches it has seen, changed in place, and how fast it forgets."""

    mean: Tensor
    variance: Tensor
    tracked: Tensor
    momentum: float


def forward(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, running: Running, eps: float, *, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, like x, and mean and 1/σ of every channel, (c,) float32; x is (…, c) in memory."""
    m, c = x.numel() // weight.numel(), weight.numel()
    mean, rstd = (torch.empty(c, dtype=torch.float32, device=x.device) for _ in range(2))
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        grid, cut, sizes = _loop(m, c, unroll=4, programs=512, registers=64)
        partial = torch.empty(2, cut["parts"], c, dtype=torch.float32, device=x.device)
        _statistics[grid](x, partial, m, c, **cut, **sizes)
        _moments[(triton.cdiv(c, COLUMNS),)](
            partial, mean, rstd, running.mean, running.variance, running.tracked, m, c, cut["parts"], cut["blocks"],
            running.momentum, eps, BLOCK=sizes["BM"] * sizes["UNROLL"], BP=PARTS, BC=COLUMNS, num_warps=8,
        )  # fmt: skip
        out = torch.empty_like(x)
        grid, groups, sizes = _once(m, c)
        _normalise[grid](
            x, x if residual is None else residual, out, mean, rstd, weight, bias, m, c, groups, **sizes,
            RELU=relu, RESIDUAL=residual is not None,
        )  # fmt: skip
    return out, mean, rstd


def backward(
    d: Tensor, d2: Tensor | None, x: Tensor, out: Tensor | None, weight: Tensor, bias: Tensor, mean: Tensor,
    rstd: Tensor, *, relu: bool, residual: bool, whole: bool = True,
) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, the residual, w and b.

    Args:
        d: gradient of the output, in memory like x.
        d2: gradient of its second use.
        x: as given to `forward`.
        out: its result, needed for a ReLU behind a residual addition only.
        weight: w.
        bias: b.
        mean: as `forward` found it, and so is rstd.
        rstd: 1/σ.
        relu: whether there was one.
        residual: whether there was one.
        whole: whether the gradient of x is wanted, too.
    """
    m, c = x.numel() // weight.numel(), weight.numel()
    twice = d2 is not None
    other = d if d2 is None else d2
    bias_grad, weight_grad = (torch.empty(c, dtype=torch.float32, device=x.device) for _ in range(2))
    g = torch.empty_like(x) if residual else None
    mask = ("out" if residual else "x") if relu else ""
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        grid, cut, sizes = _loop(m, c, unroll=1 if residual or twice else 2, programs=384, registers=80)
        partial = torch.empty(2, cut["parts"], c, dtype=torch.float32, device=x.device)
        _sums[grid](
            d, other, x, x if out is None else out, x if g is None else g, mean, rstd, weight, bias, partial, m, c,
            **cut, **sizes, MASK=mask, TWICE=twice, WRITE=residual,
        )  # fmt: skip
        small = {"BP": PARTS, "BC": COLUMNS, "num_warps": 8}
        _totals[(triton.cdiv(c, COLUMNS),)](partial, bias_grad, weight_grad, c, cut["parts"], **small)
        if not whole:
            return None, g, weight_grad, bias_grad
        if g is not None:
            d, other, mask, twice = g, g, "", False
        dx = torch.empty_like(x)
        grid, groups, sizes = _once(m, c)
        _gradient[grid](
            d, other, x, dx, mean, rstd, weight, bias, bias_grad, weight_grad, m, c, groups, **sizes, MASK=mask,
            TWICE=twice,
        )  # fmt: skip
    return dx, g, weight_grad, bias_grad


def _loop(
    m: int, c: int, *, unroll: int, programs: int, registers: int
) -> tuple[tuple[int], dict[str, int], dict[str, int]]:
    """For passes that sum: every program takes every parts-th block of rows, 8 numbers of a tile in every thread.

    With 64 or 80 registers for each of 256 threads, four or three programs share a processor, and 512 or 384 run at
    once on the 132 processors of an H200: none waits for another to end.
    """
    width, groups = _width(c)
    height = 2048 // width
    blocks = triton.cdiv(m, height * unroll)
    parts = min(max(1, programs // groups), blocks)
    whole = c % width == 0 and m % (height * unroll) == 0
    sizes = {"BM": height, "BC": width, "UNROLL": unroll, "WHOLE": whole, "num_warps": 8, "maxnreg": registers}
    return (parts * groups,), {"groups": groups, "parts": parts, "blocks": blocks}, sizes


def _once(m: int, c: int) -> tuple[tuple[int], int, dict[str, int]]:
    """For passes that write a number for every one they read: one block of rows, 32 numbers in every thread."""
    width, groups = _width(c)
    height = 4096 // width
    sizes = {"BM": height, "BC": width, "WHOLE": c % width == 0 and m % height == 0, "num_warps": 4}
    return (triton.cdiv(m, height) * groups,), groups, sizes


def _width(c: int) -> tuple[int, int]:
    """How many channels a program takes, and in how many groups they come: 128 bytes at a time, without a rest."""
    width = next((size for size in (64, 32) if c % size == 0), min(128, max(16, triton.next_power_of_2(c))))
    return width, triton.cdiv(c, width)
