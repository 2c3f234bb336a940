"""Views: batched random transformations ``(x, generator) → x'`` that keep the class and know nothing of labels."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from pucl.registry import entries, get

View = Callable[[Tensor, Generator], Tensor]


def make_view(name: str, *, compiled: bool = False, **options: Any) -> View:
    """The view registered under `name`, with its options set.

    `compiled` fuses it into a few kernels on a GPU; the first call then takes some seconds longer. A CPU gains nothing.
    """
    view = partial(get("views", name).function, **options)
    return torch.compile(view) if compiled else view


def known_as(view: str | View) -> str | None:
    """The name of a registered view, with the options that `make_view` set; None for any other function."""
    if isinstance(view, str):
        return view
    if isinstance(view, partial):
        for name, entry in entries("views").items():
            if entry.function is view.func:
                options = ", ".join(f"{option}={value!r}" for option, value in sorted(view.keywords.items()))
                return f"{name}({options})" if options else name
    return None
