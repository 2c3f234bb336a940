"""From compact rows of a table, one number per column, to features as networks take them."""

import torch
from torch import Tensor, nn

from pucl.data.own.rules import NumberRule
from pucl.data.own.text_rule import Rule, TextRule

NUMBER, CATEGORY, MISSING, OTHER = range(4)  # what a feature is made of
PIECE = 1 << 24  # features made at a time


class Expand(nn.Module):
    """Compact rows (n, c) to features (n, d): gaps filled, one indicator per category, indicators of missing values.

        number j     x_j, or the median where x_j is missing
        category v   1 if x_j = v, else 0
        missing      1 if x_j is missing, else 0
        other        1 if x_j is the code of a rare value or of one that training never saw, else 0

    where j is the column a feature is made of. Compact rows hold standardised numbers, codes of categories and vectors
    of texts, with NaN where a value is missing; see `TableTransform.compact`.

    Attributes:
        source: the column of every feature, (d,).
        kind: what every feature is made of, (d,): 0 a number, 1 a category, 2 a missing value, 3 any other category.
        value: the median of a number, the code of a category, or the first code that is rare, (d,).
    """

    source: Tensor
    kind: Tensor
    value: Tensor

    def __init__(self, source: Tensor, kind: Tensor, value: Tensor) -> None:
        super().__init__()
        for name, tensor in (("source", source), ("kind", kind), ("value", value)):
            self.register_buffer(name, tensor)
        self.plain = bool((kind == NUMBER).all())

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> "Expand":
        """Of the rules of a table transform, in the order of their features."""
        features: list[tuple[int, int, float]] = []
        j = 0  # the first number of the rule in a compact row
        for rule in rules:
            if isinstance(rule, TextRule):
                features += [(j + k, NUMBER, 0.0) for k in range(rule.width)]
                j += rule.width
                continue
            if isinstance(rule, NumberRule):
                features.append((j, NUMBER, (rule.fill - rule.centre) / rule.scale))
            else:
                features += [(j, CATEGORY, float(code)) for code in range(len(rule.values))]
                features += [(j, OTHER, float(len(rule.values)))] * rule.other
            features += [(j, MISSING, 0.0)] * rule.indicator
            j += 1
        source, kind, value = zip(*features, strict=True)
        return cls(torch.tensor(source), torch.tensor(kind), torch.tensor(value, dtype=torch.float32))

    @classmethod
    def identity(cls, width: int) -> "Expand":
        """For rows that are features already; missing values become 0."""
        return cls(torch.arange(width), torch.full((width,), NUMBER), torch.zeros(width))

    @property
    def categories(self) -> tuple[int, ...]:
        """The columns that hold codes of categories."""
        coded = (self.kind == CATEGORY) | (self.kind == OTHER)
        return tuple(sorted({*self.source[coded].tolist()}))

    def forward(self, rows: Tensor) -> Tensor:
        """Features (n, d) in float32."""
        if torch.compiler.is_compiling() or len(rows) * len(self.source) <= PIECE:
            return self._features(rows)
        return torch.cat([self._features(part) for part in torch.split(rows, max(1, PIECE // len(self.source)))])

    def _features(self, rows: Tensor) -> Tensor:
        x = rows[:, self.source]
        missing = torch.isnan(x)
        number = torch.where(missing, self.value, x)
        if self.plain:
            return number
        other = (x >= self.value) | (x < 0)  # both are False for NaN
        indicator = (self.kind == MISSING) & missing | (self.kind == OTHER) & other  # onnxruntime picks no booleans
        indicator = indicator | (self.kind == CATEGORY) & (x == self.value)
        return torch.where(self.kind == NUMBER, number, indicator.to(number.dtype))
