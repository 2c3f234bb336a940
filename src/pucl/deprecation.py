"""Old names of arguments, entries and public objects: they keep working for one version, with a FutureWarning."""

import functools
import inspect
import warnings
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar

from pucl.errors import bad_argument

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
UNTIL = "0.3"  # the version without them


def warn_renamed(owner: str, old: str, new: str, *, stacklevel: int = 3) -> None:
    """Say that `old` is now called `new`, at the place in the user's code that used it."""
    warnings.warn(
        f"{owner}: {old!r} is now called {new!r}; the old name goes with pucl {UNTIL}", FutureWarning, stacklevel
    )


def with_new_names(
    owner: str, given: Mapping[str, V], names: Mapping[str, str], *, known: Container[str] = (), stacklevel: int = 4
) -> dict[str, V]:
    """What was given by name, with old names, ``{old: new}``, replaced by the new ones; each is warned of.

    Args:
        owner: who is asked, for warnings and errors.
        given: values by name.
        names: old names and what they are called now.
        known: the names that are in use; an old name among them has a meaning of its own and stays.
        stacklevel: of the warning; by default the caller of the function that calls this.
    """
    old_names = {old: new for old, new in names.items() if old in given and old not in known}
    for old, new in old_names.items():
        if new in given:
            raise bad_argument(owner, new, f"given once, not as {old!r} too", given[new])
        warn_renamed(owner, old, new, stacklevel=stacklevel)
    return {old_names.get(name, name): value for name, value in given.items()}


def renamed_arguments(owner: str, **names: str) -> Callable[[F], F]:
    """Let a function take keyword arguments under their old names, ``old="new"``, with a warning.

    An old name that the function still has as an argument of its own is left alone.
    """

    def decorate(function: F) -> F:
        takes = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **with_new_names(owner, kwargs, names, known=takes))

        return call  # type: ignore[return-value]

    return decorate
