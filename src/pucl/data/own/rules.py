"""How one column of a table becomes one number a row: what is remembered of it at training, and how it is applied."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, Table
from pucl.data.own.columns import as_text
from pucl.errors import Described, bad_argument, users_line

Unknown = Literal["zeros", "error"]
ZEROS = "all its features are 0"
MAX_CODES = 10_000  # categories of a column that have a code of their own
MANY = 1000  # new categories of a column from which they are counted no further


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
    """(x − centre) / scale; as a feature, missing values take the median, with an indicator if training had any.

    Booleans are numbers too, with centre 0 and scale 1, and so are dates, in days.
    """

    name: str
    boolean: bool
    fill: float
    centre: float
    scale: float
    indicator: bool
    date: bool = False

    @property
    def width(self) -> int:
        """How many numbers of a compact row it makes."""
        return 1

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it makes."""
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def compact(self, table: Table) -> NDArray[np.float64]:
        """The column standardised, (n,), with NaN where a value is missing."""
        values = _numbers(table, self.name)
        if self.date != (table.types[self.name] == "date") and table.types[self.name] != "missing":
            raise wrong_type(table, self.name, "dates, as in training" if self.date else "numbers, as in training")
        odd = self.boolean & ~(np.isnan(values) | np.isin(values, (0, 1)))
        if odd.any():
            got = Described(f"{values[odd.argmax()]} at row {table.start + int(odd.argmax())}")
            raise bad_argument(OWNER, f"column {self.name!r}", "true or false, as in training", got)
        missing = np.isnan(values)
        if missing.any() and not self.indicator:
            consequence = f"the median {self.fill:g} is taken"
            warnings.warn(ColumnWarning(self.name, int(missing.sum()), consequence), stacklevel=users_line())
        return (values - self.centre) / self.scale


@dataclass(frozen=True)
class CategoryRule:
    """A code per value seen at training: its place among `values`, then among `rare`.

    As features, one indicator per value, one for all `other` rare ones, one for missing values if training had any.
    """

    name: str
    values: tuple[str, ...]
    other: bool
    indicator: bool
    declared: bool
    unknown: Unknown
    rare: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers of a compact row it makes."""
        return 1

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it makes."""
        extra = [f"{self.name} other"] * self.other + [f"{self.name} missing"] * self.indicator
        return (*(f"{self.name}={value}" for value in self.values), *extra)

    def compact(self, table: Table) -> NDArray[np.float64]:
        """The codes (n,): NaN where a value is missing, −1 with a warning, or an error, where training never saw it."""
        if not self.declared and table.types[self.name] not in ("category", "text", "missing"):
            raise wrong_type(table, self.name, "text, as in training")
        texts = as_text(column_values(table, self.name))
        missing = np.array([text is None for text in texts], dtype=bool)
        place: Mapping[Any, int] = {value: code for code, value in enumerate((*self.values, *self.rare))}
        codes = np.array([place.get(text, -1) for text in texts], dtype=np.float64)
        new = (codes < 0) & ~missing
        if new.any() and not self.other:
            self._meet(texts[new], table.start + int(new.argmax()))
        if missing.any() and not self.indicator:
            warnings.warn(ColumnWarning(self.name, int(missing.sum()), ZEROS), stacklevel=users_line())
        codes[missing] = np.nan
        return codes

    def _meet(self, new: NDArray[np.object_], row: int) -> None:
        if self.unknown == "error":
            got = Described(f"{new[0]!r} at row {row}")
            raise bad_argument(OWNER, f"column {self.name!r}", f"one of {list(self.values)[:5]}", got)
        warnings.warn(ColumnWarning(self.name, len(new), ZEROS, frozenset(new)), stacklevel=users_line())


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
    centre, date = float(filled.mean()), table.types[name] == "date"
    return NumberRule(name, False, fill, centre, 1.0 if constant else spread, bool(missing.any()), date)


def fit_category(
    table: Table, name: str, *, declared: bool, max_categories: int, unknown: Unknown
) -> CategoryRule | None:
    """What training rows say about a column of categories; None where it is constant or empty."""
    present = [text for text in as_text(column_values(table, name)) if text is not None]
    indicator = len(present) < len(table)
    counts = Counter(present)
    if not counts or (len(counts) == 1 and not indicator):
        return None
    if len(counts) <= max_categories:
        return CategoryRule(name, tuple(sorted(counts)), False, indicator, declared, unknown)
    ordered = sorted(counts, key=lambda text: (-counts[text], text))
    most, rare = ordered[:max_categories], ordered[max_categories:MAX_CODES]
    warnings.warn(
        f"column {name!r} has {len(counts)} categories; the {max_categories} most frequent are kept, "
        f"the rest ({len(present) - sum(counts[text] for text in most)} rows) is one category 'other', except to trees",
        stacklevel=users_line(),
    )
    return CategoryRule(name, tuple(sorted(most)), True, indicator, declared, unknown, tuple(rare))


def are_ids(texts: Sequence[str], max_categories: int) -> bool:
    """Whether the values of a column hardly ever repeat, so that they are no categories."""
    return len({*texts}) > max(max_categories, len(texts) / 2)


def column_values(table: Table, name: str) -> NDArray[Any]:
    """The values of a column, or one error where it is missing or of a type that cannot be used."""
    if name not in table.types:
        raise bad_argument(OWNER, f"column {name!r}", "there, as in training", Described("a table without it"))
    if name not in table.values:
        raise wrong_type(table, name, "numbers, booleans, dates or categories")
    return table.values[name]


def _numbers(table: Table, name: str) -> NDArray[np.float64]:
    values = column_values(table, name)
    if table.types[name] in ("category", "text"):
        raise wrong_type(table, name, "numbers, as in training")
    infinite = np.isinf(values)
    if infinite.any():
        got = Described(f"infinity at row {table.start + int(infinite.argmax())}")
        raise bad_argument(OWNER, f"column {name!r}", "finite or missing", got)
    return values


def wrong_type(table: Table, name: str, allowed: str) -> Exception:
    """The error for a column of another type than in training."""
    shown = {"category": "text", "text": "text", "number": "numbers", "bool": "booleans", "date": "dates"}
    kind = table.types[name]
    return bad_argument(OWNER, f"column {name!r}", allowed, Described(shown.get(kind, f"type {kind}")))
