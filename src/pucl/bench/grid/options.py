"""Options with all their defaults written out, so that a changed default is a changed cell, and of the right types."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pucl.errors import bad_argument, is_number, unknown_name

WORDS: Mapping[Any, str] = MappingProxyType(
    {bool: "true or false", int: "a whole number", float: "a finite number", str: "a name"}
)
UNIONS, LISTS = (Union, UnionType), (tuple, list, Sequence)


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only parameters of a function that have a default, with it."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def values_of(dataclass: Any) -> dict[str, Any]:
    """The fields of a dataclass (a type or an instance) with their values; of a type those with a default."""
    if not isinstance(dataclass, type):
        return {field.name: getattr(dataclass, field.name) for field in fields(dataclass)}
    return {field.name: field.default for field in fields(dataclass) if field.default is not MISSING}


def resolved(
    owner: str,
    defaults: Mapping[str, Any],
    given: Any,
    *,
    kinds: Mapping[str, Any] | None = None,
    without: Iterable[str] = (),
) -> dict[str, Any]:
    """Every option with its value, given or default, as JSON holds it.

    An option whose default is None, False or 0 and that is left there does nothing and is left out: one that is added
    to the code later, switched off, changes no cell.

    Args:
        owner: whose options, for errors.
        defaults: the known options.
        given: some of them with other values.
        kinds: the types of those that are checked, as `typing.get_type_hints` gives them.
        without: options that are not for a grid to set.
    """
    known = {name: value for name, value in defaults.items() if name not in set(without)}
    if not isinstance(given, Mapping):
        raise bad_argument(owner, "its options", "a table", given)
    for name, value in given.items():
        if name not in known:
            raise unknown_name(f"option of {owner}", name, known)
        _check_kind(owner, name, value, (kinds or {}).get(name))
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


def _check_kind(owner: str, argument: str, value: Any, kind: Any) -> None:
    """The value of an option fits its annotation; one that no file can hold, such as a module, is left alone."""
    if (allowed := _words(kind)) and not _fits(value, kind):
        raise bad_argument(owner, argument, allowed, value)


def _words(kind: Any) -> str:
    """What may stand in a file, for people; nothing for a type that no file can hold."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in UNIONS:
        return " or ".join(filter(None, map(_words, parts)))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in LISTS:
        count = f"{len(parts)} " if _is_fixed(kind) else ""
        return f"a list of {count}{_words(parts[0]).removeprefix('a ')}s"
    return WORDS.get(kind, "")


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in UNIONS:
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin in LISTS:
        if not isinstance(value, list | tuple):
            return False
        each = parts if _is_fixed(kind) else parts[:1] * len(value)
        return len(value) == len(each) and all(map(_fits, value, each))
    if kind is float:
        return is_number(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind in (bool, str, NoneType) and isinstance(value, kind)


def _is_fixed(kind: Any) -> bool:
    """Whether a list has a length of its own."""
    return get_origin(kind) is tuple and Ellipsis not in get_args(kind)
