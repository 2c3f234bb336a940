"""From tables to float32 rows: fitted on the training rows, stored with the model, applied batch by batch.

A table becomes *compact* rows, one number per column, which trees take as they are, and *features*, which networks and
linear models take.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, Batch, Table, load
from pucl.data.own.expand import Expand
from pucl.data.own.opening import open_rows
from pucl.data.own.rules import CategoryRule, NumberRule, Unknown, fit_category, fit_number, free_text
from pucl.errors import Described, InputError, bad_argument, check_count, is_number, signed_by

VERSION = 1


@dataclass(frozen=True)
class TableTransform:
    """One rule per column, in the order of the training table.

    Numbers are standardised, and so are dates, in days; missing ones take the median, with an indicator if training had
    any. Booleans are 0 and 1. Categories are one-hot. Constant columns and free text are left out. Infinity is refused.
    """

    rules: tuple[NumberRule | CategoryRule, ...]
    dropped: tuple[str, ...]

    @classmethod
    @signed_by("TableTransform")
    def fit(
        cls, rows: Any, *, categorical: Sequence[str] = (), max_categories: int = 100, unknown: Unknown = "zeros"
    ) -> "TableTransform":
        """Learn the rules from training rows.

        Args:
            rows: what `read` returned, a `Table`, or a frame whose columns are all features.
            categorical: columns that hold categories although they hold numbers; whole numbers are numeric otherwise.
            max_categories: a column with more categories keeps the most frequent and groups the rest as 'other'.
            unknown: what a category that training never saw becomes: ``"zeros"`` (with a warning) or an ``"error"``.
        """
        if unknown not in get_args(Unknown):
            raise bad_argument(OWNER, "unknown", "'zeros' or 'error'", unknown)
        check_count(OWNER, "max_categories", max_categories)
        table = _as_table(rows)
        absent = [name for name in categorical if name not in table.types]
        if absent:
            raise bad_argument(OWNER, "categorical", f"columns of the table ({', '.join(table.types)})", absent[0])
        rules: dict[str, NumberRule | CategoryRule | None] = {}
        texts: dict[str, str] = {}
        for name, kind in table.types.items():
            declared = name in categorical
            example = free_text(table, name, max_categories) if kind == "category" and not declared else None
            if example is not None:
                texts[name], rules[name] = example, None
            elif declared or kind == "category":
                rules[name] = fit_category(
                    table, name, declared=declared, max_categories=max_categories, unknown=unknown
                )
            else:
                rules[name] = fit_number(table, name)
        dropped = tuple(name for name, rule in rules.items() if rule is None)
        if len(dropped) == len(rules):
            got = Described("constant or empty columns and free text only")
            raise bad_argument(OWNER, "the table", "columns with at least two different values", got)
        constant = [name for name in dropped if name not in texts]
        if constant:
            warnings.warn(f"constant columns are dropped: {', '.join(map(repr, constant))}", stacklevel=2)
        for name, example in texts.items():
            shown = f"such as {example[:30]!r}; categorical= takes it as categories"
            warnings.warn(f"column {name!r} is left out: it holds free text or ids, {shown}", stacklevel=2)
        return cls(tuple(rule for rule in rules.values() if rule is not None), dropped)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it needs."""
        return tuple(rule.name for rule in self.rules)

    @property
    def categorical(self) -> tuple[str, ...]:
        """The columns it takes as categories; a CSV file to be scored is read with them as text."""
        return tuple(rule.name for rule in self.rules if isinstance(rule, CategoryRule))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it makes."""
        return tuple(name for rule in self.rules for name in rule.features)

    @signed_by("TableTransform")
    def apply(self, rows: Any, *, strict: bool = False) -> NDArray[np.float32]:
        """Features (n, d) of a `Table`, a `Batch`, a frame or what `read` returned.

        A column that is missing or of another type is an error; columns it does not know are ignored, unless `strict`.
        """
        with torch.no_grad():
            features: NDArray[np.float32] = self.expand(torch.from_numpy(self.compact(rows, strict=strict))).numpy()
        return features

    @property
    def expand(self) -> Expand:
        """From compact rows to features."""
        return Expand.of(self.rules)

    @signed_by("TableTransform")
    def compact(self, rows: Any, *, strict: bool = False) -> NDArray[np.float32]:
        """One number per column, (n, c): numbers standardised, categories as codes; NaN where a value is missing.

        A category that training never saw has the code −1. Errors and `strict` are as for `apply`.
        """
        table = _as_table(rows)
        extra = [name for name in table.types if name not in (*self.columns, *self.dropped)]
        if strict and extra:
            got = Described(f"column {extra[0]!r}")
            raise bad_argument(OWNER, "the table", "without columns that training did not have", got)
        columns = np.empty((len(table), len(self.rules)), dtype=np.float32)
        with np.errstate(over="ignore"):
            for j, rule in enumerate(self.rules):
                columns[:, j] = rule.compact(table)
        bad = np.isinf(columns).any(axis=1)
        if bad.any():
            got = Described(f"infinity at row {table.start + int(bad.argmax())}")
            raise bad_argument(OWNER, "the standardised table", "finite", got)
        return columns

    def to_json(self) -> str:
        """Everything that was learnt, as text; `from_json` gives back an equal transform."""
        rules = [{"kind": _kind(rule), **asdict(rule)} for rule in self.rules]
        content = {"version": VERSION, "dropped": self.dropped, "rules": rules}
        return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    @signed_by("TableTransform")
    def from_json(cls, text: str) -> "TableTransform":
        """The transform that `to_json` wrote."""
        try:
            content = json.loads(text)
            if content["version"] != VERSION:
                raise bad_argument(OWNER, "version of the table transform", str(VERSION), content["version"])
            return cls(tuple(_rule(**entry) for entry in content["rules"]), tuple(content["dropped"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this is not a stored table transform: {error}", owner=OWNER) from None


def _kind(rule: NumberRule | CategoryRule) -> str:
    return "number" if isinstance(rule, NumberRule) else "category"


def _rule(*, kind: str, **entry: Any) -> NumberRule | CategoryRule:
    """The rule that was stored, or a ValueError where it was tampered with."""
    if kind == "number":
        rule: NumberRule | CategoryRule = NumberRule(**entry)
    else:
        texts = {name: tuple(entry.get(name, ())) for name in ("values", "rare")}
        rule = CategoryRule(**{**entry, **texts})
    if isinstance(rule, NumberRule):
        sound = all(map(is_number, (rule.fill, rule.centre, rule.scale))) and rule.scale > 0
        flags = [rule.boolean, rule.indicator, rule.date]
    else:
        sound = kind == "category" and all(isinstance(value, str) for value in (*rule.values, *rule.rare))
        sound = sound and rule.unknown in get_args(Unknown)
        flags = [rule.other, rule.indicator, rule.declared]
    if not (sound and isinstance(rule.name, str) and all(isinstance(flag, bool) for flag in flags)):
        raise ValueError(f"the rule of column {rule.name!r} is damaged")
    return rule


def _as_table(rows: Any) -> Table:
    if isinstance(rows, Batch):
        rows = rows.rows
    elif hasattr(rows, "load"):
        rows = rows.load()
    elif not isinstance(rows, Table):
        rows = load(open_rows(rows, kind="table"))
    if not isinstance(rows, Table):
        raise bad_argument(OWNER, "rows", "a table", Described(f"a {type(rows).__name__}"))
    return rows
