"""Tables: CSV, Parquet, Arrow, Excel; arrays: .npy and .npz."""

import io
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from fuzz.reader import MB, Files, Hostile, Reader, files_in, zipped
from own_data_examples import table_file
from pucl.data.own import ReadOptions, read
from pucl.data.own.transform import TableTransform
from pucl.fitting.sampling import read_rows

CELLS = (
    "1",
    "-2.5",
    "1,5",
    "1e400",
    "nan",
    "inf",
    "",
    " ",
    "yes",
    "2024-02-30",
    "2024-12-31 23:59:60",
    "9999-12-31",
    "0001-01-01",
    "9" * 25,
    "true",
    "NULL",
    '"',
    '""',
    "'",
    "a\tb",
    "a;b",
    "\x00",
    "\ufeff",
    "é",
    "🎲",
    "=1+1",
    "1" * 400,
    "x" * 5000,
    "0x1F",
)


def _table_seeds(suffix: str, place: Path) -> Sequence[Files]:
    table_file(place, suffix)
    return [files_in(place)]


def _read_table(folder: Path) -> object:
    """Labels, ids and rows, and what a table transform makes of them."""
    data = read(folder / next(path.name for path in folder.iterdir()), label="label", id_column="id")
    rows = data.load()
    if data.kind == "table":
        TableTransform.fit(rows).apply(rows)
    return data.s.sum(), len(data.ids)


def _sample_seeds(place: Path) -> Sequence[Files]:
    return [*_csv_seeds(place), *(_table_seeds(suffix, _empty(place / suffix))[0] for suffix in (".parquet", ".arrow"))]


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _read_sample(folder: Path) -> object:
    """A sample of some rows, by their ids and by their numbers."""
    path = folder / next(path.name for path in folder.iterdir())
    options = ReadOptions(label="label", id_column="id"), ReadOptions(label="label", drop=("id",))
    drawn = [read_rows(path, each, 6, seed=0, also=["r01"] * (each.id_column is not None)) for each in options]
    return [(data.load(), data.s.sum(), sampling) for data, sampling in drawn]


def _csv_seeds(place: Path) -> Sequence[Files]:
    (plain,) = _table_seeds(".csv", place)
    text = plain["table.csv"].decode()
    semicolons = text.replace(",", ";").replace(".", ",")
    dated = "id,when,label\n" + "".join(f"r{i},2024-01-{i + 1:02d},{int(i < 4)}\n" for i in range(12))
    return [
        plain,
        {"table.csv": semicolons.encode()},
        {"table.tsv": text.replace(",", "\t").encode()},
        {"table.csv": dated.encode()},
    ]


def _encoding(rng: Random, seeds: Sequence[Files]) -> Files:
    name = rng.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp1252", "utf-7"))
    text = seeds[0]["table.csv"].decode().replace("red", "Rötlich")
    return {"table.csv": text.encode(name)}


def _cells(rng: Random, _: Sequence[Files]) -> Files:
    """Rows of odd cells, of one length or of several, quoted or not."""
    mark, width = rng.choice(",;\t|"), rng.choice((3, 4, 9))
    rows = [["id", "a", "label", *(f"c{i}" for i in range(width - 3))]]
    for i in range(rng.choice((1, 5, 30))):
        n = width if rng.random() < 0.97 else rng.randrange(12)
        rows.append([f"r{i}", *(rng.choice(CELLS) for _ in range(n - 1))])
        if rng.random() < 0.8 and n > 2:
            rows[-1][2] = str(i % 2)
    end = rng.choice(("\n", "\r\n", "\r"))
    return {"table.csv": end.join(mark.join(row) for row in rows).encode("utf-8", "surrogatepass")}


def _columns(rng: Random, _: Sequence[Files]) -> Files:
    return _wide(rng.choice((300, 1_000)), last=rng.choice((0, 0, 0, -1, 1)))


def _wide(n: int, last: int = 0) -> Files:
    """Three rows of n columns beside id and label; the last one may be longer or shorter."""
    header = ["id", "label", *(f"c{i}" for i in range(n))]
    rows = [[f"r{i}", str(i % 2), *[str(i)] * (n + (last if i == 2 else 0))] for i in range(3)]
    return {"table.csv": "\n".join(map(",".join, [header, *rows])).encode()}


def _header(rng: Random, _: Sequence[Files]) -> Files:
    """Names that are empty, twice there, very long, or with signs of all kinds."""
    names = ["id", "label", *(rng.choice((*CELLS, "id", "label", "x: month")) for _ in range(3))]
    rng.shuffle(names)
    quoted = ",".join(f'"{name}"' if rng.random() < 0.5 else name for name in names)
    return {"table.csv": "\n".join([quoted, *(f"r{i},{i % 2},1,2,3" for i in range(6))]).encode()}


def _quotes(rng: Random, _: Sequence[Files]) -> Files:
    body = "".join(f'r{i},{i % 2},"{"x" * 100}\n' for i in range(200))
    long = "id,label,a\n" + "".join(f"r{i},{i % 2},{'y' * 200_000}\n" for i in range(4))
    return {
        "table.csv": rng.choice(
            (f"id,label,a\n{body}", long, "id,label,a", "", "\n\n\n", '"', "id\n", "\0" * 300)
        ).encode()
    }


def _late(rng: Random, _: Sequence[Files]) -> Files:
    """A value of another type behind the first block, from which the types are inferred."""
    rows = "".join(f"r{i},{i % 2},{i}\n" for i in range(600_000))
    return {"table.csv": f"id,label,a\n{rows}r,1,{rng.choice(CELLS)}\n".encode()}


def _arrow_types(rng: Random, _: Sequence[Files], *, suffix: str) -> Files:
    """Columns of types that no feature has, with missing values and extremes."""
    import decimal

    import pyarrow as pa
    from pyarrow import feather, parquet

    n, big = 6, 2**63 - 1
    columns = {
        "list": pa.array([[1, 2], None, [], [3], [1], [2]]),
        "struct": pa.array([{"a": 1}] * n),
        "null": pa.nulls(n),
        "binary": pa.array([b"\xff\0"] * n),
        "int": pa.array([big, -big, None, 0, 1, 2]),
        "dec": pa.array([decimal.Decimal("9" * 38)] * n),
        "time": pa.array([big, 0, None, -big, 5, 6], pa.timestamp("s")),
        "date": pa.array([2**31 - 1, 0, None, 1, 2, 3], pa.date32()),
        "dur": pa.array([big] * n, pa.duration("ns")),
        "dict": pa.array(["a", None] * 3).dictionary_encode(),
        "vec": pa.array([[1.0, float("nan")]] * n),
        "zone": pa.array([1] * n, pa.timestamp("us", "Europe/Berlin")),
        "float": pa.array([float("inf"), 1e308, -1e308, None, 0, 1]),
        "bool": pa.array([True, None] * 3),
        "half": pa.array(np.ones(n, "f2")),
        "intv": pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()),
        "map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int8())),
        "big": pa.array(["x" * 10_000] * n),
        "zones": pa.array([0] * n, pa.timestamp("ns", "Not/There")),
    }
    if hasattr(pa, "string_view"):  # from 16 on
        columns["view"] = pa.array(["a"] * n, pa.string_view())
    names = rng.sample(sorted(columns), rng.choice((1, 2, 4)))
    if suffix == ".parquet":  # which has no such types
        names = [name for name in names if name not in ("intv",)] or ["int"]
    label = rng.choice((pa.array([0, 1] * 3), pa.array([0, 1] * 3), columns[rng.choice(sorted(columns))]))
    ids = rng.choice((pa.array([f"r{i}" for i in range(n)]), pa.array(range(n)), columns[names[0]]))
    if suffix == ".parquet" and "intv" in (str(label.type), str(ids.type)):
        label = ids = pa.array([0, 1] * 3)
    table = pa.table({"id": ids, "label": label, **{name: columns[name] for name in names}})
    file = io.BytesIO()
    try:
        parquet.write_table(table, file) if suffix == ".parquet" else feather.write_feather(table, file)
    except (pa.ArrowException, NotImplementedError):
        return _arrow_types(rng, (), suffix=suffix)
    return {f"table{suffix}": file.getvalue()}


def _compressed(rng: Random, _: Sequence[Files], *, suffix: str) -> Files:
    import pyarrow as pa
    from pyarrow import feather, parquet

    table = pa.table({"id": list(map(str, range(50))), "label": [0, 1] * 25, "a": [0.5] * 50, "b": ["x" * 50] * 50})
    file = io.BytesIO()
    if suffix == ".parquet":
        kind = rng.choice(("snappy", "gzip", "brotli", "zstd", "lz4", "none"))
        parquet.write_table(
            table, file, compression=kind, use_dictionary=rng.random() < 0.5, version=rng.choice(("1.0", "2.6"))
        )
    else:
        feather.write_feather(table, file, compression=rng.choice(("lz4", "zstd", "uncompressed")))
    return {f"table{suffix}": file.getvalue()}


def _rows(_: Random, __: Sequence[Files]) -> Files:
    """Ten million missing values in a few bytes."""
    import pyarrow as pa
    from pyarrow import parquet

    n, file = 10_000_000, io.BytesIO()
    columns = {"id": pa.nulls(n, pa.int8()), "label": pa.nulls(n, pa.int8()), "a": pa.nulls(n, pa.float64())}
    parquet.write_table(pa.table(columns), file)
    return {"table.parquet": file.getvalue()}


def sheet_seeds(place: Path) -> Sequence[Files]:
    import openpyxl  # type: ignore[import-untyped,unused-ignore]

    book = openpyxl.Workbook()
    for row in [
        ["id", "a", "colour", "label"],
        *([f"r{i}", i / 7, "red" if i % 2 else "blue", int(i < 4)] for i in range(12)),
    ]:
        book.active.append(row)
    book.save(place / "table.xlsx")
    return [files_in(place)]


def _sheet(rng: Random, seeds: Sequence[Files]) -> Files:
    """A workbook with one of its parts changed."""
    with zipfile.ZipFile(io.BytesIO(seeds[0]["table.xlsx"])) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    name = "xl/worksheets/sheet1.xml" if rng.random() < 0.7 else rng.choice(sorted(parts))
    from fuzz.mutators import mutated

    swaps = (
        (b'r="A2"', b'r="XFD1048576"'),
        (b'r="2"', b'r="99999999999"'),
        (b'r="A2"', b'r="ZZZZZZ1"'),
        (b't="s"', b't="e"'),
        (b't="n"', b't="d"'),
        (b"<v>0</v>", b"<v>1e999</v>"),
        (b"<v>1</v>", b"<v>999999</v>"),
        (b't="n"', b't="b"'),
        (b"A1:D13", b"A1:XFD1048576"),
        (b"<sheetData>", b"<sheetData><row r='1048576'><c r='XFD1048576'><v>1</v></c></row>"),
        (b"<v>", b"<f>SUM(A1:A9)</f><v>"),
        (b"sheetData", b"sheetdata"),
        (b"</row>", b""),
        (b"<row", b"<row spans='1:99999'"),
    )
    old, new = rng.choice(swaps)
    parts[name] = (
        parts[name].replace(old, new, rng.choice((1, -1))) if rng.random() < 0.6 else mutated(rng, parts[name])
    )
    if rng.random() < 0.1:
        del parts[rng.choice(sorted(parts))]
    return {"table.xlsx": zipped(parts)}


def _book(_: Random, seeds: Sequence[Files], *, kind: int) -> Files:
    """Entities that multiply, strings that unpack to 300 MB, or a single cell at the far end of the sheet."""
    with zipfile.ZipFile(io.BytesIO(seeds[0]["table.xlsx"])) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    sheet, strings = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
    entities = b"".join(b'<!ENTITY e%d "%s">' % (i, b"&e%d;" % (i - 1) * 10 if i else b"lol") for i in range(10))
    if kind == 0:
        parts[strings] = b"<?xml version='1.0'?><!DOCTYPE sst [" + entities + b"]><sst><si><t>&e9;</t></si></sst>"
    elif kind == 1:
        head = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>'
        parts[strings] = head + b"a" * (300 * MB) + b"</t></si></sst>"
    else:
        rows = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
        parts[sheet] = parts[sheet].replace(b"</sheetData>", rows)
    return {"table.xlsx": zipped(parts)}


TABLE = ("TableTransform",)  # which is given the rows, not the file
CSV = {
    "encoding": _encoding,
    "cells": _cells,
    "header": _header,
    "quotes": _quotes,
    "columns": _columns,
}
LARGE: dict[str, Hostile] = {"100,000 columns": lambda _rng, _seeds: _wide(100_000), "late": _late}
BOOKS: dict[str, Hostile] = {
    "parts": _sheet,
    "entities": partial(_book, kind=0),
    "long string": partial(_book, kind=1),
    "far cell": partial(_book, kind=2),
}
READERS = (
    Reader(
        "CSV",
        _csv_seeds,
        _read_table,
        CSV,
        share=25,
        names=TABLE,
    ),
    Reader("CSV, large", _csv_seeds, _read_table, LARGE, 1, 1200 * MB, 60.0, once=tuple(LARGE), names=TABLE),
    Reader(
        "Parquet",
        partial(_table_seeds, ".parquet"),
        _read_table,
        share=20,
        memory=600 * MB,
        once=("rows",),
        names=TABLE,
        hostile={
            "types": partial(_arrow_types, suffix=".parquet"),
            "packed": partial(_compressed, suffix=".parquet"),
            "rows": _rows,
        },
    ),
    Reader(
        "Arrow",
        partial(_table_seeds, ".arrow"),
        _read_table,
        share=20,
        names=TABLE,
        hostile={"types": partial(_arrow_types, suffix=".arrow"), "packed": partial(_compressed, suffix=".arrow")},
    ),
    Reader(
        "sample of a table",
        _sample_seeds,
        _read_sample,
        share=20,
        names=TABLE,
        hostile={
            **CSV,
            "types": partial(_arrow_types, suffix=".parquet"),
            "types of Arrow": partial(_arrow_types, suffix=".arrow"),
            "packed": partial(_compressed, suffix=".parquet"),
        },
    ),
    Reader("Excel", sheet_seeds, _read_table, BOOKS, share=5, memory=600 * MB, once=tuple(BOOKS)[1:], names=TABLE),
)
