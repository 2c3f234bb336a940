"""Small tables of one's own in every format."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.data.own import OwnData

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)).astype(np.float32)
S = np.arange(12) < 4
IDS = [f"r{i:02d}" for i in range(12)]


def write_csv(path: Path, rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def table_file(tmp_path: Path, suffix: str) -> Path:
    """The same table (id, a, b, colour, label) in any format."""
    pa = pytest.importorskip("pyarrow")
    colours = ["red", "blue", None] * 4
    path = tmp_path / f"table{suffix}"
    if suffix == ".csv":
        body = [[i, *map(float, x[:2]), c or "", int(s)] for i, x, c, s in zip(IDS, X, colours, S, strict=True)]
        return write_csv(path, [["id", "a", "b", "colour", "label"], *body])
    columns = {"id": IDS, "a": X[:, 0], "b": X[:, 1], "colour": colours, "label": S.astype(int)}
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=5)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(table, path, chunksize=5)
    return path


def loaded(data: OwnData) -> Any:
    rows = data.load()
    assert sum(len(batch) for batch in data.batches(5)) == len(data) == len(rows)
    return rows
