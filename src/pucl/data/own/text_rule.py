"""How a column of text becomes numbers: learnt by a text encoder at training, stored as arrays beside the JSON."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, Table
from pucl.data.own.columns import as_text
from pucl.data.own.rules import CategoryRule, ColumnWarning, NumberRule, column_values, wrong_type
from pucl.data.own.texts import TYPE
from pucl.errors import InputError, users_line
from pucl.texts import Arrays, TextVectors
from pucl.texts.tokens import count_words

WORDS = 4  # a column of text has this many words on average; anything shorter is a name or an id
WITHOUT = "they count as texts without a known word"


@dataclass(frozen=True)
class TextRule:
    """Texts as vectors, with an indicator if some training texts were missing; an empty text is a missing one.

    Attributes:
        name: of the column.
        encoder: the name of the text encoder.
        dimensions: of the vectors.
        indicator: whether one more number says that the text is missing.
        vectors: the encoder; None where only the description of a model was read.
    """

    name: str
    encoder: str
    dimensions: int
    indicator: bool
    vectors: TextVectors | None = None

    @property
    def width(self) -> int:
        """How many numbers of a compact row it makes."""
        return self.dimensions + self.indicator

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it makes."""
        names = (f"{self.name}, dimension {j + 1}" for j in range(self.dimensions))
        return (*names, f"{self.name} missing") if self.indicator else tuple(names)

    def compact(self, table: Table) -> NDArray[np.float32]:
        """The vectors (n, k), and the indicator."""
        if self.vectors is None:
            raise InputError(f"the text encoder of column {self.name!r} was not read", owner=OWNER)
        if table.types.get(self.name, TYPE) not in (TYPE, "category", "missing"):
            raise wrong_type(table, self.name, "text, as in training")
        texts = present(table, self.name)
        missing = np.array([not text for text in texts], dtype=bool)
        if missing.any() and not self.indicator:
            warnings.warn(ColumnWarning(self.name, int(missing.sum()), WITHOUT), stacklevel=users_line())
        vectors = self.vectors.encode(texts)
        return np.concatenate([vectors, missing[:, None].astype(np.float32)], axis=1) if self.indicator else vectors

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds of it."""
        return {"name": self.name, "encoder": self.encoder, "dimensions": self.dimensions, "indicator": self.indicator}

    @property
    def arrays(self) -> Arrays:
        """What safetensors hold of it."""
        return {} if self.vectors is None else self.vectors.arrays

    def with_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> "TextRule":
        """The rule with the encoder whose arrays were stored."""
        vectors = TextVectors.load(self.encoder, arrays)
        if vectors.width != self.dimensions:
            raise ValueError(f"the text encoder of column {self.name!r} is damaged")
        return TextRule(self.name, self.encoder, self.dimensions, self.indicator, vectors)


Rule = NumberRule | CategoryRule | TextRule


def fit_text(table: Table, name: str, *, encoder: str, download: bool = False) -> TextRule | None:
    """What training rows say about a column of text; None where it is constant, empty, or no two texts share a word."""
    texts = present(table, name)
    if len({*texts}) < 2:
        return None
    vectors = TextVectors.fit(encoder, texts, download=download)
    return TextRule(name, vectors.name, vectors.width, not all(texts), vectors) if vectors.width else None


def is_free_text(texts: Sequence[str], max_categories: int) -> bool:
    """Whether a column holds text rather than categories, names or ids.

    Its values have `WORDS` words or more on average, and more than half of them, or more than `max_categories`, differ.
    """
    many = len({*texts}) > min(max_categories, len(texts) / 2)
    return many and sum(map(count_words, texts)) >= WORDS * len(texts)


def present(table: Table, name: str) -> list[str]:
    """The texts of a column, stripped; empty where one is missing."""
    return ["" if text is None else text.strip() for text in as_text(column_values(table, name))]
