"""Old names of arguments, entries and public objects: they keep working for one version, with a FutureWarning."""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from pucl.errors import bad_argument

F = TypeVar("F", bound=Callable[..., Any])
UNTIL = "0.3"  # the version without them


def warn_renamed(owner: str, old: str, new: str, *, stacklevel: int = 3) -> None:
    """Say that `old` is now called `new`, at the place in the user's code that used it."""
    warnings.warn(
        f"{owner}: {old!r} is now called {new!r}; the old name goes with pucl {UNTIL}", FutureWarning, stacklevel
    )


def renamed_arguments(owner: str, **names: str) -> Callable[[F], F]:
    """Let a function take keyword arguments under their old names, ``old="new"``, with a warning.

    An old name that the function still has as an argument of its own is left alone.
    """

    def decorate(function: F) -> F:
        takes = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old, new in names.items():
                if old in kwargs and old not in takes:
                    if new in kwargs:
                        raise bad_argument(owner, new, f"given once, not as {old!r} too", kwargs[new])
                    warn_renamed(owner, old, new)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
