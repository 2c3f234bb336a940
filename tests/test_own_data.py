"""People's own data: every kind of source, what is observed, streaming, and one clear line for what is wrong."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from own_data_examples import IDS, RNG, S, X, loaded, table_file, write_csv
from pucl.data.own import Table, batches, open_rows, read, sample
from pucl.errors import InputError


def test_arrays_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    for source in (X, X.astype(np.float64), torch.tensor(X), torch.tensor(X, requires_grad=True)):
        data = read(source, label=torch.tensor(S) if source is X else S.astype(int) * 2 - 1)
        assert data.kind == "vector" and data.columns == ()
        np.testing.assert_array_equal(data.s, S)
        np.testing.assert_allclose(loaded(data), X)
    assert loaded(read(torch.tensor(X).bfloat16(), positives=[1])).dtype == np.float32


def test_arrays_of_images_become_channels_first() -> None:
    pixels = RNG.integers(0, 255, size=(12, 5, 6, 3)).astype(np.uint8)
    for source, first in ((pixels, pixels[0].transpose(2, 0, 1)), (pixels[..., 0], pixels[:1, :, :, 0])):
        data = read(source, label=S)
        assert data.kind == "image"
        np.testing.assert_array_equal(loaded(data)[0], first)


def test_matrix_as_a_table() -> None:
    data = read(X, label=S, kind="table")
    rows = loaded(data)
    assert isinstance(rows, Table) and data.columns == ("x0", "x1", "x2")
    np.testing.assert_array_equal(rows.values["x1"], X[:, 1])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".feather"])
def test_files_with_a_label_column(tmp_path: Path, suffix: str) -> None:
    data = read(table_file(tmp_path, suffix), label="label", id_column="id")
    assert (data.kind, data.schema) == ("table", {"a": "number", "b": "number", "colour": "category"})
    assert data.ids.tolist() == IDS
    np.testing.assert_array_equal(data.s, S)
    rows = loaded(data)
    np.testing.assert_allclose(rows.values["a"], X[:, 0], rtol=1e-6)
    assert rows.values["colour"].tolist() == ["red", "blue", None] * 4
    assert [batch.rows.start for batch in data.batches(5)][:2] == [0, 5]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: str) -> None:
    frames = pytest.importorskip(library)
    pytest.importorskip("pyarrow")
    frame = frames.DataFrame({"a": X[:, 0], "n": range(12), "colour": ["x", None, "z"] * 4, "label": S})
    data = read(frame, label="label")
    assert data.schema == {"a": "number", "n": "number", "colour": "category"}
    assert loaded(data).values["colour"].tolist() == ["x", None, "z"] * 4
    np.testing.assert_array_equal(data.s, S)
    np.testing.assert_array_equal(read(frame.drop("label", **_axis(library)), label=frame["label"]).s, S)


def test_numbers_of_other_machines() -> None:
    pd = pytest.importorskip("pandas")
    plain = pd.DataFrame(
        {"a": [0.5, np.nan, 3.0], "n": [1, 2, 3], "u": np.array([7, 8, 9], np.uint16), "c": ["x", "y", "x"]}
    )
    kinds = {"a": ">f8", "n": ">i4", "u": ">u2"}
    expected = loaded(read(plain.assign(s=[1, 0, 0]), label="s")).values
    for other in (plain.astype(kinds), plain.astype({"a": np.longdouble})):
        values = loaded(read(other.assign(s=[1, 0, 0]), label="s")).values
        assert other.dtypes["a"] != np.float64 and list(values) == list(expected)
        for name, column in values.items():
            np.testing.assert_array_equal(column, expected[name])


def test_types_of_frames() -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    columns = {"c": pd.Categorical(["a", None]), "k": pd.Categorical([1, 2]), "t": pd.to_datetime(["2020", "2021"])}
    data = read(pd.DataFrame({**columns, "s": [1, 0]}), label="s")
    parts = {"t: month": "number", "t: weekday": "number", "t: hour": "number"}
    assert data.schema == {"c": "category", "k": "category", "t": "date", **parts}
    rows = data.load()
    assert rows.values["c"].tolist() == ["a", None] and rows.values["k"].tolist() == ["1", "2"]
    assert rows.values["t"].tolist() == [18262, 18628]  # days since 1970
    views = [pa.string_view()] if hasattr(pa, "string_view") else []  # since pyarrow 16
    for kind in (pa.string(), pa.large_string(), *views):
        text = pa.array(["a", None]).cast(kind)
        assert read(pa.table({"v": text, "s": [1, 0]}), label="s").load().values["v"].tolist() == ["a", None]
    pl = pytest.importorskip("polars")
    with pytest.raises(InputError, match="collect a lazy frame first"):
        read(pl.LazyFrame({"a": [1]}), label="a")


def _axis(library: str) -> dict[str, Any]:
    return {"axis": 1} if library == "pandas" else {}


def test_series_with_another_index() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="index of the frame"):
        read(pd.DataFrame({"a": X[:, 0]}), label=pd.Series(S, index=range(1, 13)))


def test_a_column_of_mixed_types_is_named() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="column odd"):
        read(pd.DataFrame({"odd": [1, "a"], "s": [0, 1]}), label="s")


@pytest.mark.parametrize("suffix", [".npy", ".npz", "compressed.npz"])
def test_mapped_arrays(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"z{suffix}"
    contents: dict[str, Any] = {"z": np.asfortranarray(X), "s": S, "names": np.array(IDS)}
    if suffix == ".npy":
        np.save(path, X)
        np.save(tmp_path / "s.npy", S)
        data = read(path, label=str(tmp_path / "s.npy"))
        assert isinstance(data.rows.open(), np.memmap)  # type: ignore[attr-defined]
        np.save(tmp_path / "rows.npy", np.flatnonzero(S))
        np.testing.assert_array_equal(read(path, positives=tmp_path / "rows.npy").s, S)
    else:
        (np.savez if suffix == ".npz" else np.savez_compressed)(path, **contents)
        data = read(path, label="s", id_column="names")
        assert isinstance(data.rows.open(), np.memmap) is (suffix == ".npz")  # type: ignore[attr-defined]
        assert data.ids.tolist() == IDS
        np.testing.assert_array_equal(read(path, key="z", id_column="names", positives=IDS[:4]).s, S)
    np.testing.assert_array_equal(data.s, S)
    np.testing.assert_array_equal(loaded(data), X)


@pytest.mark.parametrize("fixed", [True, False])
def test_vectors_in_parquet(tmp_path: Path, fixed: bool) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kind = pa.list_(pa.float32(), 3) if fixed else pa.list_(pa.float32())
    lists = pa.array(X.tolist(), type=kind)
    pq.write_table(pa.table({"z": lists, "label": S}), tmp_path / "z.parquet", row_group_size=5)
    data = read(tmp_path / "z.parquet", label="label")
    assert data.kind == "vector"
    np.testing.assert_array_equal(loaded(data), X)
    wide = {f"d{j}": X[:, j] for j in range(3)}
    pq.write_table(pa.table({**wide, "label": S}), tmp_path / "wide.parquet")
    wide_data = read(tmp_path / "wide.parquet", label="label", kind="vector")
    np.testing.assert_array_equal(loaded(wide_data), X)


def test_vectors_that_cannot_be() -> None:
    pa = pytest.importorskip("pyarrow")
    ragged = pa.table({"z": pa.array([[1.0, 2.0], [1.0]])})
    with pytest.raises(InputError, match="column 'z' must be vectors of one length; got 2 and, at row 1, 1 numbers"):
        list(batches(ragged, batch_size=2))
    with pytest.raises(InputError, match="no value at row 1"):
        list(batches(pa.table({"z": pa.array([[1.0], None])}), batch_size=2))
    with pytest.raises(InputError, match="column 'z' must be finite; got NaN or infinity at row 1"):
        list(batches(pa.table({"z": pa.array([[1.0], [np.inf]])}), batch_size=1))
    with pytest.raises(InputError, match="column 'b' must be finite; got NaN or infinity at row 1"):
        list(batches(pa.table({"a": [1.0, 2.0], "b": [1.0, np.nan]}), batch_size=1, kind="vector"))
    with pytest.raises(InputError, match="column 'b' must be numbers when kind is 'vector'"):
        open_rows(pa.table({"a": [1.0, 2.0], "b": ["x", "y"]}), kind="vector")
    with pytest.raises(InputError, match=r"one column of vectors alone, such as \['z'\]"):
        open_rows(pa.table({"z": pa.array([[1.0], [2.0]]), "b": ["x", "y"]}))


def test_positives_by_id_and_by_row(tmp_path: Path) -> None:
    path = table_file(tmp_path, ".csv")
    for name, text in (("p.txt", "\n".join(IDS[:4])), ("p.csv", "id,why\n" + "".join(f"{i},x\n" for i in IDS[:4]))):
        (tmp_path / name).write_text(text + "\n\n", encoding="utf-8")
        np.testing.assert_array_equal(read(path, id_column="id", positives=tmp_path / name).s, S)
    np.testing.assert_array_equal(read(path, positives=[3, 0, 1, 2, 2]).s, S)
    np.testing.assert_array_equal(read(X, positives={0, 1, 2, 3}).s, S)
    for positives, text in (
        (["r00", "r99"], "1 unknown, first 'r99'"),
        (np.ones(12, dtype=bool), "one label per row is label="),
        ([], "an empty one|shape"),
        ("nowhere.txt", "a file that exists"),
        (IDS, "only positives"),
    ):
        with pytest.raises(InputError, match=text):
            read(path, id_column="id", positives=positives)
    for row in (12, -1, "r00"):
        with pytest.raises(InputError, match="row numbers from 0 to 11"):
            read(X, positives=[row])


def test_labels_as_text() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": X[:, 0], "known": np.where(S, "yes", "unknown")})
    np.testing.assert_array_equal(read(frame, label="known", positive_value="yes").s, S)
    with pytest.raises(InputError, match="positive_value must be one of"):
        read(frame, label="known", positive_value="YES")
    frame["known"] = ["a", "b", "c"] * 4
    with pytest.raises(InputError, match=r"column 'known'.*the values \['a', 'b', 'c'\]"):
        read(frame, label="known")
    assert read(frame, label="known", positive_value="a").s.tolist() == [True, False, False] * 4
    np.testing.assert_array_equal(read(X, label=pd.Series(S, dtype="boolean")).s, S)
    with pytest.raises(InputError, match="and empty ones"):  # False may be a negative
        read(X, label=pd.Series([True, None] + [False] * 10, dtype="boolean"))
    frame["known"] = [None, "b", "c"] * 4
    with pytest.raises(InputError, match="and empty ones"):
        read(frame, label="known")
    assert read(frame, label="known", positive_value="b").s.tolist() == [False, True, False] * 4


def test_labels_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_csv(path, [["a", "label"], *([i, i % 3] for i in range(9))])
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"column 'label': s must be .*; got the values \[0.0, 1.0, 2.0\]"):
        read(path, label="label")
    with pytest.raises(InputError, match="did you mean 'label'"):
        read(path, label="labl")
    write_csv(path, [["a", "label"], [1, 1], [2, ""], [3, 0]])
    with pytest.raises(InputError, match=r"the values \[0.0, 1.0\] and empty ones"):
        read(path, label="label")
    for bad, text in ((S[:-1], "of length 12"), (S | True, "only positives"), (S & False, "no positive")):
        with pytest.raises(InputError, match=text):
            read(X, label=bad)
    with pytest.raises(InputError, match="columns must be features only; got 'label', which is the label"):
        read(path, label="label", columns=["a", "label"])
    with pytest.raises(InputError, match="rows of equal length"):
        read([[1.0], [1.0, 2.0]], positives=[0])
    with pytest.raises(InputError, match="one at a time"):
        read(X, label=S, positives=[1])
    with pytest.raises(InputError, match="positives=, label="):
        read(X)


def test_duplicate_and_missing_ids() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="id column 'id' must be distinct ids; got 'b' more than once"):
        read(pa.table({"id": ["b", "a", "b"], "x": [1, 2, 3]}), id_column="id", positives=["a"])
    with pytest.raises(InputError, match="id column 'id' must be distinct ids; got 7 more than once"):
        read(pa.table({"id": [7, 1, 7], "x": [1, 2, 3]}), id_column="id", positives=[1])
    with pytest.raises(InputError, match="none at row 1"):
        read(pa.table({"id": ["b", None], "x": [1, 2]}), id_column="id", positives=["b"])


def test_sources_that_cannot_be(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("a,label\n", encoding="utf-8")
    (tmp_path / "ragged.csv").write_text("a,label\n1,0\n1,2,3\n", encoding="utf-8")
    (tmp_path / "twice.csv").write_text("a,a\n1,0\n", encoding="utf-8")
    (tmp_path / "only.csv").write_text("label\n1\n0\n", encoding="utf-8")
    for name in ("bad.parquet", "bad.arrow", "bad.npy", "bad.npz"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=X, b=X)
    for source, text in (
        ("empty.csv", "empty.csv cannot be read: Empty CSV file"),
        ("header.csv", "header.csv must be a table with rows"),
        ("ragged.csv", "ragged.csv cannot be read: .*Expected 2 columns, got 3"),
        ("twice.csv", "'a' twice"),
        ("only.csv", "a table with feature columns; got only label"),
        ("bad.parquet", "bad.parquet cannot be read"),
        ("bad.arrow", "bad.arrow cannot be read"),
        ("bad.npy", "bad.npy cannot be read"),
        ("bad.npz", "bad.npz cannot be read"),
        ("objects.npy", "objects.npy cannot be read"),
        ("two.npz", r"key must be the array of two.npz that holds the rows; got \['a', 'b'\]"),
        ("nowhere.csv", "a file that exists"),
        ("nowhere.npy", "a file that exists"),
        ("odd.xlsx", "a file that exists"),
    ):
        with pytest.raises(InputError, match=text) as caught:
            read(tmp_path / source, label="label")
        assert "\n" not in str(caught.value)
    arrays: list[Any] = [np.empty((0, 3)), np.array([{}]), np.zeros(3), np.zeros((1, 1, 1, 1, 1))]
    for array in arrays:
        with pytest.raises(InputError, match="source must be"):
            read(array, positives=[0])
    with pytest.raises(InputError, match="kind must be 'image'"):
        read(np.zeros((4, 3, 2, 2)), positives=[0], kind="table")
    with pytest.raises(InputError, match="kind must be one of image, table, vector"):
        read(X, positives=[0], kind="text")  # type: ignore[arg-type]


def test_nan_in_vectors_names_the_row() -> None:
    x = X.copy()
    x[7, 1] = np.nan
    with pytest.raises(InputError, match="NaN or infinity at row 7"):
        read(x, label=S).load()


def test_later_blocks_of_a_csv_may_hold_fractions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("pucl.data.own.scan.BLOCK", 64)
    rows = [[i, i if i < 30 else i + 0.5, i if i < 30 else "x", i % 2] for i in range(40)]
    path = write_csv(tmp_path / "t.csv", [["id", "a", "b", "label"], *rows])
    data = read(path, label="label", id_column="id", columns=["a"])
    assert loaded(data).values["a"].tolist() == [row[1] for row in rows]
    assert data.ids.dtype.kind == "i"
    for columns in (None, ["b"]):
        with pytest.raises(InputError, match="t.csv cannot be read: In column 'b': .*invalid value 'x'"):
            read(path, label="label", columns=columns).load()
    text = read(path, label="label", categorical=["b"]).load().values["b"]
    assert text.tolist() == [str(row[2]) for row in rows]


def test_sample_is_uniform_ordered_and_repeatable(tmp_path: Path) -> None:
    path = table_file(tmp_path, ".parquet")
    data = read(path, label="label", id_column="id")
    small = sample(data, 7, seed=1)
    assert len(small) == 7 and small.ids.tolist() == sorted(small.ids.tolist())
    at = [IDS.index(name) for name in small.ids]
    np.testing.assert_array_equal(small.s, S[at])
    np.testing.assert_allclose(loaded(small).values["a"], X[at, 0])
    assert sample(data, 7, seed=1).ids.tolist() == small.ids.tolist()
    assert sample(data, 100) is data
    assert sample(data, 6, keep_positives=True).s.sum() == 4
    with pytest.raises(InputError, match="keep_positives=True"):
        sample(data, 1)
    with pytest.raises(InputError, match="more than the 4 labelled positives"):
        sample(data, 4, keep_positives=True)
    many = read(np.arange(2_000.0)[:, None], label=np.arange(2_000) % 2)
    counts = sum(np.bincount(sample(many, 500, seed=k).ids // 200, minlength=10) for k in range(20))
    assert np.abs(np.asarray(counts) / 1_000 - 1).max() < 0.1


def test_batches_without_labels(tmp_path: Path) -> None:
    parts = list(batches(table_file(tmp_path, ".parquet"), batch_size=4, columns=["a", "b"], id_column="id"))
    assert max(map(len, parts)) <= 4 and [i for part in parts for i in part.ids] == IDS
    assert parts[0].s is None and set(parts[0].rows.values) == {"a", "b"}
    again = batches(read(X, label=S), batch_size=5)
    np.testing.assert_array_equal(next(again).s, S[:5])
    with pytest.raises(InputError, match="batch_size"):
        batches(X, batch_size=0)
    with pytest.raises(InputError, match="unknown column of table.parquet 'c'"):
        batches(tmp_path / "table.parquet", batch_size=4, columns=["c"])


STREAM = """
import sys
from pucl.data.own import batches, read, sample
import pyarrow.parquet
def peak(key):
    return int(open("/proc/self/status").read().split(key + ":")[1].split()[0]) / 1024
base = peak("VmRSS")
data = read(sys.argv[1], label=sys.argv[2])
total = sum(float(batch.rows.sum()) for batch in batches(data, batch_size=8192))
assert sample(data, 20_000, seed=0).load().shape == (20_000, 128)
print(peak("VmHWM") - base)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
@pytest.mark.parametrize("group", [32_768, 400_000, None], ids=["row groups", "one row group", "npy"])
def test_a_large_file_is_never_in_memory(tmp_path: Path, group: int | None) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 400_000
    flat, s = RNG.standard_normal(n * 128, dtype=np.float32), np.arange(n) % 5 == 0
    path, label = (tmp_path / "z.npy", str(tmp_path / "s.npy")) if group is None else (tmp_path / "z.parquet", "s")
    if group is None:
        np.save(path, flat.reshape(n, 128))
        np.save(label, s)
    else:
        table = pa.table({"z": pa.FixedSizeListArray.from_arrays(pa.array(flat), 128), "s": s})
        pq.write_table(table, path, row_group_size=group, compression="none", use_dictionary=False)
    assert path.stat().st_size > 200e6
    run = subprocess.run([sys.executable, "-c", STREAM, str(path), label], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 220  # MB above the imports; the libraries' lazily loaded parts take half of it


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"t.parquet needs pyarrow: pip install pandas pyarrow pillow openpyxl"):
        read(tmp_path / "t.parquet", label="s")
