"""Random numbers for the rows of a batch: the same ones for the same row, however many processes share the batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor


class RowGenerator(Generator):
    """A generator for one process of many, all seeded alike.

    Numbers are drawn for the rows of all processes, of which each keeps those of its own: its rows are the `rank`-th of
    `world` equal parts of the batch.
    """

    rank: int
    world: int


def rows_generator(device: torch.device, rank: int, world: int) -> Generator:
    """A generator on `device` for process `rank` of `world`; alone a plain one, which a CUDA graph can take."""
    if world == 1:
        return Generator(device=device)
    generator = RowGenerator(device=device)
    generator.rank, generator.world = rank, world
    return generator


def uniform(generator: Generator, x: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers in [0, 1) for every row of `x`, (n, *shape)."""
    numbers: Tensor = _draw(torch.rand, generator, x, shape, dtype or x.dtype)
    return numbers


def normal(generator: Generator, x: Tensor, *shape: int) -> Tensor:
    """Standard normal numbers for every row of `x`, (n, *shape)."""
    numbers: Tensor = _draw(torch.randn, generator, x, shape, x.dtype)
    return numbers


# Compilers have no generators of one's own; what follows the numbers is compiled.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _draw(
    draw: Callable[..., Tensor], generator: Generator, x: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> Tensor:
    n = len(x)
    how: dict[str, Any] = {"generator": generator, "device": x.device, "dtype": dtype}
    if not isinstance(generator, RowGenerator):
        return draw(n, *shape, **how)
    first = generator.rank * n
    return draw(generator.world * n, *shape, **how)[first : first + n]
