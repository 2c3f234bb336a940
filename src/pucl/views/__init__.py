"""Views: batched random transformations ``(x, generator) → x'`` that keep the class and know nothing of labels."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Generator, Tensor

from pucl.registry import get

View = Callable[[Tensor, Generator], Tensor]


def make_view(name: str, **options: Any) -> View:
    """The view registered under `name`, with its options set."""
    return partial(get("views", name).function, **options)
