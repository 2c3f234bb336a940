"""A sample drawn in one pass: which rows, whatever the order of files and batches, and what is said of all of them."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.data.own import OwnData, ReadOptions
from pucl.data.own.drawing import Source, draw
from pucl.data.own.row_keys import keys_of_ids, keys_of_rows
from pucl.data.own.table_rows import TableRows
from pucl.errors import InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
N, P = 900, 30
NAMES = [f"row {i}" for i in range(N)]
TABLE = pa.table(
    {
        "name": NAMES,
        "a": np.random.default_rng(0).normal(size=N).round(6),
        "colour": pa.array(["red", "blue", None] * (N // 3)).dictionary_encode(),
        "known": (np.arange(N) % (N // P) == 0).astype(int),
    }
)
BY_NAME: dict[str, Any] = {"label": "known", "id_column": "name"}


def write(folder: Path, *cuts: int, table: Any = TABLE, order: Any = None) -> Path:
    """The table in files, in which rows may come in another order."""
    folder.mkdir()
    table = table if order is None else table.take(pa.array(order))
    for k, (start, stop) in enumerate(zip((0, *cuts), (*cuts, N), strict=True)):
        pq.write_table(table.slice(start, stop - start), folder / f"{k}.parquet", row_group_size=70)
    return folder


def drawn(source: Path, n: int, *, seed: int = 0, **reading: Any) -> tuple[OwnData, Source]:
    options = ReadOptions(**{"label": "known", **reading})
    rows = options.open(source)
    assert isinstance(rows, TableRows)
    return draw(rows, options, n, seed=seed)


def test_keys_look_random_and_are_of_the_row_alone() -> None:
    numbers, names = np.arange(40_000), pa.array([f"{i}" for i in range(40_000)])
    of_ids = keys_of_ids(names, "id", 0)
    np.testing.assert_array_equal(of_ids, keys_of_ids(pa.array(numbers), "id", 0))
    np.testing.assert_array_equal(of_ids[7:99], keys_of_ids(names.slice(7, 92), "id", 0))
    np.testing.assert_array_equal(of_ids[:50], keys_of_ids(names[:50].dictionary_encode(), "id", 0))
    of_rows = keys_of_rows("a.parquet", 0, 40_000, 0)
    np.testing.assert_array_equal(of_rows[7:99], keys_of_rows("a.parquet", 7, 92, 0))
    others = (
        keys_of_ids(names, "id", 1),
        keys_of_rows("b.parquet", 0, 40_000, 0),
        keys_of_rows("a.parquet", 0, 40_000, 1),
    )
    for keys in (of_ids, of_rows, *others):
        assert len(np.unique(keys)) == len(keys)
        share = keys / 2.0**64
        for part in (share, share[::2], share[:1000]):  # 5 standard errors of a tenth
            assert np.abs(np.histogram(part, 10, (0, 1))[0] / len(part) - 0.1).max() < 1.5 / np.sqrt(len(part))
        assert abs(np.corrcoef(share[1:], share[:-1])[0, 1]) < 0.025
    for one, other in ((of_ids, others[0]), (of_rows, others[1]), (of_rows, others[2])):
        assert abs(np.corrcoef(one / 2.0**64, other / 2.0**64)[0, 1]) < 0.025
    empty = keys_of_ids(pa.array(["", "", "a"]), "id", 0)
    assert empty[0] == empty[1] != empty[2]


def test_with_ids_neither_order_nor_files_nor_batches_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, source = drawn(write(tmp_path / "one"), 200, **BY_NAME)
    assert source == Source(P, N - P, 0, "the id in column 'name'") and source.n == N
    assert len(data) == 200 and data.s.sum() == P and data.columns == ("a", "colour")
    rows = data.load()
    at = [NAMES.index(name) for name in data.ids]
    np.testing.assert_array_equal(rows.values["a"], TABLE["a"].to_numpy()[at])
    assert rows.values["colour"].tolist() == [TABLE["colour"][i].as_py() for i in at]
    np.testing.assert_array_equal(data.s, TABLE["known"].to_numpy()[at] == 1)
    mixed = np.random.default_rng(1).permutation(N)
    csv = tmp_path / "table.csv"
    pytest.importorskip("pyarrow.csv").write_csv(TABLE.set_column(2, "colour", TABLE["colour"].cast(pa.string())), csv)
    others = [write(tmp_path / "many", 5, 300, 301, order=mixed), csv]
    monkeypatch.setattr("pucl.data.own.drawing.PASS", 11)
    for place in others:
        other, again = drawn(place, 200, **BY_NAME)
        assert again == source and other.ids.tolist() == data.ids.tolist()
        np.testing.assert_array_equal(other.s, data.s)
        np.testing.assert_array_equal(other.load().values["a"], rows.values["a"])
    assert set(drawn(csv, 200, seed=1, **BY_NAME)[0].ids) != set(data.ids)


def test_without_ids_file_and_row_number_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, source = drawn(write(tmp_path / "one", 400), 100, drop=["name"])
    assert source.key == "file and row number"
    values = TABLE["a"].to_numpy()
    np.testing.assert_array_equal(data.load().values["a"], values[data.ids.astype(int)])
    (tmp_path / "two").mkdir()
    for name in ("0", "1"):
        (tmp_path / "two" / f"{name}.parquet").hardlink_to(tmp_path / "one" / f"{name}.parquet")
    monkeypatch.setattr("pucl.data.own.drawing.PASS", 13)
    other, _ = drawn(tmp_path / "two" / "*.parquet", 100, drop=["name"])
    np.testing.assert_array_equal(other.ids, data.ids)


def test_every_unlabelled_row_is_equally_likely(tmp_path: Path) -> None:
    path = write(tmp_path / "parts", 100)
    counts = np.zeros(N)
    for seed in range(60):
        ids = drawn(path, P + 290, seed=seed, **BY_NAME)[0].ids
        counts[[NAMES.index(name) for name in ids]] += 1
    free = TABLE["known"].to_numpy() == 0
    assert (counts[~free] == 60).all()
    rate = counts[free] / 60  # 1/3, with a standard error of 0.061
    assert abs(rate.mean() - 1 / 3) < 1e-9 and abs(rate.std() - 0.061) < 0.006 and rate.max() < 0.62
    for part in np.array_split(rate, 6):
        assert abs(part.mean() - 1 / 3) < 0.03


def test_of_very_many_known_rows_a_sample_is_taken(tmp_path: Path) -> None:
    table = TABLE.set_column(3, "known", pa.array(np.arange(N) % 3 == 0))
    path = write(tmp_path / "parts", 100, table=table)
    data, source = drawn(path, 200, **BY_NAME)
    assert (source.labelled, source.unlabelled) == (300, 600) and data.s.sum() == 100 and len(data) == 200
    reviewed = [NAMES[i] for i in range(1, N, 3)]
    data, source = drawn(path, 200, negatives=reviewed, **BY_NAME)
    assert (source.labelled, source.negative, source.unlabelled) == (300, 300, 300)
    assert data.negative is not None and (data.s.sum(), data.negative.sum()) == (100, 50)
    assert set(data.ids[data.negative]) < set(reviewed) and not (data.s & data.negative).any()
    few = reviewed[:20]
    data, _ = drawn(path, 200, negatives=few, **BY_NAME)
    assert data.negative is not None and set(data.ids[data.negative]) == set(few)
    for n in (0, 3):
        with pytest.raises(InputError, match=f"n must be a whole number ≥ 4; got {n}"):
            drawn(path, n, **BY_NAME)


def test_labels_as_people_write_them(tmp_path: Path) -> None:
    known = TABLE["known"].to_numpy() == 1
    fraud = pa.array(np.where(known, "yes", "no"))
    path = write(tmp_path / "words", 100, table=TABLE.set_column(3, "known", fraud))
    with pytest.warns(UserWarning, match=r"'yes' \(30 rows\) is a labelled positive, 'no' \(870 rows\) unlabelled"):
        data, _ = drawn(path, 200, **BY_NAME)
    expected = data.ids.tolist()
    kinds = pa.array(["theft" if i else other for i, other in zip(known, ["other", None] * (N // 2), strict=True)])
    path = write(tmp_path / "kinds", 100, table=TABLE.set_column(3, "known", kinds))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawn(path, 200, positive_value="theft", **BY_NAME)[0].ids.tolist() == expected
        listed: dict[str, Any] = {
            **BY_NAME,
            "label": None,
            "positives": [NAMES[i] for i in np.flatnonzero(known)],
            "drop": ["known"],
        }
        assert drawn(path, 200, **listed)[0].ids.tolist() == expected
        by_number: dict[str, Any] = {"label": None, "positives": np.flatnonzero(known), "drop": ["known", "name"]}
        data, _ = drawn(path, 200, **by_number)
    assert set(data.ids[data.s].tolist()) == set(np.flatnonzero(known).tolist())
    gaps = pa.array([1.0 if i else None for i in known])
    path = write(tmp_path / "gaps", table=TABLE.set_column(3, "known", gaps))
    with pytest.warns(UserWarning, match=r"empty \(870 rows\) unlabelled"):
        assert drawn(path, 200, **BY_NAME)[0].ids.tolist() == expected


def test_vectors_dates_and_labels_of_categories(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * N, dtype=np.float32)), 2)
    days = pa.array(np.datetime64("2024-01-01", "s") + np.arange(N) * np.timedelta64(1, "D"))
    known = TABLE["known"].cast(pa.string()).dictionary_encode()
    table = pa.table({"name": NAMES, "when": days, "z": vectors, "known": known})
    data, _ = drawn(write(tmp_path / "parts", 100, table=table), 200, columns=["z"], positive_value="1", **BY_NAME)
    at = np.array([NAMES.index(name) for name in data.ids])
    np.testing.assert_array_equal(data.load(), np.stack([2 * at, 2 * at + 1], axis=1))
    np.testing.assert_array_equal(data.s, TABLE["known"].to_numpy()[at] == 1)
    data, _ = drawn(tmp_path / "parts", 200, columns=["when"], positive_value="1", **BY_NAME)
    months = data.load().values["when: month"]
    np.testing.assert_array_equal(months, [days[i].as_py().month for i in at])


def test_labels_and_lists_that_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path / "parts", 100)
    unlabelled = {"label": None, "id_column": "name", "drop": ["known"]}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"label": "knwon"}, "did you mean 'known'"),
        ({"positive_value": "yes"}, r"positive_value must be one of \[0.0, 1.0\]; got 'yes'"),
        ({"label": "a"}, r"column 'a': s must be .*; got the values \["),
        ({**unlabelled, "positives": ["row 3", "row x"]}, "positives must be ids of the data; got 1 unknown"),
        ({**unlabelled, "id_column": None, "positives": [3, N]}, f"row numbers from 0 to {N - 1}"),
        ({**unlabelled, "positives": NAMES}, "only positives"),
        ({**BY_NAME, "negatives": ["row x"]}, "negatives must be ids of the data; got 1 unknown"),
        ({**BY_NAME, "negatives": ["row 0"]}, "rows that are not labelled positives; got row 0, which is a labelled"),
        ({"negatives": [30]}, "rows that are not labelled positives; got row 30, which is a labelled positive"),
    ]
    for reading, message in cases:
        with pytest.raises(InputError, match=message):
            drawn(path, 200, **reading)
    for values, message in ((np.ones(N), "only positives"), (np.zeros(N), "no positive")):
        folder = write(tmp_path / message, table=TABLE.set_column(3, "known", pa.array(values)))
        with pytest.raises(InputError, match=message):
            drawn(folder, 200, **BY_NAME)
    for names, message in (
        (["row 0", *NAMES[:-1]], "distinct ids; got 'row 0' more"),
        ([*NAMES[:-1], None], "none at row"),
    ):
        folder = write(tmp_path / message[:8], table=TABLE.set_column(0, "name", pa.array(names)))
        with pytest.raises(InputError, match=message):
            drawn(folder, 890, **BY_NAME)


PEAK = """
import resource, sys
from pucl.data.own import ReadOptions
from pucl.data.own.drawing import draw
options = ReadOptions(label="known", id_column="id")
data, source = draw(options.open(sys.argv[1]), options, 5_000)
assert len(data) == 5_000
print(source.n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kilobytes on Linux only")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    rng, part = np.random.default_rng(0), 100_000
    peaks = []
    for k in range(8):
        columns = {f"x{j}": rng.random(part) for j in range(8)}
        known = (rng.random(part) < 0.002).astype(np.int8)
        table = pa.table({"id": np.arange(k * part, (k + 1) * part), **columns, "known": known})
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=20_000)
        if k in (1, 7):
            run = subprocess.run([sys.executable, "-c", PEAK, tmp_path], capture_output=True, text=True, check=True)
            n_rows, peak = run.stdout.split()
            assert int(n_rows) == (k + 1) * part
            peaks.append(float(peak))
    assert peaks[1] - peaks[0] < 15, "MB; the rows that were added take 43"
