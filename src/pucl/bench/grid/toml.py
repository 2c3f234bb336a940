"""TOML files of the benchmark: grids, notes and goals, and what their values have to be."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pucl.errors import Described, InputError, bad_argument, check_count


def read_toml(owner: str, argument: str, path: Path) -> dict[str, Any]:
    """The content of a file that was given as some argument, or one clear error."""
    if not path.is_file():
        raise bad_argument(owner, argument, "a TOML file that exists", Described(repr(str(path))))
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}", owner=owner) from None


def as_table(owner: str, key: str, value: Any) -> Mapping[str, Any]:
    """What stands under ``[key]``."""
    if not isinstance(value, Mapping):
        raise bad_argument(owner, key, "a table", value)
    return value


def as_tables(owner: str, key: str, value: Any) -> list[Mapping[str, Any]]:
    """What stands under each ``[[key]]``; there is at least one."""
    if isinstance(value, Mapping):
        raise bad_argument(owner, f"[[{key}]]", "written with two brackets", Described(f"[{key}]"))
    if not value:
        raise bad_argument(owner, f"[[{key}]]", "given at least once", Described("none"))
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise bad_argument(owner, f"[[{key}]]", "tables", value)
    return value


def as_name(owner: str, key: str, value: Any) -> str:
    """One name."""
    if not isinstance(value, str):
        raise bad_argument(owner, key, "a name", value)
    return value


def as_names(owner: str, key: str, value: Any, where: str = "") -> list[str]:
    """A name or several; `where` tells people where they belong."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(one, str) for one in values):
        raise bad_argument(owner, key, f"a name or a list of names{where}", value)
    return values


def as_numbers(owner: str, key: str, value: Any, *, low: int, high: int | None = None) -> list[int]:
    """A whole number or several."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise bad_argument(owner, key, "a list of whole numbers", value)
    return [check_count(owner, key, one, low=low, high=high) for one in values]
