"""A sheet with rows of every kind, for tests of its two forms."""

from collections.abc import Sequence

import numpy as np

from pucl.review.picking import WHY
from pucl.review.sheet import SheetRow, as_page


def sheet_of(ids: Sequence[str], values: dict[str, str] | None = None, picture: str | None = None) -> list[SheetRow]:
    why = list(WHY.values())
    shown = {"age": "40", "text": "some words"} if values is None else values
    return [SheetRow(one, why[k % len(why)], k - 1.5, shown, picture) for k, one in enumerate(ids)]


def page_of(rows: Sequence[SheetRow], name: str = "sheet-0001") -> bytes:
    return as_page(name, rows, folder="review", title="customers.csv")


def cloud(n: int, *, seed: int = 0, far: float = 0.0) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return (np.random.default_rng(seed).normal(size=(n, 4)) + far).astype(np.float32)
