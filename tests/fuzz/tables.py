"""Tables: CSV, Parquet, Arrow, Excel; arrays: .npy and .npz."""

import io
import struct
import zipfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.reader import MB, Files, Reader, files_in
from own_data_examples import table_file
from pucl.data.own import read
from pucl.data.own.transform import TableTransform

CELLS = (
    "1", "-2.5", "1,5", "1e400", "nan", "inf", "", " ", "yes", "2024-02-30", "2024-12-31 23:59:60", "9999-12-31", "0001-01-01",
    "9" * 25, "true", "NULL", '"', '""', "'", "a\tb", "a;b", "\x00", "\ufeff", "é", "🎲", "=1+1", "1" * 400, "x" * 5000, "0x1F",
)  # fmt: skip


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
        "list": pa.array([[1, 2], None, [], [3], [1], [2]]), "struct": pa.array([{"a": 1}] * n), "null": pa.nulls(n),
        "binary": pa.array([b"\xff\0"] * n), "int": pa.array([big, -big, None, 0, 1, 2]), "dec": pa.array([decimal.Decimal("9" * 38)] * n),
        "time": pa.array([big, 0, None, -big, 5, 6], pa.timestamp("s")), "date": pa.array([2**31 - 1, 0, None, 1, 2, 3], pa.date32()),
        "dur": pa.array([big] * n, pa.duration("ns")), "dict": pa.array(["a", None] * 3).dictionary_encode(),
        "vec": pa.array([[1.0, float("nan")]] * n), "zone": pa.array([1] * n, pa.timestamp("us", "Europe/Berlin")),
        "float": pa.array([float("inf"), 1e308, -1e308, None, 0, 1]), "bool": pa.array([True, None] * 3), "half": pa.array(np.ones(n, "f2")),
        "intv": pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()), "map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int8())),
        "big": pa.array(["x" * 10_000] * n), "view": pa.array(["a"] * n, pa.string_view()), "zones": pa.array([0] * n, pa.timestamp("ns", "Not/There")),
    }  # fmt: skip
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


def _sheet_seeds(place: Path) -> Sequence[Files]:
    import openpyxl

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
        (b'r="A2"', b'r="XFD1048576"'), (b'r="2"', b'r="99999999999"'), (b'r="A2"', b'r="ZZZZZZ1"'), (b't="s"', b't="e"'),
        (b't="n"', b't="d"'), (b"<v>0</v>", b"<v>1e999</v>"), (b"<v>1</v>", b"<v>999999</v>"), (b't="n"', b't="b"'),
        (b"A1:D13", b"A1:XFD1048576"), (b"<sheetData>", b"<sheetData><row r='1048576'><c r='XFD1048576'><v>1</v></c></row>"),
        (b"<v>", b"<f>SUM(A1:A9)</f><v>"), (b"sheetData", b"sheetdata"), (b"</row>", b""), (b"<row", b"<row spans='1:99999'"),
    )  # fmt: skip
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


def zipped(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive in memory."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def npy(array: Any, **options: Any) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def header(text: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """A .npy file with any header."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text.encode()))
    return b"\x93NUMPY" + bytes(version) + length + text.encode() + data


def _npy_seeds(_: Path) -> Sequence[Files]:
    x = np.arange(36, dtype="f4").reshape(12, 3)
    images = np.zeros((12, 4, 4), np.uint8)
    return [
        {"x.npy": npy(each)}
        for each in (x, np.asfortranarray(x), x.astype(">f8"), images, x.astype("i1"), x.astype("f2"))
    ]


def _read_array(folder: Path) -> object:
    rows = read(folder / next(path.name for path in folder.iterdir()), positives=[0, 1])
    return rows.load()


class Runs:
    """A pickle of it would write a file."""

    def __reduce__(self) -> Any:
        return exec, ("open('canary', 'w').write('x')",)


def _objects(rng: Random, _: Sequence[Files]) -> Files:
    array = np.array([Runs()] * 12, object).reshape(12, 1)
    return {"x.npy": npy(array, allow_pickle=True)} if rng.random() < 0.5 else {"x.npy": b"\x80\x04" + npy(array)[130:]}


def _headers(rng: Random, _: Sequence[Files]) -> Files:
    kind = rng.choice(
        (
            "'<f4'",
            "'|O'",
            "'>f8'",
            "'<U9'",
            "'|V4'",
            "'<M8[s]'",
            "'<c8'",
            "[('a','<f4')]",
            "'<f16'",
            "'|b1'",
            "('<f4',(3,))",
            "5",
            "'<f4'*9",
        )
    )
    shape = rng.choice(("(12,3)", "(3,)", "()", "(-1,3)", "(0,3)", "(12,0)", "(2**40,3)", f"({2**40},3)", f"({2**62},{2**62})",
                        "(12.0,3)", "('a',)", "(True,3)", "[12,3]", "(1," * 30 + ")" * 30, "(" + "1," * 40 + ")"))  # fmt: skip
    order = rng.choice(("True", "False", "1", "None", "'x'"))
    more = rng.choice(("", "", ", 'x': 1", "," * 9, ", 'shape': (1,)"))
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}{more}}}\n"
    text = rng.choice(
        (text, text, text, text + " " * 20_000, "[" * 5_000, "{}", "\ufeff", "__import__('os').system('x')")
    )
    return {"x.npy": header(text, bytes(rng.choice((0, 7, 144))), rng.choice(((1, 0), (2, 0), (3, 0), (9, 9))))}


def _npz_seeds(_: Path) -> Sequence[Files]:
    x, ids = np.arange(36, dtype="f4").reshape(12, 3), np.array([f"r{i}" for i in range(12)])
    seeds = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, x=x, ids=ids, label=np.arange(12) < 4)
        seeds.append({"x.npz": file.getvalue()})
    return seeds


def _read_npz(folder: Path) -> object:
    return read(folder / "x.npz", key="x", id_column="ids", label="label").load(), read(
        folder / "x.npz", key="x", positives=[1]
    ).load()


def _npz(rng: Random, seeds: Sequence[Files]) -> Files:
    """An archive with other arrays in it."""
    parts = {"x.npy": npy(np.ones((12, 3), "f4")), "ids.npy": npy(np.arange(12)), "label.npy": npy(np.arange(12) < 4)}
    kind = rng.choice((_headers, _objects, _headers))(rng, seeds)["x.npy"]
    parts[rng.choice(sorted(parts))] = kind
    if rng.random() < 0.3:
        parts[rng.choice(("../x.npy", "/etc/x.npy", "x", "y.npy", "x.npz", "a/b.npy"))] = parts.pop(
            rng.choice(sorted(parts))
        )
    return {
        "x.npz": zipped(
            parts, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        )
    }


@cache
def _zeros(n: int) -> Files:
    """An array of many zeros, compressed."""
    data = zipped(
        {
            "x.npy": header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},1)}}\n", bytes(4 * n)),
            "ids.npy": npy(np.arange(3)),
            "label.npy": npy([0, 1, 1]),
        }
    )
    return {"x.npz": data}


def _nested(_: Random, seeds: Sequence[Files]) -> Files:
    return {
        "x.npz": zipped(
            {"x.npy": zipped({"x.npy": seeds[0]["x.npz"]}), "ids.npy": b"", "label.npy": b"PK\x05\x06" + bytes(18)}
        )
    }


TABLE = ("TableTransform",)  # which is given the rows, not the file
CSV = {
    "encoding": _encoding, "cells": _cells, "header": _header, "quotes": _quotes, "columns": _columns,
    "100,000 columns": lambda _rng, _seeds: _wide(100_000), "late": _late,
}  # fmt: skip
BOOKS = {
    "parts": _sheet, "entities": partial(_book, kind=0), "long string": partial(_book, kind=1), "far cell": partial(_book, kind=2),
}  # fmt: skip
READERS = (
    Reader("CSV", _csv_seeds, _read_table, CSV, share=25, memory=400 * MB, once=("100,000 columns", "late"), names=TABLE),
    Reader(
        "Parquet", partial(_table_seeds, ".parquet"), _read_table, share=20, memory=600 * MB, once=("rows",), names=TABLE,
        hostile={
            "types": partial(_arrow_types, suffix=".parquet"), "packed": partial(_compressed, suffix=".parquet"), "rows": _rows,
        },
    ),
    Reader(
        "Arrow", partial(_table_seeds, ".arrow"), _read_table, share=20, names=TABLE,
        hostile={"types": partial(_arrow_types, suffix=".arrow"), "packed": partial(_compressed, suffix=".arrow")},
    ),
    Reader("Excel", _sheet_seeds, _read_table, BOOKS, share=5, memory=600 * MB, once=tuple(BOOKS)[1:], names=TABLE),
    Reader(".npy", _npy_seeds, _read_array, {"objects": _objects, "headers": _headers}, share=60),
    Reader(
        ".npz", _npz_seeds, _read_npz, share=20, memory=900 * MB, once=("large", "bomb"),
        hostile={"arrays": _npz, "nested": _nested, "large": lambda *_: _zeros(50 * MB), "bomb": lambda *_: _zeros(75 * MB)},
    ),
)  # fmt: skip
