"""How one column of a table becomes numbers: what is remembered of it at training and how it is applied later."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, Table
from pucl.data.own.columns import as_text
from pucl.errors import Described, bad_argument

Unknown = Literal["zeros", "error"]
ZEROS = "all its features are 0"
MANY = 1000  # new categories of a column from which they are counted no further
WORDS = 5  # a value of a category has fewer words than this on average; anything longer is free text


class ColumnWarning(UserWarning):
    """Values that training did not have: missing ones, or `new` categories; the sum of two covers the rows of both."""

    def __init__(self, name: str, rows: int, consequence: str, new: frozenset[str] = frozenset()) -> None:
        super().__init__(name, rows, consequence, new)
        self.name, self.rows, self.consequence, self.new = name, rows, consequence, new

    def __str__(self) -> str:
        if not self.new:
            missing = f"missing values in {self.rows} rows but had none in training"
            return f"column {self.name!r} has {missing}; {self.consequence}"
        seen = sorted(self.new)
        more = "many" if len(seen) >= MANY else str(len(seen) - 3)
        named = ", ".join(map(repr, seen[:3])) + (f" and {more} more" if len(seen) > 3 else "")
        return f"column {self.name!r}: {named} did not occur in training; {self.consequence} in {self.rows} rows"

    def __add__(self, other: "ColumnWarning") -> "ColumnWarning":
        new = self.new if len(self.new) >= MANY else self.new | other.new
        return ColumnWarning(self.name, self.rows + other.rows, self.consequence, new)


@dataclass(frozen=True)
class NumberRule:
    """(x − centre) / scale with missing values filled in, and an indicator of them if training had any.

    Booleans are numbers too, with centre 0 and scale 1.
    """

    name: str
    boolean: bool
    fill: float
    centre: float
    scale: float
    indicator: bool

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it makes."""
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def apply(self, table: Table) -> NDArray[np.float64]:
        """The features (n, 1 or 2) of the column."""
        values = _numbers(table, self.name)
        odd = self.boolean & ~(np.isnan(values) | np.isin(values, (0, 1)))
        if odd.any():
            got = Described(f"{values[odd.argmax()]} at row {table.start + int(odd.argmax())}")
            raise bad_argument(OWNER, f"column {self.name!r}", "true or false, as in training", got)
        missing = np.isnan(values)
        if missing.any() and not self.indicator:
            consequence = f"the median {self.fill:g} is taken"
            warnings.warn(ColumnWarning(self.name, int(missing.sum()), consequence), stacklevel=3)
        scaled = (np.where(missing, self.fill, values) - self.centre) / self.scale
        return np.stack([scaled, missing], axis=1) if self.indicator else scaled[:, None]


@dataclass(frozen=True)
class CategoryRule:
    """One indicator per value seen at training, one for all `other` rare ones, one for missing values if it had any."""

    name: str
    values: tuple[str, ...]
    other: bool
    indicator: bool
    declared: bool
    unknown: Unknown

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it makes."""
        extra = [f"{self.name} other"] * self.other + [f"{self.name} missing"] * self.indicator
        return (*(f"{self.name}={value}" for value in self.values), *extra)

    def apply(self, table: Table) -> NDArray[np.float64]:
        """The indicators; a value that training never saw is all zeros with a warning, or an error."""
        if not self.declared and table.types[self.name] not in ("category", "missing"):
            raise _wrong_type(table, self.name, "text, as in training")
        texts = as_text(_values(table, self.name))
        missing = np.array([text is None for text in texts], dtype=bool)
        place: Mapping[Any, int] = {value: j for j, value in enumerate(self.values)}
        at = np.array([place.get(text, -1) for text in texts], dtype=np.intp)
        new = (at < 0) & ~missing
        if self.other:
            at[new] = len(self.values)
        elif new.any():
            self._meet(texts[new], table.start + int(new.argmax()))
        if self.indicator:
            at[missing] = len(self.features) - 1
        elif missing.any():
            warnings.warn(ColumnWarning(self.name, int(missing.sum()), ZEROS), stacklevel=3)
        out = np.zeros((len(table), len(self.features)))
        out[np.flatnonzero(at >= 0), at[at >= 0]] = 1
        return out

    def _meet(self, new: NDArray[np.object_], row: int) -> None:
        if self.unknown == "error":
            got = Described(f"{new[0]!r} at row {row}")
            raise bad_argument(OWNER, f"column {self.name!r}", f"one of {list(self.values)[:5]}", got)
        warnings.warn(ColumnWarning(self.name, len(new), ZEROS, frozenset(new)), stacklevel=4)


def fit_number(table: Table, name: str) -> NumberRule | None:
    """What training rows say about a column of numbers or booleans; None where it is constant or empty."""
    values = _numbers(table, name)
    missing = np.isnan(values)
    if missing.all():
        return None
    fill = float(np.median(values[~missing]))
    filled = np.where(missing, fill, values)
    with np.errstate(over="ignore"):
        spread = float(filled.std())
    if not np.isfinite(spread):
        got = Described(f"up to {np.abs(filled).max():.3g}")
        raise bad_argument(OWNER, f"column {name!r}", "numbers small enough to be squared", got)
    constant = spread <= 1e-12 * float(np.abs(filled).max())
    if constant and not missing.any():
        return None
    if table.types[name] == "bool":
        return NumberRule(name, True, fill, 0.0, 1.0, bool(missing.any()))
    return NumberRule(name, False, fill, float(filled.mean()), 1.0 if constant else spread, bool(missing.any()))


def fit_category(
    table: Table, name: str, *, declared: bool, max_categories: int, unknown: Unknown
) -> CategoryRule | None:
    """What training rows say about a column of categories; None where it is constant or empty."""
    present = [text for text in as_text(_values(table, name)) if text is not None]
    indicator = len(present) < len(table)
    counts = Counter(present)
    if not counts or (len(counts) == 1 and not indicator):
        return None
    if not declared:
        _refuse_text(name, present, counts, max_categories)
    if len(counts) <= max_categories:
        return CategoryRule(name, tuple(sorted(counts)), False, indicator, declared, unknown)
    most = sorted(counts, key=lambda text: (-counts[text], text))[:max_categories]
    warnings.warn(
        f"column {name!r} has {len(counts)} categories; the {max_categories} most frequent are kept, "
        f"the rest ({len(present) - sum(counts[text] for text in most)} rows) is one category 'other'",
        stacklevel=4,
    )
    return CategoryRule(name, tuple(sorted(most)), True, indicator, declared, unknown)


def _refuse_text(name: str, present: list[str], counts: Counter[str], max_categories: int) -> None:
    words = sum(len(text.split()) for text in present) / len(present)
    nearly_all_distinct = len(counts) > max(max_categories, len(present) / 2)
    if words >= WORDS or nearly_all_distinct:
        allowed = "numbers or categories (leave it out with columns=, or declare it with categorical=)"
        got = Described(f"free text, such as {present[0][:30]!r}")
        raise bad_argument(OWNER, f"column {name!r}", allowed, got)


def _values(table: Table, name: str) -> NDArray[Any]:
    if name not in table.types:
        raise bad_argument(OWNER, f"column {name!r}", "there, as in training", Described("a table without it"))
    if name not in table.values:
        raise _wrong_type(table, name, "numbers, booleans or categories")
    return table.values[name]


def _numbers(table: Table, name: str) -> NDArray[np.float64]:
    values = _values(table, name)
    if table.types[name] == "category":
        raise _wrong_type(table, name, "numbers, as in training")
    infinite = np.isinf(values)
    if infinite.any():
        got = Described(f"infinity at row {table.start + int(infinite.argmax())}")
        raise bad_argument(OWNER, f"column {name!r}", "finite or missing", got)
    return values


def _wrong_type(table: Table, name: str, allowed: str) -> Exception:
    shown = {"category": "text", "number": "numbers", "bool": "booleans", "date": "dates"}
    kind = table.types[name]
    return bad_argument(OWNER, f"column {name!r}", allowed, Described(shown.get(kind, f"type {kind}")))
