"""From tables to float32 rows: fitted on the training rows, stored with the model, applied batch by batch.

A table becomes *compact* rows, one number per column, which trees take as they are, and *features*, which networks and
linear models take.
"""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, Batch, Table, load
from pucl.data.own.dates import date_of
from pucl.data.own.expand import Expand
from pucl.data.own.opening import open_rows
from pucl.data.own.rules import CategoryRule, NumberRule, Unknown, are_ids, fit_category, fit_number
from pucl.data.own.text_rule import Rule, TextRule, fit_text, is_free_text, present
from pucl.data.own.texts import TYPE
from pucl.errors import Described, InputError, bad_argument, check_count, is_number, signed_by, some, users_line
from pucl.texts import HASHED, Arrays, check_encoder

VERSION = 1
OTHER_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}(\D|$)")  # a date in a form that is not read


@dataclass(frozen=True)
class TableTransform:
    """One rule per column, in the order of the training table.

    Numbers are standardised, and so are dates, in days; missing ones take the median, with an indicator if training had
    any. Booleans are 0 and 1. Categories are one-hot. Texts become vectors by a text encoder. Constant columns and ids
    are left out. Infinity is refused.
    """

    rules: tuple[Rule, ...]
    dropped: tuple[str, ...]

    @classmethod
    @signed_by("TableTransform")
    def fit(
        cls,
        rows: Any,
        *,
        categorical: Sequence[str] = (),
        max_categories: int = 100,
        unknown: Unknown = "zeros",
        text_columns: Sequence[str] = (),
        text_encoder: str = HASHED,
        download: bool = False,
    ) -> "TableTransform":
        """Learn the rules from training rows.

        Args:
            rows: what `read` returned, a `Table`, or a frame whose columns are all features.
            categorical: columns that hold categories although they hold numbers; whole numbers are numeric otherwise.
            max_categories: a column with more categories keeps the most frequent and groups the rest as 'other'.
            unknown: what a category that training never saw becomes: ``"zeros"`` (with a warning) or an ``"error"``.
            text_columns: columns that hold text; others are taken for text if their values have four words or more on
                average and more than half of them, or more than `max_categories`, differ.
            text_encoder: a registered text encoder, or one that you already have: ``"st:NAME"``, ``"hf:ORG/NAME"``.
            download: whether weights of a text encoder that are not on this machine may be downloaded.
        """
        if unknown not in get_args(Unknown):
            raise bad_argument(OWNER, "unknown", "'zeros' or 'error'", unknown)
        check_count(OWNER, "max_categories", max_categories)
        table = _as_table(rows)
        _check_named(table, categorical=categorical, text_columns=text_columns)
        encoder = check_encoder(text_encoder, owner=OWNER)
        rules: dict[str, Rule | None] = {}
        ids: dict[str, str] = {}
        for name in table.types:
            kind = _kind_of(table, name, categorical, text_columns, max_categories)
            if kind == "ids":
                ids[name], rules[name] = next(filter(None, present(table, name))), None
            elif kind == "text":
                rules[name] = fit_text(table, name, encoder=encoder, download=download)
            elif kind == "category":
                declared = name in categorical
                rules[name] = fit_category(
                    table, name, declared=declared, max_categories=max_categories, unknown=unknown
                )
            else:
                rules[name] = fit_number(table, name)
        kept = tuple(rule for rule in rules.values() if rule is not None)
        dropped = tuple(name for name, rule in rules.items() if rule is None)
        _explain(table, dropped, ids)
        return cls(kept, dropped)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it needs."""
        return tuple(rule.name for rule in self.rules)

    @property
    def categorical(self) -> tuple[str, ...]:
        """The columns it takes as categories."""
        return tuple(rule.name for rule in self.rules if isinstance(rule, CategoryRule))

    @property
    def texts(self) -> tuple[TextRule, ...]:
        """The rules of columns of text."""
        return tuple(rule for rule in self.rules if isinstance(rule, TextRule))

    @property
    def read_as_text(self) -> tuple[str, ...]:
        """The columns of a CSV file that are read as text even where they look like numbers."""
        return (*self.categorical, *(rule.name for rule in self.texts))

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

        A column of text has several, its vector, which is never NaN.
        A category that training never saw has the code −1. Errors and `strict` are as for `apply`.
        """
        table = _as_table(rows)
        known = {*self.columns, *self.dropped}
        extra = [name for name in table.types if name not in known]
        if strict and extra:
            got = Described(f"column {extra[0]!r}")
            raise bad_argument(OWNER, "the table", "without columns that training did not have", got)
        ends = np.cumsum([rule.width for rule in self.rules])
        columns = np.empty((len(table), ends[-1]), dtype=np.float32)
        with np.errstate(over="ignore"):
            for rule, end in zip(self.rules, ends, strict=True):
                columns[:, end - rule.width : end] = rule.compact(table).reshape(len(table), rule.width)
        bad = np.isinf(columns).any(axis=1)
        if bad.any():
            got = Described(f"infinity at row {table.start + int(bad.argmax())}")
            raise bad_argument(OWNER, "the standardised table", "finite", got)
        return columns

    def to_json(self) -> str:
        """Everything that was learnt but the `arrays` of texts; `from_json` gives back an equal transform."""
        rules = [{"kind": _kind(rule), **_content(rule)} for rule in self.rules]
        content = {"version": VERSION, "dropped": self.dropped, "rules": rules}
        return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)

    @property
    def arrays(self) -> Arrays:
        """What the text encoders have learnt, by the number of their rule."""
        rules = [(j, rule) for j, rule in enumerate(self.rules) if isinstance(rule, TextRule)]
        return {f"{j}.{name}": array for j, rule in rules for name, array in rule.arrays.items()}

    @classmethod
    @signed_by("TableTransform")
    def from_json(cls, text: str, arrays: Arrays | None = None) -> "TableTransform":
        """The transform that `to_json` wrote; without its `arrays` it cannot be applied where there are texts."""
        try:
            content = json.loads(text)
            if content["version"] != VERSION:
                raise bad_argument(OWNER, "version of the table transform", str(VERSION), content["version"])
            transform = cls(tuple(_rule(**entry) for entry in content["rules"]), tuple(content["dropped"]))
            return transform if arrays is None else replace(transform, rules=_with_arrays(transform.rules, arrays))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this is not a stored table transform: {error}", owner=OWNER) from None


def _check_named(table: Table, **named: Sequence[str]) -> None:
    """Columns that the user names are there, and are named for one purpose."""
    for argument, names in named.items():
        if isinstance(names, str):
            raise bad_argument(OWNER, argument, "a list of columns", names)
        absent = [name for name in names if name not in table.types]
        if absent:
            raise bad_argument(OWNER, argument, f"columns of the table ({some(table.types)})", absent[0])
    both = sorted({*named["categorical"]} & {*named["text_columns"]})
    if both:
        raise bad_argument(OWNER, "text_columns", "columns that are not in categorical", both[0])


def _kind_of(
    table: Table, name: str, categorical: Sequence[str], text_columns: Sequence[str], max_categories: int
) -> str:
    """What a column is taken for: ``number``, ``category``, ``text`` or ``ids``."""
    kind = table.types[name]
    if name in categorical:
        return "category"
    if name in text_columns or kind == TYPE:
        return "text"
    if kind != "category":
        return "number"
    texts = [text for text in present(table, name) if text]
    if is_free_text(texts, max_categories):
        return "text"
    return "ids" if are_ids(texts, max_categories) else "category"


def _explain(table: Table, dropped: Sequence[str], ids: Mapping[str, str]) -> None:
    """Say which columns are left out; an error if that is all of them."""
    if len(dropped) == len(table.types):
        got = Described("constant or empty columns, texts without a common word, and ids only")
        raise bad_argument(OWNER, "the table", "columns with at least two different values", got)
    constant = [name for name in dropped if name not in ids and date_of(name) is None]
    if constant:
        warnings.warn(f"constant columns are dropped: {some(map(repr, constant))}", stacklevel=users_line())
    for name, example in ids.items():
        if OTHER_DATE.match(example):
            reason = f"its dates, such as {example[:30]!r}, are not written as 2024-12-31 (08:30)"
        else:
            shown = f"such as {example[:30]!r}; categorical= takes it as categories, text_columns= as text"
            reason = f"it holds names or ids, {shown}"
        warnings.warn(f"column {name!r} is left out: {reason}", stacklevel=users_line())


def _content(rule: Rule) -> dict[str, Any]:
    return rule.to_dict() if isinstance(rule, TextRule) else asdict(rule)


def _with_arrays(rules: tuple[Rule, ...], arrays: Arrays) -> tuple[Rule, ...]:
    """The rules with the text encoders whose arrays were stored."""
    loaded: list[Rule] = []
    for j, rule in enumerate(rules):
        own = {name.removeprefix(f"{j}."): array for name, array in arrays.items() if name.startswith(f"{j}.")}
        loaded.append(rule.with_arrays(own) if isinstance(rule, TextRule) else rule)
    return tuple(loaded)


def _kind(rule: Rule) -> str:
    return "number" if isinstance(rule, NumberRule) else "text" if isinstance(rule, TextRule) else "category"


def _rule(*, kind: str, **entry: Any) -> Rule:
    """The rule that was stored, or a ValueError where it was tampered with."""
    if kind == "number":
        rule: Rule = NumberRule(**entry)
    elif kind == "text":
        rule = TextRule(**entry)
    else:
        texts = {name: tuple(entry.get(name, ())) for name in ("values", "rare")}
        rule = CategoryRule(**{**entry, **texts})
    if isinstance(rule, NumberRule):
        sound = all(map(is_number, (rule.fill, rule.centre, rule.scale))) and rule.scale > 0
        flags = [rule.boolean, rule.indicator, rule.date]
    elif isinstance(rule, TextRule):
        sound = isinstance(rule.encoder, str) and isinstance(rule.dimensions, int) and rule.dimensions > 0
        flags = [rule.indicator]
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
