"""Leaks of the label among the rows of a fit: found once, each with a warning."""

import warnings

from torch import Tensor

from pucl.data.own import TableTransform
from pucl.errors import RunWarning, users_line
from pucl.models.schema import Schema
from pucl.ranking.bags import Bools
from pucl.selection import Leaks, find_leaks


def leaks_of(rows: Tensor, labelled: Bools, schema: Schema, negative: Bools | None, seed: int) -> Leaks:
    """Leaks of the label, each with a warning."""
    transform, expand = schema.transform, schema.expand
    leaks = find_leaks(
        rows.numpy(), labelled, names=None if transform is None else _column_names(transform),
        categories=() if expand is None else expand.categories, negative=negative, seed=seed,
    )  # fmt: skip
    for message in leaks.messages:
        warnings.warn(message, RunWarning, stacklevel=users_line())
    return leaks


def _column_names(transform: TableTransform) -> list[str]:
    """The name of every column of compact rows; a rule that makes several has its name on each."""
    return [rule.name for rule in transform.rules for _ in range(getattr(rule, "width", 1))]
