"""Columns as people have them: other separators, workbooks, dates, labels in words, columns to drop, sparse rows."""

import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import pucl
from model_examples import needs_export
from pucl.data.own import TableTransform, open_rows, read
from pucl.data.own.dates import part_of_days
from pucl.data.own.label_words import positive_of
from pucl.data.own.separators import separator_of
from pucl.errors import InputError
from pucl.models.export import export_onnx

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
RNG = np.random.default_rng(0)
N = 60
S = np.arange(N) % 4 == 0
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N).round(3) + S,
        "price": RNG.normal(size=N).round(3),
        "when": pd.Timestamp("2024-03-01 09:00") + pd.to_timedelta(7 * np.arange(N), unit="h"),
        "known": S.astype(int),
    }
)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_separator_of_a_csv_file_is_recognised(mark: str, tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False, sep=mark)
    data = read(tmp_path / "t.csv", label="known")
    assert data.columns == ("size", "price", "when", "when: month", "when: weekday", "when: hour")
    np.testing.assert_array_equal(data.s, S)


def test_a_decimal_comma_is_recognised(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    data = read(tmp_path / "t.csv", label="known")
    assert data.schema["price"] == "number"
    np.testing.assert_allclose(data.load().values["price"], FRAME["price"])


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a\n1\n2\n", ","),  # one column
        ('"a;b",c\n"1;2",3\n', ","),  # in quotes
        ('"a,b";c\n"1,2";3\n', ";"),
        ("a,b;c\n1,2;3\n", ","),  # as many fields by either: the comma
    ],
)
def test_odd_first_lines(text: str, mark: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert separator_of(tmp_path / "t.csv")[0] == mark


def test_a_workbook_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    FRAME.to_excel(tmp_path / "t.xlsx", index=False)
    data = read(tmp_path / "t.xlsx", label="known")
    assert data.schema["when"] == "date"
    np.testing.assert_allclose(data.load().values["size"], FRAME["size"])
    (tmp_path / "broken.xlsx").write_text("no workbook")
    with pytest.raises(InputError, match=r"broken\.xlsx cannot be read as a workbook"):
        read(tmp_path / "broken.xlsx", label="known")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["yes", "no"], "'yes' .15 rows. is a labelled positive, 'no' .45 rows. unlabelled"),
        (["Fraud", "unknown"], "'Fraud' .15 rows. is a labelled positive, 'unknown'"),
        (["fraud", None], "'fraud' .15 rows. is a labelled positive, empty .45 rows. unlabelled"),
        ([1.0, np.nan], "1.0 .15 rows. is a labelled positive, empty"),
    ],
)
def test_labels_in_words_are_understood_and_said(labels: list[object], said: str) -> None:
    frame = FRAME.assign(known=[labels[0] if s else labels[1] for s in S])
    with pytest.warns(UserWarning, match=said):
        data = read(frame, label="known")
    np.testing.assert_array_equal(data.s, S)


@pytest.mark.parametrize(
    ("distinct", "missing"),
    [(["fraud", "honest"], False), (["yes", "no"], True), ([0.0], True), (["no"], True), (["no", "unknown"], False)],
)
def test_labels_that_could_mean_either_are_not_guessed(distinct: list[object], missing: bool) -> None:
    assert positive_of(distinct, missing=missing) is None


def test_dates_have_their_parts_beside_them() -> None:
    table = read(FRAME, label="known").load()
    when = FRAME["when"].dt
    np.testing.assert_array_equal(table.values["when: hour"], when.hour)
    np.testing.assert_array_equal(table.values["when: weekday"], when.day_of_week)
    np.testing.assert_array_equal(table.values["when: month"], when.month)
    np.testing.assert_allclose(np.diff(table.values["when"]), 7 / 24)  # elapsed time, in days
    as_text = FRAME.assign(when=FRAME["when"].astype(str))
    np.testing.assert_array_equal(read(as_text, label="known").load().values["when: hour"], when.hour)
    days = FRAME.assign(when=FRAME["when"].dt.date)
    assert "when: hour" not in read(days, label="known").columns
    odd = FRAME.assign(when=[*FRAME["when"].astype(str)[:-1], "soon"])
    assert read(odd, label="known").schema["when"] == "category"


def test_times_of_day_in_a_frame_are_what_they_are_in_a_file(tmp_path: Path) -> None:
    times = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in (np.arange(N) * 97) % 1440]
    frame = FRAME.assign(clock=times, exact=[f"{time}:30" for time in times], ratio=[f"{i}:{i}" for i in range(N)])
    frame.loc[2, "clock"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = ["clock", "exact", "ratio"]
    of_frame, of_file = (read(x, label="known", columns=columns) for x in (frame, tmp_path / "t.csv"))
    assert of_frame.schema == of_file.schema == {"clock": "date", "exact": "date", "ratio": "category"}
    for name in ("clock", "exact"):
        np.testing.assert_array_equal(of_frame.load().values[name], of_file.load().values[name])
    assert np.isnan(of_frame.load().values["clock"][2]) and of_frame.load().values["clock"][1] == 97 / 1440
    late = frame.assign(clock=[*times[:-1], "25:00"])  # one that is none, far behind those that are looked at
    assert read(late, label="known", columns=["clock"]).schema == {"clock": "category"}


@pytest.mark.parametrize(
    "form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M+02:00", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%d %H:%M:%S-0730"]
)
def test_moments_with_an_offset_in_a_frame_are_what_they_are_in_a_file(form: str, tmp_path: Path) -> None:
    frame = FRAME.assign(when=FRAME["when"].dt.strftime(form))
    frame.loc[2, "when"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = ["when", "when: month", "when: weekday", "when: hour"]
    of_frame, of_file = (read(x, label="known", columns=["when"]) for x in (frame, tmp_path / "t.csv"))
    assert of_frame.schema == of_file.schema and list(of_frame.schema) == columns
    for name in columns:
        np.testing.assert_array_equal(of_frame.load().values[name], of_file.load().values[name])
    offset = {"Z": 0.0, "0": 2 / 24 if "+" in form else -7.5 / 24}[form[-1]]
    days = FRAME["when"].to_numpy().astype("datetime64[us]").astype(np.int64) / 86_400e6
    assert of_frame.load().values["when"][1] == pytest.approx(days[1] - offset) and np.isnan(
        of_frame.load().values["when"][2]
    )
    mixed = frame.assign(when=[*frame["when"][:-1], "2024-03-20 08:30"])  # one without, far behind those looked at
    assert read(mixed, label="known", columns=["when"]).schema == {"when": "category"}


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%d-%m-%y"])
def test_dates_in_a_form_that_is_not_read_are_called_so(form: str) -> None:
    days, rows = pd.date_range("2024-01-17", periods=4 * N).strftime(form), np.arange(4 * N)
    message = f"column 'day' is left out: its dates, such as '{days[0]}', are not written as 2024-12-31 (08:30)"
    with pytest.warns(UserWarning, match=re.escape(message)):
        TableTransform.fit(pd.DataFrame({"size": rows, "day": days}))


def test_parts_that_never_change_are_dropped_without_a_word_and_a_model_takes_dates(tmp_path: Path) -> None:
    frame = FRAME.assign(when=FRAME["when"].dt.normalize())  # the hour is always 0
    model = pucl.PUClassifier(random_state=0, time_limit=1e-3).fit(frame.drop(columns="known"), S)
    assert "when: hour" not in model.model_.schema.needed and "when: weekday" in model.model_.schema.needed
    frame.to_csv(tmp_path / "new.csv", index=False)
    rows = model.model_.schema.rows(tmp_path / "new.csv")
    np.testing.assert_allclose(model.model_.logits(rows).numpy(), model.decision_function(frame), rtol=1e-4, atol=1e-4)


def test_parts_of_days_are_those_of_the_calendar() -> None:
    moments = pd.Series(pd.date_range("1583-10-15", "2401-03-01", periods=20_001, unit="ms"))
    days = moments.to_numpy().astype("datetime64[ms]").astype(np.int64) / 86_400_000
    days[7] = np.nan
    for part, true in (("month", moments.dt.month), ("weekday", moments.dt.day_of_week), ("hour", moments.dt.hour)):
        expected = true.to_numpy().astype(float)
        expected[7] = np.nan
        np.testing.assert_array_equal(part_of_days(days, part), expected)


def test_an_exported_model_takes_dates_and_finds_their_parts(tmp_path: Path) -> None:
    needs_export()
    runtime = pytest.importorskip("onnxruntime")
    when = pd.Series(pd.date_range("1999-12-25", periods=len(FRAME), freq="157h"))
    frame = FRAME.drop(columns="known").assign(when=when)
    model = pucl.PUClassifier(random_state=0, time_limit=1e-3).fit(frame, S)
    assert list(model.feature_names_in_) == list(frame.columns) and model.n_features_in_ == frame.shape[1]
    session = runtime.InferenceSession(export_onnx(model.model_, tmp_path / "model.onnx").read_bytes())
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert sorted(names) == sorted(frame.columns)
    frame["when"] = (when - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    (probability,) = session.run(None, {"rows": frame[names].to_numpy(dtype=np.float64)})
    expected = model.decision_function(FRAME.drop(columns="known").assign(when=when))
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-expected)), atol=1e-4)


def test_dropped_columns_are_no_features() -> None:
    assert read(FRAME, label="known", drop=["when"]).columns == ("size", "price")
    assert read(FRAME, label="known", columns=["size", "when"], drop=["when"]).columns == ("size",)
    assert read(FRAME, label="known", id_column="when").columns == ("size", "price")
    with pytest.raises(InputError, match="did you mean 'price'"):
        read(FRAME, label="known", drop=["prise"])
    with pytest.raises(InputError, match="drop must be left out for an array"):
        open_rows(np.ones((3, 2)), drop=["a"])


def test_sparse_rows_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    x = FRAME[["size", "price"]].to_numpy()
    dense, thin = (
        pucl.PUClassifier(random_state=0, time_limit=1e-3).fit(of(x), S) for of in (np.asarray, sparse.csr_matrix)
    )
    np.testing.assert_array_equal(dense.decision_function(x), thin.decision_function(sparse.coo_array(x)))
    monkeypatch.setattr("pucl.data.own.arrays.MOST_DENSE", 10)
    with pytest.raises(
        InputError, match="X must be a matrix of at most 10 values; got a sparse one of 60 × 2; reduce it"
    ):
        thin.predict(sparse.csr_matrix(x))


@pytest.mark.parametrize("declared", [False, True])
def test_dates_that_are_categories_are_the_same_in_a_frame_and_in_a_file(declared: bool, tmp_path: Path) -> None:
    months = np.array(["2024-01-01", "2024-02-01", "2024-03-01"])
    frame = FRAME[["size"]].assign(month=months[np.arange(N) % 3])
    path = tmp_path / "rows.csv"
    frame.assign(known=S.astype(int)).to_csv(path, index=False)
    if declared:  # a frame in which text is taken for dates
        model = pucl.PUClassifier(random_state=0, time_limit=1e-3, categorical=["month"]).fit(frame, S)
    else:
        data = read(path, label="known", categorical=["month"])
        model = pucl.PUClassifier(random_state=0, time_limit=1e-3).fit(data)
    fitted = model.model_
    found, expected = (fitted.logits(fitted.schema.rows(source)) for source in (path, frame))
    np.testing.assert_array_equal(found, expected)


def test_warnings_about_columns_point_at_the_line_that_called_pucl() -> None:
    frame = FRAME[["size", "price"]].assign(colour=np.where(S, "red", "blue"), same=1.0)
    frame["ticket"] = [f"ticket-{row}-{row * row}" for row in range(N)]
    with warnings.catch_warnings(record=True, action="always") as caught:
        model = pucl.PUClassifier(random_state=0).fit(frame, S.astype(int))
        model.predict(frame.assign(colour=["red", None] * (N // 2)))
    first = sys._getframe().f_lineno - 2
    assert {each.filename for each in caught} == {__file__}, "not a file of pucl or of contextlib"
    assert [each.lineno - first for each in caught] == [0, 0, 1], [str(each.message) for each in caught]
