"""Calls that `torch.compile` leaves out of its graphs. Importing this file loads the compiler, which takes a second."""

from collections.abc import Callable

import torch
from torch import Tensor


@torch.compiler.disable  # type: ignore[untyped-decorator]
def untraced(function: Callable[..., Tensor], *arguments: object) -> Tensor:
    """The result of a function that is called while a graph is traced, but not traced itself."""
    return function(*arguments)
