"""Rows to look at as data of the page: ids, probabilities and feature values within a number of bytes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.models.evidence import Shown
from pucl.report.embed import numbers, size
from pucl.report.markup import shorten

ID_LENGTHS = (400, 200, 100, 50, 25, 12)
LONGEST_NAME = 60
LONGEST_VALUE = 80


def take(shown: Shown, kept: NDArray[np.bool_]) -> Shown:
    """The rows of `shown` that a mask (k,) keeps."""
    if kept.all():
        return shown
    chosen = np.flatnonzero(kept)
    return replace(
        shown,
        ids=tuple(shown.ids[i] for i in chosen),
        row=shown.row[chosen],
        probability=shown.probability[chosen],
        labelled=shown.labelled[chosen],
        pictures=None if shown.pictures is None else shown.pictures[chosen],
        values={name: tuple(column[i] for i in chosen) for name, column in (shown.values or {}).items()},
    )


def rows_json(shown: Shown, *, digits: int, most_columns: int, most: int) -> dict[str, Any]:
    """Ids, row numbers, probabilities, s and as many columns as fit; ids are shortened before columns are left out.

    Args:
        shown: the rows, with finite probabilities.
        digits: decimals of the probabilities.
        most_columns: columns kept at most.
        most: bytes that ids and columns may take together.
    """
    ids = _fitting(shown.ids, most)
    values = shown.values or {}
    kept = _columns(values, most_columns, most - size(ids))
    return {
        "id": ids,
        "row": shown.row.tolist(),
        "probability": numbers(shown.probability, digits),
        "labelled": shown.labelled.astype(int).tolist(),
        "columns": [name for name, _ in kept],
        "values": [column for _, column in kept],
        "columns_left_out": len(values) - len(kept),
    }


def _fitting(texts: Sequence[str], most: int) -> list[str]:
    """Texts as long as they may be together."""
    for longest in ID_LENGTHS:
        short = [shorten(text, longest) for text in texts]
        if size(short) <= most:
            return short
    return short


def _columns(values: dict[str, tuple[str, ...]], most_columns: int, most: int) -> list[tuple[str, list[str]]]:
    kept: list[tuple[str, list[str]]] = []
    for name, column in list(values.items())[:most_columns]:
        short = (shorten(name, LONGEST_NAME), [shorten(value, LONGEST_VALUE) for value in column])
        most -= size(short)
        if most < 0:
            break
        kept.append(short)
    return kept
