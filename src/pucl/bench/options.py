"""Options with all their defaults written out, so that a changed default is a changed cell."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from pucl.errors import bad_argument, unknown_name


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only parameters of a function that have a default, with it."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def values_of(dataclass: Any) -> dict[str, Any]:
    """The fields of a dataclass (a type or an instance) with their values; of a type those with a default."""
    if not isinstance(dataclass, type):
        return {field.name: getattr(dataclass, field.name) for field in fields(dataclass)}
    return {field.name: field.default for field in fields(dataclass) if field.default is not MISSING}


def resolved(owner: str, defaults: Mapping[str, Any], given: Any, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """Every option with its value, given or default, as JSON holds it.

    An option whose default is None, False or 0 and that is left there does nothing and is left out: one that is added
    to the code later, switched off, changes no cell.

    Args:
        owner: whose options, for errors.
        defaults: the known options.
        given: some of them with other values.
        without: options that are not for a grid to set.
    """
    known = {name: value for name, value in defaults.items() if name not in set(without)}
    if not isinstance(given, Mapping):
        raise bad_argument(owner, "its options", "a table", given)
    for name in given:
        if name not in known:
            raise unknown_name(f"option of {owner}", name, known)
    values = {name: as_json(given.get(name, default)) for name, default in known.items()}
    return {name: value for name, value in values.items() if not (_is_off(value) and value == known[name])}


def as_json(value: Any) -> Any:
    """Tuples as lists."""
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples again, as functions and frozen dataclasses want them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def _is_off(value: Any) -> bool:
    return value is None or (isinstance(value, bool | int | float) and value == 0)
