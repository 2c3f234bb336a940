"""The training curves: every series of numbers in the history, thinned to what a chart can show."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pucl.report.markup import shorten
from pucl.report.reading import number, records

MOST_EPOCHS = 400
MOST_SERIES = 12
LONGEST_NAME = 60


def series(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Name, epochs and values of each series, the loss first; series with fewer than two numbers are left out."""
    rows = list(records(about, "history"))
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_EPOCHS)).round().astype(int))
    kept = [(number(rows[i].get("epoch")) or i + 1.0, rows[i]) for i in chosen]
    names = sorted({key for _, row in kept for key in row} - {"epoch"}, key=lambda key: (key != "loss", key))
    found = (_one(name, kept) for name in names)
    return [one for one in found if len(one["values"]) > 1][:MOST_SERIES]


def _one(name: str, kept: list[tuple[float, Mapping[str, Any]]]) -> dict[str, Any]:
    pairs = [(epoch, value) for epoch, row in kept if (value := number(row.get(name))) is not None]
    epochs, values = [epoch for epoch, _ in pairs], [float(f"{value:.6g}") for _, value in pairs]
    return {"name": shorten(name, LONGEST_NAME), "epochs": epochs, "values": values}
