"""Out of memory: recognise it, find the batch that would have fitted, say so in one line."""

import math
from collections.abc import Callable
from functools import cache

import torch

from pucl.errors import RunError

SIGNS = (
    "can't allocate memory",  # the CPU allocator, Linux and macOS
    "not enough memory",  # the CPU allocator, Windows
    "out of memory",  # drivers and backends that raise a plain RuntimeError
    "ALLOC_FAILED",  # cuBLAS and cuDNN
    "could not create a primitive",  # oneDNN, which does not say why: for a network that ran before, want of memory
)
SAFE = 0.9  # share of the memory a prediction may fill
FIRST = 64  # samples; with half of it, cheap to run and large enough for a slope


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on any device or in numpy."""
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def largest_batch(try_batch: Callable[[int], int], *, batch_size: int, available: int) -> int:
    """The largest power of two below `batch_size` that fits into `available` bytes, or 0 if not even 2 samples do.

        b(k) + (n − k) · (b(2k) − b(k)) / k ≤ 0.9 · available

    where n is the answer and b(n) what ``try_batch(n)`` returns: the peak bytes above the rest of a forward and
    backward pass over n samples (it may also run out of memory). k is 32, halved until k and 2k fit. The answer is
    tried before it is given, and halved while it fails, since not everything grows along a line.
    """

    @cache
    def peak(n: int) -> float:
        return _peak(try_batch, n)

    budget = SAFE * available
    top = 1 << max(0, (batch_size - 1).bit_length() - 1)  # the largest power of two below `batch_size`
    k = min(FIRST, top) // 2
    while k >= 2 and math.isinf(max(peak(k), peak(2 * k))):
        k //= 2
    n = top if k >= 2 else min(top, 2)  # no line through one point: 2 samples, the least there is, or nothing
    while n > 2 and peak(k) + (n - k) * max(0.0, peak(2 * k) - peak(k)) / k > budget:
        n //= 2
    while n >= 2 and peak(n) > budget:
        n //= 2
    return n if n >= 2 else 0


def fitting_batch(attempt: Callable[[int], object], batch_size: int, device: torch.device) -> int:
    """The largest power of two below `batch_size` with which `attempt` gets through on `device`, or 0."""
    gpu = device.type == "cuda"
    if gpu:
        torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device) if gpu else 0

    def peak(n: int) -> int:
        if gpu:
            torch.cuda.reset_peak_memory_stats(device)
        attempt(n)
        return torch.cuda.max_memory_allocated(device) - before if gpu else 0  # on a CPU only a failure counts

    return largest_batch(peak, batch_size=batch_size, available=torch.cuda.mem_get_info(device)[0] if gpu else 1)


def does_not_fit(batch_size: int, fits: int | None, chunk_size: int | None = None) -> RunError:
    """The error for a batch, or its chunks, that ran out of memory; `fits` is a size that fits, if known."""
    what = f"a batch size of {batch_size}" if chunk_size is None else f"a chunk size of {chunk_size}"
    problem = f"{what} does not fit into memory"
    if fits is None:
        return RunError(f"{problem}: halve it, or share it out among more processes")
    if fits:
        chunks = "" if chunk_size or batch_size % fits else f", and so would chunks of {fits} (chunk_size=)"
        return RunError(f"{problem}; {fits} would{chunks}")
    return RunError(
        f"{problem}, not even one of 2: use a smaller encoder, smaller inputs, or a device with more free memory"
    )


def _peak(try_batch: Callable[[int], int], n: int) -> float:
    """The bytes that `n` samples take, infinitely many if they do not fit."""
    try:
        return try_batch(n)
    except Exception as error:
        if is_out_of_memory(error):
            return math.inf
        raise
