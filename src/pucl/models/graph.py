"""What is exported to ONNX: rows as users have them to probabilities, as a module, and rows to try it with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.data.own import Table
from pucl.data.own.dates import part_of_days, source_of
from pucl.data.own.rules import CategoryRule, NumberRule
from pucl.data.own.text_rule import Rule
from pucl.models.model import Model, RowsToProbability
from pucl.models.schema import Schema

NEW = "a value that training never saw"


class Columns(nn.Module):
    """A table to compact rows (n, c), as its `TableTransform` makes them: numbers standardised, beside codes.

    Attributes:
        numbers: the names of the columns of numbers that it takes, (k,); a date stands for its parts, too.
        centre, scale: of the numbers in compact rows.
        order: where every column of the table stands among the numbers, followed by the codes, (c,).
    """

    centre: Tensor
    scale: Tensor
    order: Tensor

    def __init__(self, rules: tuple[Rule, ...], types: Mapping[str, str]) -> None:
        super().__init__()
        numbers = [rule for rule in rules if isinstance(rule, NumberRule)]
        for name in ("centre", "scale"):
            self.register_buffer(name, torch.tensor([getattr(rule, name) for rule in numbers], dtype=torch.float64))
        sources = [source_of(rule.name, types) for rule in numbers]
        self.numbers = tuple(dict.fromkeys(sources))
        self.made = [
            (self.numbers.index(source), rule.name.removeprefix(f"{source}: ") if rule.name != source else None)
            for source, rule in zip(sources, numbers, strict=True)
        ]
        self.categories = tuple(rule for rule in rules if isinstance(rule, CategoryRule))
        placed = sorted(range(len(rules)), key=lambda j: (isinstance(rules[j], CategoryRule), j))
        self.register_buffer("order", torch.tensor(placed).argsort())

    def forward(self, numbers: Tensor | None, codes: Tensor | None) -> Tensor:
        """Numbers (n, k) in float64 and codes (n, m) in float32, both with NaN where a value is missing."""
        parts = []
        if numbers is not None:
            made = [numbers[:, j] if part is None else _part(numbers[:, j], part) for j, part in self.made]
            parts = [((torch.stack(made, dim=1) - self.centre) / self.scale).to(torch.float32)]
        parts += [] if codes is None else [codes]
        return torch.cat(parts, dim=1)[:, self.order]


def _part(days: Tensor, which: str) -> Tensor:
    """`pucl.data.own.dates.part_of_days` in operators that ONNX has."""
    moment = (days * 86_400_000 + 0.5).floor()  # milliseconds
    day = (moment / 86_400_000).floor()
    if which == "hour":
        return ((moment - 86_400_000 * day) / 3_600_000).floor()
    if which == "weekday":
        return day + 3 - 7 * ((day + 3) / 7).floor()  # 1970 began on a Thursday
    since = day + 719_468  # days since 0000-03-01; a cycle of the calendar has 146,097 of them, 400 years
    of_cycle = since - 146_097 * (since / 146_097).floor()
    leap_days = (of_cycle / 1_460).floor() - (of_cycle / 36_524).floor() + (of_cycle / 146_096).floor()
    year = ((of_cycle - leap_days) / 365).floor()
    of_year = of_cycle - 365 * year - (year / 4).floor() + (year / 100).floor()
    from_march = ((5 * of_year + 2) / 153).floor()  # months have 30.6 days on average, from March on
    return from_march + 3 - 12 * (from_march / 10).floor()


class Graph(nn.Module):
    """What is exported: rows as users have them, with codes for categories → the probability of being positive, (n,).

    Attributes:
        inputs: the names of what it takes, in order.
        columns: of a table; None for other rows.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        transform = model.schema.transform
        self.columns = None if transform is None else Columns(transform.rules, model.schema.columns)
        self.scorer = RowsToProbability(model)
        self.low, self.span = model.schema.low, model.schema.span
        self.inputs = ["rows"]
        if self.columns is not None and self.columns.categories:
            self.inputs = [*["numbers"][: len(self.columns.numbers)], "codes"]

    def forward(self, rows: Tensor, codes: Tensor | None = None) -> Tensor:
        """Probabilities (n,); `rows` are numbers or, where a table has categories only, codes."""
        if self.columns is not None:
            rows = self.columns(None, rows) if self.inputs == ["codes"] else self.columns(rows, codes)
        elif (self.low, self.span) != (0.0, 1.0):
            rows = (rows - self.low) / self.span
        probability: Tensor = self.scorer(rows)
        return probability


@dataclass(frozen=True)
class Trial:
    """Rows to try a graph with.

    Attributes:
        content: as `Schema.encode` takes them.
        inputs: as the exported file takes them, by name; empty text where a category is missing.
    """

    content: Any
    inputs: dict[str, NDArray[Any]]

    def first(self) -> "Trial":
        """The first row alone."""
        content = self.content
        if isinstance(content, Table):
            content = Table(content.types, {name: column[:1] for name, column in content.values.items()}, 1)
        else:
            content = content[:1]
        return Trial(content, {name: rows[:1] for name, rows in self.inputs.items()})


def trial_rows(model: Model, graph: Graph, n: int) -> Trial:
    """Some rows like those of training; of tables, with values that are missing or new where that may be."""
    draw = torch.Generator().manual_seed(n)
    schema = model.schema
    if graph.columns is None:
        scaling = model.encoder.standardise if model.front is None else model.front.standardise
        rows = scaling.mean + scaling.scale * torch.randn(n, *schema.shape, generator=draw)
        if schema.kind == "image":
            rows = rows.clamp(0, 1) * graph.span + graph.low
        return Trial(rows.numpy(), {"rows": rows.numpy()})
    numbers: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for j, rule in enumerate(schema.transform.rules):  # type: ignore[union-attr]
        if isinstance(rule, NumberRule):
            noise = torch.randn(n, generator=draw, dtype=torch.float64).numpy()
            date = source_of(rule.name, schema.columns)
            if date != rule.name:
                days = numbers.setdefault(date, 20_000 + 400 * noise)
                numbers[rule.name] = part_of_days(days, rule.name.removeprefix(f"{date}: "))
                continue
            numbers[rule.name] = (noise > 0).astype(float) if rule.boolean else rule.centre + rule.scale * noise
            if rule.indicator:
                numbers[rule.name][j % n] = np.nan
        else:
            texts[rule.name] = _texts(rule, n, start=j)
    return Trial(_table(schema, numbers, texts), _inputs(graph, numbers, texts))


def _texts(rule: CategoryRule, n: int, *, start: int) -> NDArray[np.object_]:
    """Values of a category in turn, with one that is new where that is allowed, and one that is missing."""
    some: list[str | None] = [*rule.values[:3], *rule.rare[:1]]
    some += [NEW] * (rule.other or rule.unknown == "zeros") + [None] * rule.indicator
    return np.array([some[(start + i) % len(some)] for i in range(n)], dtype=object)


def _table(schema: Schema, numbers: dict[str, Any], texts: dict[str, Any]) -> Table:
    values = {name: numbers[name] if name in numbers else texts[name] for name in schema.needed}
    types = {name: schema.columns[name] for name in schema.needed}
    return Table(types, values, len(next(iter(values.values()))))


def _inputs(graph: Graph, numbers: dict[str, Any], texts: dict[str, Any]) -> dict[str, NDArray[Any]]:
    inputs: dict[str, NDArray[Any]] = {}
    if numbers:
        names = graph.columns.numbers  # type: ignore[union-attr]
        inputs[graph.inputs[0]] = np.stack([numbers[name] for name in names], axis=1)
    if texts:
        given = [["" if text is None else text for text in column] for column in texts.values()]
        inputs["categories"] = np.array(given, dtype=object).T
    return inputs
