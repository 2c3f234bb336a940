"""Random numbers for the rows of a batch: the same ones for the same row, however many processes share the batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor


class RowGenerator(Generator):
    """A generator for one of several parts of a batch that share a seed: those of processes, and of their chunks.

    For every part the numbers of the whole batch are drawn and those of its own rows are kept: the `part`-th of `parts`
    equal parts of the batch.
    """

    part: int
    parts: int


def rows_generator(device: torch.device, part: int, parts: int) -> Generator:
    """A generator on `device` for one part of a batch; a plain one, which CUDA graphs accept, for the whole batch."""
    if parts == 1:
        return Generator(device=device)
    generator = RowGenerator(device=device)
    generator.part, generator.parts = part, parts
    return generator


def uniform(generator: Generator, x: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers in [0, 1) for every row of `x`, (n, *shape)."""
    return _draw(torch.rand, generator, x, shape, dtype or x.dtype)


def normal(generator: Generator, x: Tensor, *shape: int) -> Tensor:
    """Standard normal numbers for every row of `x`, (n, *shape)."""
    return _draw(torch.randn, generator, x, shape, x.dtype)


def _draw(
    draw: Callable[..., Tensor], generator: Generator, x: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> Tensor:
    if torch.compiler.is_dynamo_compiling():  # it cannot trace generators; what follows the draws is compiled
        from pucl.numerics.untraced import untraced

        return untraced(_rows, draw, generator, x, shape, dtype)  # type: ignore[no-any-return]
    return _rows(draw, generator, x, shape, dtype)


def _rows(
    draw: Callable[..., Tensor], generator: Generator, x: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> Tensor:
    n = len(x)
    options: dict[str, Any] = {"generator": generator, "device": x.device, "dtype": dtype}
    if not isinstance(generator, RowGenerator):
        return draw(n, *shape, **options)
    first = generator.part * n
    return draw(generator.parts * n, *shape, **options)[first : first + n]
