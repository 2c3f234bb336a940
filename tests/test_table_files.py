"""Tables in many files: folders and patterns are one table in the order of the names; files that do not fit."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from own_data_examples import IDS, S, X, loaded, table_file, write_csv
from pucl.data.own import batches, read
from pucl.errors import InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
TABLE = pa.table({"id": IDS, "a": X[:, 0], "b": X[:, 1], "colour": ["red", "blue", None] * 4, "label": S.astype(int)})
CUTS = (0, 3, 3, 9, 12)  # of which one part is empty


def write_parts(folder: Path, table: Any = TABLE, cuts: tuple[int, ...] = CUTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for k, (start, stop) in enumerate(pairwise(cuts)):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{k}.parquet")
    return folder


def refused(folder: Path, message: str, **options: Any) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(folder, **{"label": "label", **options}).load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["parts", "parts/*.parquet", "parts/**/*.parquet", "par*/part-?.parquet"])
def test_many_files_are_one_table(tmp_path: Path, source: str) -> None:
    write_parts(tmp_path / "parts")
    (tmp_path / "parts" / "_SUCCESS.csv").write_text("of Spark\n", encoding="utf-8")
    one = read(table_file(tmp_path, ".parquet"), label="label", id_column="id")
    many = read(tmp_path / source, label="label", id_column="id")
    assert many.schema == one.schema and many.ids.tolist() == IDS
    np.testing.assert_array_equal(many.s, one.s)
    for name, values in loaded(one).values.items():
        np.testing.assert_array_equal(loaded(many).values[name], values)
    assert [i for batch in batches(tmp_path / source, batch_size=5, id_column="id") for i in batch.ids] == IDS


def test_columns_may_come_in_another_order_and_with_wider_numbers(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "parts", TABLE, (0, 6))
    other = TABLE.slice(6).select(["label", "colour", "b", "a", "id"])
    places = other.schema.get_field_index("a"), other.schema.get_field_index("colour")
    other = other.set_column(places[0], "a", other["a"].cast(pa.float64()))
    other = other.set_column(places[1], "colour", pa.nulls(6))
    pq.write_table(other, folder / "part-9.parquet")
    rows = loaded(read(folder, label="label", id_column="id"))
    np.testing.assert_allclose(rows.values["a"], X[:, 0])
    assert rows.values["colour"].tolist() == ["red", "blue", None] * 2 + [None] * 6


def test_dates_of_several_files_have_their_parts(tmp_path: Path) -> None:
    days = np.datetime64("2024-02-29T07:30", "ms") + np.arange(12) * np.timedelta64(1, "D")
    when = pa.array(days)
    folder = write_parts(tmp_path / "parts", TABLE.append_column("when", when), (0, 7))
    finer = TABLE.append_column("when", when.cast(pa.timestamp("us"))).slice(7)
    pq.write_table(finer, folder / "part-9.parquet")
    values = loaded(read(folder, label="label", id_column="id")).values
    assert values["when: hour"].tolist() == [7] * 12 and values["when: month"].tolist() == [2] + [3] * 11


def test_text_of_the_first_csv_file_is_text_in_all(tmp_path: Path) -> None:
    for k, code in enumerate(("A7", "12")):
        write_csv(tmp_path / f"{k}.csv", [["code", "a", "label"], *[[code, i / 2, i % 2] for i in range(4)]])
    assert loaded(read(tmp_path, label="label")).values["code"].tolist() == ["A7"] * 4 + ["12"] * 4
    write_csv(tmp_path / "0.csv", [["code", "a", "label"], [1, 2, 0]])
    write_csv(tmp_path / "1.csv", [["code", "a", "label"], ["A7", 2, 1]])
    refused(tmp_path, "column 'code' must be in every file, .*; got number in 0.csv, category in 1.csv")


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "parts")
    last = folder / "part-3.parquet"
    for table, message in (
        (TABLE.drop_columns("label"), "column 'label' must be in every file, .*; got none in part-3.parquet"),
        (TABLE.drop_columns("b"), "column 'b' must be in every file, .*; got none in part-3.parquet"),
        (TABLE.append_column("new", TABLE["a"]), "column 'new' .*; got none in part-0.parquet, one in part-3.parquet"),
        (
            TABLE.set_column(1, "a", TABLE["id"]),
            "column 'a' must be in every file, of the type it has in part-0.parquet; "
            "got number in part-0.parquet, category in part-3.parquet",
        ),
    ):
        pq.write_table(table, last)
        refused(folder, message)
    last.write_bytes(b"nothing of the kind")
    refused(folder, "part-3.parquet cannot be read")


def test_sources_that_match_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    refused(Path("*.parquet"), r"source must be a pattern that matches files .*; got '\*.parquet'")
    refused(tmp_path / "empty", "a folder of images")
    write_parts(tmp_path / "none", TABLE, (0, 0, 0))
    refused(tmp_path / "none", "none must be a table with rows; got an empty one")


def test_a_file_that_disappears_while_it_is_read(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "parts")
    parts = batches(folder, batch_size=2)
    next(parts)
    (folder / "part-3.parquet").unlink()
    with pytest.raises(InputError, match="source must be a file that exists; got .*part-3.parquet$"):
        list(parts)


def test_pictures_and_texts_come_before_tables_in_a_folder(tmp_path: Path) -> None:
    write_parts(tmp_path)
    (tmp_path / "a.txt").write_text("a letter", encoding="utf-8")
    (tmp_path / "b.txt").write_text("another", encoding="utf-8")
    assert read(tmp_path, positives=["a.txt"]).columns == ("text",)
