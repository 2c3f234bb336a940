from collections.abc import Callable

import pytest
import torch

from pucl.errors import RunError
from pucl.training.memory import does_not_fit, is_out_of_memory, largest_batch


def machine(peak: Callable[[int], float], memory: float) -> tuple[Callable[[int], int], list[int]]:
    """What a batch of n samples takes on a machine with so much memory, and the sizes that were tried."""
    tried: list[int] = []

    def try_batch(n: int) -> int:
        tried.append(n)
        if peak(n) > memory:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return round(peak(n))

    return try_batch, tried


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        RuntimeError("[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried"),
        RuntimeError("MPS backend out of memory (MPS allocated: 5 GB)"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
    ],
)
def test_out_of_memory_is_recognised(error: BaseException) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ValueError("out of memory"),
        KeyboardInterrupt(),
        does_not_fit(8192, 2048),
        does_not_fit(8192, 0),
    ],
)
def test_other_errors_are_not(error: BaseException) -> None:
    assert not is_out_of_memory(error)


def test_the_allocator_of_this_machine() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**16)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize("asked", [3, 4, 5, 33, 64, 65, 100, 128, 1000, 1024, 8192, 8193])
@pytest.mark.parametrize("memory", [10, 205, 1000, 13_000, 70_000, 10**9])
@pytest.mark.parametrize("fixed", [0, 100])
def test_the_largest_power_of_two_that_fits(asked: int, memory: int, fixed: int) -> None:
    try_batch, tried = machine(lambda n: fixed + 10 * n, memory)
    powers = [2**k for k in range(1, 14) if 2**k < asked and fixed + 10 * 2**k <= 0.9 * memory]
    assert largest_batch(try_batch, batch_size=asked, available=memory) == max(powers, default=0)
    assert len(tried) == len(set(tried)) <= 7, "no size is tried twice"
    assert all(2 <= n < asked for n in tried)


def test_two_small_sizes_and_the_answer_are_tried() -> None:
    try_batch, tried = machine(lambda n: 1000 + 10 * n, 50_000)
    assert largest_batch(try_batch, batch_size=8192, available=50_000) == 4096
    assert tried == [32, 64, 4096]


def test_what_grows_faster_than_a_line_is_found_out() -> None:
    try_batch, tried = machine(lambda n: 10 * n + n * n / 50, 50_000)  # as with a full matrix of similarities
    assert largest_batch(try_batch, batch_size=8192, available=50_000) == 1024
    assert tried == [32, 64, 2048, 1024]


def test_noise_of_the_allocator_is_no_reason_to_promise_too_much() -> None:
    try_batch, _ = machine(lambda n: 600 if n == 32 else max(512, 10 * n), 50_000)
    assert largest_batch(try_batch, batch_size=8192, available=50_000) == 4096
    falling, _ = machine(lambda n: 5000 - n if n <= 64 else 10 * n, 20_000)
    assert largest_batch(falling, batch_size=8192, available=20_000) == 1024


def test_small_sizes_that_fail_are_halved() -> None:
    try_batch, tried = machine(lambda n: 100 * n, 1000)
    assert largest_batch(try_batch, batch_size=512, available=1000) == 8
    assert tried == [32, 64, 16, 8, 4]


@pytest.mark.parametrize("asked", [1, 2, 3, 8192])
def test_nothing_fits(asked: int) -> None:
    try_batch, _ = machine(lambda n: 1000 * n, 100)
    assert largest_batch(try_batch, batch_size=asked, available=100) == 0


def test_another_error_is_not_swallowed() -> None:
    def broken(n: int) -> int:
        raise RuntimeError(f"a network that cannot take {n} rows")

    with pytest.raises(RuntimeError, match="cannot take 32 rows"):
        largest_batch(broken, batch_size=8192, available=1)


def test_advice_is_one_line() -> None:
    assert isinstance(does_not_fit(8192, 2048), RunError)
    assert str(does_not_fit(8192, 2048)) == (
        "a batch size of 8192 does not fit into memory; 2048 would, and so would chunks of 2048 (chunk_size=)"
    )
    assert str(does_not_fit(8190, 2048)) == "a batch size of 8190 does not fit into memory; 2048 would"
    assert str(does_not_fit(8192, 64, 256)) == "a chunk size of 256 does not fit into memory; 64 would"
    nothing = str(does_not_fit(8192, 0))
    assert nothing.startswith("a batch size of 8192 does not fit into memory, not even one of 2: use a smaller")
    assert "\n" not in nothing
