"""Rows with extreme numbers and odd labels: what every component is tried on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

N, D = 90, 5  # rows and columns, where a case does not say otherwise
MANY = 100_000  # times that one row is repeated
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Case:
    """Rows (n, d) of an array or a tensor, or a frame, and PU labels (n,)."""

    rows: Any
    s: NDArray[np.bool_]


def plain(n: int = N, d: int = D, *, labelled: int = 20) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Two Gaussian classes, half positive; the first rows are labelled."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, d))
    rows[: max(n // 2, labelled), 0] += 4.0
    return rows, np.arange(n) < labelled


def _changed(change: Callable[[NDArray[Any]], Any]) -> Callable[[], Case]:
    def case() -> Case:
        rows, s = plain()
        return Case(change(rows), s)

    return case


def _with_cell(value: float, dtype: Any = np.float64) -> Callable[[], Case]:
    def change(rows: NDArray[Any]) -> Any:
        rows[17, 2] = value
        return rows.astype(dtype)

    return _changed(change)


def _with_column(column: Any) -> Callable[[], Case]:
    def change(rows: NDArray[Any]) -> Any:
        rows[:, 1] = column
        return rows

    return _changed(change)


def _labelled(labelled: int, n: int = N) -> Callable[[], Case]:
    return lambda: Case(*plain(n, labelled=labelled))


def _repeated(times: int) -> Case:
    """Ordinary rows, and one of them again and again."""
    rows, s = plain()
    return Case(np.concatenate([rows, np.repeat(rows[-1:], times, axis=0)]), np.concatenate([s, np.zeros(times, bool)]))


def _two_rows() -> Case:
    """P is one row again and again, U another."""
    s = np.arange(N) < 20
    return Case(np.where(s[:, None], 1.0, -1.0) * np.ones((N, D)), s)


def _one_mode() -> Case:
    rows = np.random.default_rng(1).standard_normal((N, D))
    return Case(rows, np.arange(N) < 20)


def _scales(rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(rows * np.array([1e30, 1e-30, 1.0, 1e15, 1e-15]))


def _missing_rows(rows: NDArray[Any]) -> NDArray[Any]:
    rows[3] = np.nan
    return rows


def _missing_column(rows: NDArray[Any]) -> NDArray[Any]:
    rows[:, 1] = np.nan
    return rows


CASES: dict[str, Callable[[], Case]] = {
    "plain": _changed(lambda rows: rows),
    "float32": _changed(lambda rows: rows.astype(np.float32)),
    "float16": _changed(lambda rows: rows.astype(np.float16)),
    "bfloat16": _changed(lambda rows: torch.from_numpy(rows).bfloat16()),
    "half tensor": _changed(lambda rows: torch.from_numpy(rows).half()),
    "longdouble": _changed(lambda rows: rows.astype(np.longdouble)),
    "int64": _changed(lambda rows: (rows * 10).astype(np.int64)),
    "int8": _changed(lambda rows: (rows * 10).clip(-100, 100).astype(np.int8)),
    "uint64 near 2^64": _changed(lambda rows: np.uint64(2**64 - 10_000) + (rows * 100 + 2000).astype(np.uint64)),
    "bool": _changed(lambda rows: rows > 0),
    "big-endian": _changed(lambda rows: rows.astype(">f8")),
    "Fortran order, read-only": _changed(lambda rows: _frozen(np.asfortranarray(rows))),
    "every other row, backwards": _changed(lambda rows: np.repeat(rows, 2, axis=0)[::-2]),
    "denormal float32": _changed(lambda rows: (rows * 1e-40).astype(np.float32)),
    "denormal float64": _changed(lambda rows: rows * 1e-312),
    "1e-30": _changed(lambda rows: rows * 1e-30),
    "1e30": _changed(lambda rows: rows * 1e30),
    "near the float32 maximum": _changed(lambda rows: rows / np.abs(rows).max() * LARGEST),
    "beyond float32": _changed(lambda rows: rows * 1e200),
    "near the float64 maximum": _changed(lambda rows: rows / np.abs(rows).max() * np.finfo(np.float64).max),
    "mixed scales": _changed(_scales),
    "one cell 1e30": _with_cell(1e30),
    "one cell 1e30, float32": _with_cell(1e30, np.float32),
    "one cell 1e200": _with_cell(1e200),
    "offset 1e8": _changed(lambda rows: rows + 1e8),
    "offset 1e8, float32": _changed(lambda rows: (rows + 1e8).astype(np.float32)),
    "offset 1e15": _changed(lambda rows: rows + 1e15),
    "no variance after standardising": _changed(lambda rows: 1 + rows * 1e-9),
    "a constant column": _with_column(7.0),
    "a constant column 1e30": _with_column(1e30),
    "a column constant but for one": _with_column((np.arange(N) == 40) * 1.0),
    "a column constant but for 1e-30": _with_column((np.arange(N) == 40) * 1e-30),
    "two equal columns": _changed(lambda rows: rows[:, [0, 0, 1, 1, 2]]),
    "one column": _changed(lambda rows: rows[:, :1]),
    "more columns than rows": lambda: Case(*plain(60, 200)),
    "duplicate rows": _changed(lambda rows: rows[np.arange(N) // 2 % 20 + 20 * (np.arange(N) % 2)]),
    "P and U share rows": _changed(lambda rows: rows[np.arange(N) % 20]),
    "one row repeated 2000 times": partial(_repeated, 2000),
    "one mode": _one_mode,
    "two different rows": _two_rows,
    "one row differs": _changed(lambda rows: np.where((np.arange(N) == 40)[:, None], rows, 1.0)),
    "one labelled row differs": _changed(lambda rows: np.where((np.arange(N) == 4)[:, None], rows, 1.0)),
    "zero rows": _changed(lambda rows: rows * (np.arange(N) % 3 > 0)[:, None]),
    "1 labelled row": _labelled(1),
    "2 labelled rows": _labelled(2),
    "3 labelled rows": _labelled(3),
    "99 % labelled rows": _labelled(297, 300),
    "2 unlabelled rows": _labelled(N - 2),
    "1 unlabelled row": _labelled(N - 1),
    "4 rows": _labelled(2, 4),
    "3 rows": _labelled(1, 3),
    "2 rows": _labelled(1, 2),
    "all columns constant": _changed(np.ones_like),
    "all zero": _changed(np.zeros_like),
    "NaN in one row": _with_cell(np.nan),
    "inf in one row": _with_cell(np.inf),
    "-inf in one row": _with_cell(-np.inf, np.float32),
    "one row missing": _changed(_missing_rows),
    "a column missing": _changed(_missing_column),
    "only missing values": _changed(lambda rows: np.full_like(rows, np.nan)),
}


# Only for what is to be tried on many rows: minutes for some, and a loss of all pairs would take days.
LARGE: dict[str, Callable[[], Case]] = {"one row repeated 100 000 times": partial(_repeated, MANY)}


def _frozen(rows: NDArray[Any]) -> NDArray[Any]:
    rows.flags.writeable = False
    return rows


@cache
def frames() -> dict[str, Callable[[], Case]]:
    """Cases that only a table can be."""
    import pandas as pd

    rng = np.random.default_rng(0)
    rows, s = plain()
    words = np.array(["red", "green", "blue"], dtype=object)[rng.integers(0, 3, N)]

    def with_(**columns: Any) -> Callable[[], Case]:
        return lambda: Case(pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], **columns}), s)

    one, different = np.array(["same"] * N, dtype=object), np.array([f"id{i}" for i in range(N)], dtype=object)
    third = np.arange(N) % 3 == 0
    sometimes, same_or_none = (
        [None if gone else text for gone, text in zip(third, texts, strict=True)] for texts in (words, one)
    )
    return {
        "frame": with_(c=words),
        "a category of one value": with_(c=one),
        "a category of one value or none": with_(c=same_or_none),
        "a category with all values different": with_(c=different),
        "P is a category": with_(c=np.where(s, "yes", "no").astype(object)),
        "P is a number": with_(c=s * 1.0),
        "P is what is missing": with_(c=np.where(s, np.nan, rows[:, 2])),
        "a category with missing values": with_(c=sometimes),
        "empty texts": with_(c=np.where(np.arange(N) % 2 == 0, "", words).astype(object)),
        "only missing categories": with_(c=np.array([None] * N, dtype=object)),
        "numbers near 2^63": with_(c=np.int64(2**63 - 1) - np.arange(N)),
        "nullable integers": with_(c=pd.array([None if i % 7 == 0 else i for i in range(N)], dtype="Int64")),
        "nullable booleans": with_(c=pd.array([None if i % 7 == 0 else i % 2 == 0 for i in range(N)], dtype="boolean")),
        "dates from 1677 to 2262": with_(c=pd.to_datetime(["1677-09-22", "2262-04-10"] * (N // 2))),
        "one date": with_(c=pd.to_datetime(["2020-02-29"] * N)),
        "missing dates": with_(c=pd.to_datetime([None if i % 3 else "2020-02-29" for i in range(N)])),
        "float16 column": with_(c=rows[:, 2].astype(np.float16)),
        "denormal column": with_(c=rows[:, 2] * 1e-312),
        "column of 1e30": with_(c=rows[:, 2] * 1e30),
        "column of 1e-30": with_(c=rows[:, 2] * 1e-30),
        "column beyond float32": with_(c=rows[:, 2] * 1e200),
        "NaN column": with_(c=np.full(N, np.nan)),
        "inf in a column": with_(c=np.where(np.arange(N) == 17, np.inf, rows[:, 2])),
        "only categories of one value": lambda: Case(pd.DataFrame({"a": one, "b": one}), s),
        "a table of only missing values": lambda: Case(pd.DataFrame({"a": [None] * N, "b": [np.nan] * N}), s),
        "only ids": lambda: Case(pd.DataFrame({"a": different}), s),
    }
