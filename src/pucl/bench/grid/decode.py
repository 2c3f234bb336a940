"""Typed values from TOML and JSON files: type hints say what a file may hold, and what does not fit is one error.

The benchmark also runs on machines where nothing can be installed, so that this is written here and not taken from a
library for typed files.
"""

import inspect
import re
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pucl.errors import (
    Described,
    InputError,
    bad_argument,
    check_count,
    check_known,
    is_number,
    one_line,
    unknown_name,
)

T = TypeVar("T")
if TYPE_CHECKING:  # what files hold; at run time any value is taken for it
    Option: TypeAlias = "bool | int | float | str | Sequence[Option] | Mapping[str, Option] | None"
else:
    Option = Any
Options: TypeAlias = Mapping[str, Option]
Check = Callable[[str, str, Any], Any]  # owner, key, value → the value, or an error

WORDS: Mapping[Any, str] = MappingProxyType(
    {bool: "true or false", int: "a whole number", float: "a finite number", str: "a name"}
)
LARGEST = 1 << 20  # characters of a TOML file
# A hundred names in one key: tomllib takes memory by the square of their number.
_LONG_KEY = re.compile(r"""(?:\.[ \t]*(?:"[^"\n]*"|'[^'\n]*'|[\w-]+)[ \t]*){100}""")
UNIONS, LISTS, TABLES = (Union, UnionType), (tuple, list, Sequence), (dict, Mapping)


def read_toml(owner: str, argument: str, path: Path) -> Options:
    """The content of a file that was given as some argument, or one clear error."""
    if not path.is_file():
        raise bad_argument(owner, argument, "a TOML file that exists", Described(repr(str(path))))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}", owner=owner) from None
    if len(text) > LARGEST:
        raise bad_argument(
            owner, str(path), f"a TOML file of at most {LARGEST:,} characters", Described(f"{len(text):,}")
        )
    if long := _LONG_KEY.search(text):
        got = Described(f"more at line {text.count(chr(10), 0, long.start()) + 1}")
        raise bad_argument(owner, str(path), "a TOML file with at most 100 names in a key", got)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}", owner=owner) from None


def decode(kind: type[T], value: object, *, owner: str, key: str = "its content") -> T:
    """`value`, as a file holds it, as `kind`, or one error that names owner, key, allowed values and the given one.

    A dataclass is a table with a key for every field; one without a default must be there. In ``Annotated[T, check]``
    the function `check` takes owner, key and value and returns the value or raises.
    """
    return cast("T", _decoded(kind, value, owner, key))


def one_or_more(where: str = "") -> Check:
    """A name or a list of names, as a list; `where` says in errors where they belong."""

    def check(owner: str, key: str, value: Any) -> list[str]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not values or not all(isinstance(name, str) for name in values):
            raise bad_argument(owner, key, f"a name or a list of names{where}", value)
        return values

    return check


def counts(low: int, high: int | None = None) -> Check:
    """A whole number within [low, high] or a list of them, as a list."""
    return one_or_several(lambda owner, key, value: check_count(owner, key, value, low=low, high=high))


def one_or_several(check: Check) -> Check:
    """One value or a list of them, as a list; `check` takes owner, key and one value and returns it or raises."""

    def each(owner: str, key: str, value: Any) -> list[Any]:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise bad_argument(owner, key, "one value or a list of some", value)
        return [check(owner, key, number) for number in values]

    return each


def as_table(owner: str, key: str, value: object) -> Options:
    """What stands under ``[key]``."""
    if not isinstance(value, Mapping):
        raise bad_argument(owner, key, "a table", value)
    return value


def as_tables(owner: str, key: str, value: object) -> list[Options]:
    """What stands under each ``[[key]]``; there is at least one."""
    if isinstance(value, Mapping):
        raise bad_argument(owner, f"[[{key}]]", "written with two brackets", Described(f"[{key}]"))
    if not value:
        raise bad_argument(owner, f"[[{key}]]", "given at least once", Described("none"))
    if not isinstance(value, list) or not all(isinstance(table, Mapping) for table in value):
        raise bad_argument(owner, f"[[{key}]]", "tables", value)
    return value


def keywords(function: Callable[..., Any]) -> Options:
    """The keyword-only parameters of a function that have a default, with it."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def values_of(dataclass: Any) -> Options:
    """The fields of a dataclass (a type or an instance) with their values; of a type those with a default."""
    if not isinstance(dataclass, type):
        return {field.name: getattr(dataclass, field.name) for field in fields(dataclass)}
    return {field.name: field.default for field in fields(dataclass) if field.default is not MISSING}


def resolved(
    owner: str,
    defaults: Options,
    given: object,
    *,
    kinds: Mapping[str, Any] | None = None,
    without: Iterable[str] = (),
) -> dict[str, Option]:
    """Every option with its value, given or default, as JSON holds it: a changed default is a changed cell.

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
        kind = (kinds or {}).get(name)
        if (allowed := _words(kind)) and not _fits(value, kind):  # a type that no file can hold is left alone
            raise bad_argument(owner, name, allowed, value)
    values = {name: as_json(given.get(name, default)) for name, default in known.items()}
    return {name: value for name, value in values.items() if not (is_off(value) and value == known[name])}


def as_json(value: Option) -> Option:
    """Tuples as lists."""
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(options: Options) -> dict[str, Any]:
    """Lists as tuples again, as functions and frozen dataclasses want them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def is_off(value: object) -> bool:
    """Whether a value is the kind of default that does nothing: None, False or 0."""
    return value is None or (isinstance(value, bool | int | float) and value == 0)


def _decoded(kind: Any, value: Any, owner: str, key: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return parts[1](owner, key, value)
    if is_dataclass(kind):
        return _table(kind, as_table(owner, key, value), owner)
    if origin in TABLES:
        table = as_table(owner, key, value)
        return {name: _decoded(parts[1], item, owner, f"{key}.{name}") for name, item in table.items()}
    if origin in UNIONS and NoneType in parts and len(parts) == 2:
        inner = next(part for part in parts if part is not NoneType)
        return None if value is None else _decoded(inner, value, owner, key)
    if (allowed := _words(kind)) and not _fits(value, kind):
        raise bad_argument(owner, key, allowed, value)
    return tuple(value) if origin is tuple else value


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _table(kind: Any, table: Options, owner: str) -> Any:
    """A dataclass from a table; unknown keys are errors, and so are fields without a default that are not there."""
    hints = _hints(kind)
    own = [field for field in fields(kind) if field.init]
    check_known(owner, "key", table, [field.name for field in own])
    needed = [field.name for field in own if field.default is MISSING and field.default_factory is MISSING]
    names = [field.name for field in own if field.name in table or field.name in needed]
    return kind(**{name: _decoded(hints[name], table.get(name), owner, name) for name in names})


def _words(kind: Any) -> str:
    """What a file may hold for a type, in words for errors; empty for a type that no file can hold."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in UNIONS:
        return " or ".join(filter(None, map(_words, parts)))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in LISTS:
        count = f"{len(parts)} " if _is_fixed(kind) else ""
        return f"a list of {count}{_words(parts[0]).removeprefix('a ')}s"
    return WORDS.get(kind, "") if isinstance(kind, type | types.GenericAlias) else ""


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
