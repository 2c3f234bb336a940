"""Labellers by name: every ranker and every pseudo-labeller, and the former names of their options."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pucl.deprecation import warn_renamed, with_new_names
from pucl.errors import unknown_name
from pucl.ranking import DEFAULT_RANKER
from pucl.registry import Entry, current_name, entries

FAMILIES = ("rankers", "pseudo-labellers")
RENAMED_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "even": "whitening",
        "most": "max_rows",
        "neighbours": "n_neighbors",
        "on": "alpha",
        "beside": "other_embeddings",
    }
)


def labellers() -> Mapping[str, Entry]:
    """Everything that labels rows, by name in alphabetical order: rankers and pseudo-labellers."""
    return MappingProxyType(
        dict(sorted((name, entry) for family in FAMILIES for name, entry in entries(family).items()))
    )


def find_labeller(name: str, *, owner: str = "pucl.pseudo_label") -> Entry:
    """A labeller by name; ``"auto"`` is the default ranker.

    A former name works with a warning; the error for an unknown one suggests the nearest.
    """
    known = labellers()
    if name == "auto":
        return known[DEFAULT_RANKER]
    current = next((new for family in FAMILIES if (new := current_name(family, name)) in known), name)
    if current not in known:
        raise unknown_name("labeller", name, known)
    if current != name:
        warn_renamed(owner, name, current, stacklevel=4)
    return known[current]


def renamed_options(owner: str, entry: Entry, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a labeller under the names they have now; one under its old name is taken, with a warning."""
    takes = inspect.signature(entry.function).parameters
    names = {old: new for old, new in RENAMED_OPTIONS.items() if new in takes}
    return with_new_names(owner, options, names, known=takes, stacklevel=6)
