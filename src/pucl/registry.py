"""Registries by folder scan: a new loss, encoder, data set … is one new file in its family's folder.

A file registers what it defines with a decorator::

    @register("losses", reference="eq:puCL")
    def pucl(pairs, *, temperature): ...

`entries(family)` imports every file of the folder once and returns what was registered. The command line, the
benchmark tables and the contract tests are all driven by it, so nothing else has to be edited.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pucl.deprecation import warn_renamed
from pucl.errors import Described, bad_argument, check_count, unknown_name

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "losses": "pucl.losses",
        "risks": "pucl.risks",
        "text-encoders": "pucl.texts",
        "encoders": "pucl.encoders",
        "datasets": "pucl.data",
        "views": "pucl.views",
        "priors": "pucl.priors",
        "rankers": "pucl.ranking",
        "pseudo-labellers": "pucl.pseudo_labels",
        "heads": "pucl.heads",
        "baselines": "pucl.baselines",
        "statements": "pucl.theory",
        "figures": "pucl.bench.figures",
    }
)
INPUTS = ("image", "table", "vector")
TEXT = "text"  # what text encoders take, and the rows of some data sets
SCORES = ("score", "probability")  # what some prior estimators take: any score that ranks rows, or one within [0, 1]

_entries: dict[str, dict[str, "Entry"]] = {family: {} for family in FAMILIES}
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """One registered function and what is known about it."""

    family: str
    name: str
    function: Callable[..., Any]
    reference: str
    needs_prior: bool
    inputs: tuple[str, ...]
    former_names: tuple[str, ...] = ()
    revision: int = 1
    needs_classes: bool = False
    pretrained: str | None = None

    @property
    def summary(self) -> str:
        """The first line of the docstring, without its full stop."""
        return (self.function.__doc__ or "").strip().split("\n")[0].rstrip(".")


def register(
    family: str,
    *,
    reference: str,
    name: str | None = None,
    needs_prior: bool = False,
    inputs: tuple[str, ...] = INPUTS,
    former_names: tuple[str, ...] = (),
    revision: int = 1,
    needs_classes: bool = False,
    pretrained: str | None = None,
) -> Callable[[F], F]:
    """Put the decorated function into `family`.

    Args:
        family: one of `FAMILIES`.
        reference: where it comes from: a label of the paper, or a citation.
        name: the name to call it by; the function's own name when not given.
        needs_prior: whether it needs π, the share of positives in the unlabelled set.
        inputs: the kinds of input it takes.
        former_names: names it had before; they still work, with a warning.
        revision: raise it by one whenever a change gives other results, so that older stored results are recognised.
        needs_classes: whether it learns from the class of every row in place of PU labels: a reference, not a method.
        pretrained: of an encoder of rows or of texts, the package that holds its published weights.
    """
    if family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    known_inputs = (*INPUTS, *SCORES, TEXT)
    if not set(inputs) <= {*known_inputs}:
        raise bad_argument(f"register({family!r})", "inputs", f"a tuple of {known_inputs}", inputs)
    check_count(f"register({family!r})", "revision", revision)

    def add(function: F) -> F:
        key = name or function.__name__
        known = _entries[family].get(key)
        if known is not None and known.function.__module__ != function.__module__:
            taken = Described(f"{key!r}, taken by {known.function.__module__}")
            raise bad_argument(f"register({family!r})", "name", "new in its family", taken)
        entry = Entry(
            family, key, function, reference, needs_prior, inputs, former_names, revision, needs_classes, pretrained
        )
        _entries[family][key] = entry
        return function

    return add


def entries(family: str) -> Mapping[str, Entry]:
    """All entries of a family by name, in alphabetical order; imports the files of its folder the first time."""
    if family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    _import_files(family)
    return MappingProxyType(dict(sorted(_entries[family].items())))


@cache
def _import_files(family: str) -> None:
    package = importlib.import_module(FAMILIES[family])
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def get(family: str, name: str) -> Entry:
    """One entry by name. A former name works with a warning; the error for an unknown one suggests the nearest."""
    known = entries(family)
    current = current_name(family, name)
    if current not in known:
        raise unknown_name(family, name, known)
    if current != name:
        warn_renamed(family, name, current, stacklevel=4)
    return known[current]


def current_name(family: str, name: str) -> str:
    """The current name of an entry that had another name before; any other name is returned unchanged."""
    known = entries(family)
    return next((entry.name for entry in known.values() if name in entry.former_names and name not in known), name)


def check_options(entry: Entry, given: Mapping[str, Any]) -> None:
    """Refuse options that an entry does not have, and words that it does not know. Options are keyword-only."""
    parameters = inspect.signature(entry.function).parameters.values()
    takes = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    kinds = get_type_hints(entry.function)
    for option, value in given.items():
        if option not in takes:
            raise unknown_name(f"option of {entry.name}", option, takes)
        words = get_args(kinds[option])
        if get_origin(kinds[option]) is Literal and value not in words:
            raise unknown_name(f"{option} of {entry.name}", value, words)
