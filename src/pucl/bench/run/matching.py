"""Which cells of a grid ``--only`` asks for."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from pucl.errors import bad_argument, is_number, unknown_name


class Named(Protocol):
    """A cell as people are told of it."""

    @property
    def name(self) -> str:
        """Its name in lines for people."""


C = TypeVar("C", bound=Named)


def matching(cells: list[C], only: list[str], keys: Sequence[str], value: Callable[[C, str], object]) -> list[C]:
    """The cells that fit all of `only`: ``key=value`` (``key=a,b`` for either), or words that occur in their name.

    Numbers in a name are whole: "seed 1" is not a part of "seed 10".

    Args:
        cells: of a grid.
        only: what the user typed.
        keys: that cells have.
        value: of a cell under a key.
    """
    for text in only:
        key, equals, wanted = text.partition("=")
        if equals and key not in keys:
            raise unknown_name("key of --only", key, keys)
        if equals:
            cells = [cell for cell in cells if any(_is(value(cell, key), each) for each in wanted.split(","))]
        else:
            words = _with_whole_numbers(text)
            cells = [cell for cell in cells if words.search(cell.name)]
        if not cells:
            raise bad_argument("pucl bench run", "--only", "text or key=value that matches a cell of the grid", text)
    return cells


def _is(value: object, wanted: str) -> bool:
    """Whether a value is what was written; numbers are compared as numbers."""
    with suppress(ValueError):
        if is_number(value) and float(wanted) == float(str(value)):
            return True
    return str(value) == wanted


def _with_whole_numbers(text: str) -> re.Pattern[str]:
    """A pattern for the text that does not match inside longer numbers."""
    before, after = r"(?<![0-9])" * text[:1].isdecimal(), r"(?![0-9])" * text[-1:].isdecimal()
    return re.compile(before + re.escape(text) + after)
