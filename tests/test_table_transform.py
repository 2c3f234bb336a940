"""Tables to float32 rows: types, missing values, new categories, the stored form."""

import datetime
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.data.own import TableTransform, batches, read
from pucl.errors import InputError

TRAIN: Mapping[str, Any] = {
    "age": [20.0, 30.0, None, 50.0, 60.0],
    "code": [1, 2, 1, 2, 3],
    "smoker": [True, False, True, True, False],
    "city": ["Rome", "Oslo", None, "Oslo", "Rome"],
    "same": [7, 7, 7, 7, 7],
}


def frame(**changes: Any) -> Any:
    """The training table with some columns changed; a column set to ... is left out."""
    pa = pytest.importorskip("pyarrow")
    return pa.table({name: values for name, values in {**TRAIN, **changes}.items() if values is not ...})


def fitted(**options: Any) -> TableTransform:
    with pytest.warns(UserWarning, match="constant columns are dropped: 'same'"):
        return TableTransform.fit(frame(), **options)


def test_features_of_every_type() -> None:
    transform = fitted(categorical=["code"])
    assert transform.columns == ("age", "code", "smoker", "city") and transform.categorical == ("code", "city")
    assert transform.features == (
        *("age", "age missing", "code=1", "code=2", "code=3", "smoker", "city=Oslo", "city=Rome", "city missing"),
    )
    out = transform.apply(frame())
    ages = np.array([20, 30, 40, 50, 60])
    np.testing.assert_allclose(out[:, 0], (ages - 40) / ages.std(), atol=1e-6)
    assert out.dtype == np.float32
    assert out[:, 1].tolist() == [0, 0, 1, 0, 0]
    assert out[:, 2:5].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert out[:, 5].tolist() == [1, 0, 1, 1, 0]
    assert out[:, 6:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]


def test_whole_numbers_are_numeric_unless_declared() -> None:
    out = fitted().apply(frame())
    assert out[:, 2].mean() == pytest.approx(0, abs=1e-6) and out[:, 2].std() == pytest.approx(1, abs=1e-6)
    declared = fitted(categorical=["code"])
    np.testing.assert_array_equal(declared.apply(frame(code=[1.0, 2.0, 1.0, 2.0, 3.0])), declared.apply(frame()))


def test_json_round_trip_is_exact() -> None:
    transform = fitted(categorical=["code"], unknown="error")
    again = TableTransform.from_json(transform.to_json())
    assert again == transform and again.to_json() == transform.to_json()
    np.testing.assert_array_equal(again.apply(frame()), transform.apply(frame()))
    for text in ("", "[]", "{}", '{"version": 1, "dropped": [], "rules": [{"kind": "number"}]}', "null", "[" * 100_000):
        with pytest.raises(InputError, match="not a stored table transform"):
            TableTransform.from_json(text)
    with pytest.raises(InputError, match="version of the table transform must be 1; got 2"):
        TableTransform.from_json(json.dumps({**json.loads(transform.to_json()), "version": 2}))


def test_tampered_json_is_refused() -> None:
    stored = json.loads(fitted().to_json())
    for key, value in (("scale", 0.0), ("scale", "1"), ("fill", None), ("kind", "code"), ("name", 3)):
        rules = [{**stored["rules"][0], key: value}, *stored["rules"][1:]]
        with pytest.raises(InputError, match="not a stored table transform"):
            TableTransform.from_json(json.dumps({**stored, "rules": rules}))


def test_batch_by_batch_equals_at_once(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(frame(s=[1, 0, 0, 1, 0]), tmp_path / "t.parquet", row_group_size=2)
    data = read(tmp_path / "t.parquet", label="s")
    with pytest.warns(UserWarning, match="constant"):
        transform = TableTransform.fit(data)
    parts = batches(tmp_path / "t.parquet", batch_size=2, columns=transform.columns)
    np.testing.assert_array_equal(np.concatenate([transform.apply(part) for part in parts]), transform.apply(data))


def test_new_category() -> None:
    new = frame(city=["Rome", "Lima", None, "Bern", "Rome"])
    with pytest.warns(UserWarning, match="column 'city': 'Bern', 'Lima' did not occur in training.* 0 in 2 rows"):
        out = fitted().apply(new)
    assert out[1, -3:].tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="column 'city' must be one of .*'Lima' at row 1"):
        fitted(unknown="error").apply(new)


def test_missing_where_training_had_none() -> None:
    with pytest.warns(UserWarning, match="column 'code' has missing values in 1 rows but had none in training"):
        out = fitted().apply(frame(code=[None, 2, 1, 2, 3]))
    assert out[0, 2] == fitted().apply(frame(code=[2, 2, 1, 2, 3]))[0, 2]
    with pytest.warns(UserWarning, match="column 'code' has missing"):
        assert fitted(categorical=["code"]).apply(frame(code=[None, 2, 1, 2, 3]))[0, 2:5].tolist() == [0, 0, 0]


def test_rare_categories_become_other() -> None:
    values = ["a"] * 6 + ["b"] * 5 + ["c", "d", "e"]
    table = pytest.importorskip("pyarrow").table({"k": values})
    with pytest.warns(UserWarning, match=r"column 'k' has 5 categories; the 2 most frequent .*rest \(3 rows\)"):
        transform = TableTransform.fit(table, max_categories=2)
    assert transform.features == ("k=a", "k=b", "k other")
    assert transform.apply(table).sum(axis=0).tolist() == [6, 5, 3]


def test_what_training_refuses() -> None:
    for column, message in (
        ({"z": [[1.0]] * 5}, "column 'z' must be .*type vector"),
        ({"age": [1e300, -1e300, 0.0, 1.0, 2.0]}, "column 'age' must be numbers small enough.* up to 1e[+]300"),
        ({"age": [1.0, 2.0, 3.0, np.inf, 4.0]}, "column 'age' must be finite or missing; got infinity at row 3"),
    ):
        with pytest.raises(InputError, match=message):
            TableTransform.fit(frame(**column))
    with pytest.raises(InputError, match="columns with at least two different values"):
        TableTransform.fit(pytest.importorskip("pyarrow").table({"a": [1, 1], "b": [None, None]}))
    for options in ({"categorical": ["nothing"]}, {"max_categories": 0}, {"unknown": "guess"}):
        with pytest.raises(InputError, match=next(iter(options))):
            TableTransform.fit(frame(), **options)
    with pytest.raises(InputError, match="rows must be a table"):
        TableTransform.fit(read(np.eye(3), positives=[0]))


def test_ids_are_left_out() -> None:
    names = pytest.importorskip("pyarrow").table({"id": [f"n{i}" for i in range(300)]})
    left = "column 'id' is left out: it holds names or ids, such as 'n0'; categorical= takes it as categories"
    with pytest.warns(UserWarning, match=left):
        transform = TableTransform.fit(names.append_column("x", [list(range(300))]))
    assert transform.dropped == ("id",) and transform.columns == ("x",)
    with pytest.raises(InputError, match="the table must be columns with at least two different values"):
        TableTransform.fit(names)
    with pytest.warns(UserWarning, match="column 'id' has 300 categories"):
        transform = TableTransform.fit(names, categorical=["id"])
    codes = transform.compact(names)[:, 0]
    assert sorted(codes) == list(range(300))  # trees see every category
    assert transform.apply(names).shape == (300, 101)  # networks the most frequent ones, and the others as one


def test_dates_are_days() -> None:
    days = [datetime.date(2020, 1, i) for i in (1, 2, 3, 4, 6)]
    transform = TableTransform.fit(frame(day=[*days[:4], None], same=...))
    again = TableTransform.from_json(transform.to_json())
    at = again.columns.index("day")
    column = again.compact(frame(day=days))[:, at]
    np.testing.assert_allclose(np.diff(column) / (column[1] - column[0]), [1, 1, 1, 2], rtol=1e-4)
    assert np.isnan(transform.compact(frame(day=[*days[:4], None]))[4, at])
    moments = [datetime.datetime(2020, 1, 1, 12 * i) for i in (0, 1)] * 2 + [datetime.datetime(2020, 1, 2)]
    np.testing.assert_allclose(
        np.diff(again.compact(frame(day=moments))[:, at])[0], (column[1] - column[0]) / 2, rtol=1e-4
    )
    with pytest.raises(InputError, match="column 'day' must be dates, as in training; got numbers"):
        transform.apply(frame(day=[1, 2, 3, 4, 5]))
    with pytest.raises(InputError, match="column 'age' must be numbers, as in training; got dates"):
        transform.apply(frame(day=days, age=days))


def test_compact_rows_hold_codes_and_gaps() -> None:
    table = frame(city=["a", None, "b", "a", "new"])
    transform = TableTransform.fit(frame(city=["a", None, "b", "a", "b"], same=...))
    with pytest.warns(UserWarning, match="'new' did not occur in training"):
        rows = transform.compact(table)
    codes = rows[:, transform.columns.index("city")]
    np.testing.assert_array_equal(codes, [0, np.nan, 1, 0, -1])
    features = transform.expand(torch.from_numpy(rows)).numpy()
    with pytest.warns(UserWarning, match="'new' did not occur in training"):
        np.testing.assert_array_equal(features, transform.apply(table))
    at = transform.features.index("city=a")
    np.testing.assert_array_equal(features[:, at : at + 3], [[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_what_prediction_refuses() -> None:
    transform = fitted()
    for column, message in (
        ({"age": ...}, "column 'age' must be there, as in training"),
        ({"age": list("abcde")}, "column 'age' must be numbers, as in training; got text"),
        ({"city": [1, 2, 3, 4, 5]}, "column 'city' must be text, as in training; got numbers"),
        ({"smoker": [0, 1, 2, 1, 0]}, "column 'smoker' must be true or false.* got 2.0 at row 2"),
        ({"code": [1.0, 2.0, 3.0, 1.0, -np.inf]}, "column 'code' must be finite or missing; got infinity at row 4"),
    ):
        with pytest.raises(InputError, match=message):
            transform.apply(frame(**column))


def test_columns_that_training_did_not_have() -> None:
    transform, wide = fitted(), frame(more=[1, 2, 3, 4, 5], same=...)
    np.testing.assert_array_equal(transform.apply(wide), transform.apply(frame()))
    transform.apply(frame(), strict=True)
    with pytest.raises(InputError, match="did not have; got column 'more'"):
        transform.apply(wide, strict=True)


def test_row_numbers_count_from_the_first_batch() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transform = TableTransform.fit(frame())
    *sound, last = batches(frame(code=[1.0, 2.0, 3.0, 1.0, np.inf]), batch_size=2, kind="table")
    assert [len(transform.apply(part)) for part in sound] == [2, 2]
    with pytest.raises(InputError, match="infinity at row 4"):
        transform.apply(last)
