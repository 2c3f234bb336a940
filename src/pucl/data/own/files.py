"""A table in one file or in many: a folder of files, or all files that a pattern such as ``data/*.parquet`` matches."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Any

from pucl.data.own import images, texts
from pucl.data.own.batch import OWNER, need
from pucl.data.own.columns import type_of
from pucl.data.own.dates import with_parts
from pucl.data.own.scan import SHEETS, SUFFIXES, Scan, scan_file, with_rows
from pucl.errors import Described, bad_argument

PARTS = tuple(suffix for suffix in SUFFIXES if suffix not in SHEETS)


def is_pattern(source: Any) -> bool:
    """Whether the source is a pattern for the names of files, such as ``data/*.parquet``, and not the name of one."""
    return isinstance(source, str | Path) and has_magic(str(source)) and not Path(source).exists()


def is_table(source: Any) -> bool:
    """Whether the source is a table that can be read in parts: one file of it, or many."""
    path = Path(source)
    return is_pattern(source) or (is_of_tables(path) if path.is_dir() else _is_part(path))


def is_of_tables(folder: Path) -> bool:
    """Whether a folder holds tables, and neither images nor texts, which come first."""
    return not images.has_images(folder) and not texts.has_texts(folder) and has_tables(folder)


def has_tables(folder: Path) -> bool:
    """Whether tables lie in a folder or below."""
    return any(True for _ in _below(folder))


def scan_table(source: Path, *, text: tuple[str, ...] = (), id_column: str | None = None) -> Scan:
    """The table in a file, in the files of a folder, or in those that a pattern matches, in the order of their names.

    A row of several files is known by the name of its file below the folder, or below that part of the pattern that
    has no wildcards.
    """
    if source.is_dir():
        return _joined(source, sorted(_below(source)), text, id_column)
    if not is_pattern(source):
        if source.suffix.lower() not in SUFFIXES or not source.is_file():
            allowed = (
                "a folder of images, .txt files or tables, a pattern such as 'data/*.parquet', or a file that exists: "
                f".npy, .npz, {', '.join(SUFFIXES)}"
            )
            raise bad_argument(OWNER, "source", allowed, str(source))
        return with_parts(with_rows(scan_file(source, text=text, id_column=id_column)))
    fixed, matching = _matching(source)
    if not matching:
        raise bad_argument(OWNER, "source", f"a pattern that matches files ({', '.join(PARTS)})", str(source))
    return _joined(fixed, matching, text, id_column, name=source.name)


def is_one_of(path: Path, source: Any) -> bool:
    """Whether a file that exists is the source, or one of the tables in a folder or of a pattern."""
    if not path.exists() or not isinstance(source, str | Path):
        return False
    if is_pattern(source):
        parts = _matching(Path(source))[1]
    else:
        parts = [*_below(Path(source))] if Path(source).is_dir() else [Path(source)]
    return any(part.exists() and path.samefile(part) for part in parts)


def _matching(pattern: Path) -> tuple[Path, list[Path]]:
    """The folder before the first wildcard, and the tables that the pattern matches, by name."""
    fixed = next(parent for parent in pattern.parents if not has_magic(str(parent)))
    return fixed, sorted(filter(_is_part, fixed.glob(str(pattern.relative_to(fixed)))))


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if _is_part(path))


def _is_part(path: Path) -> bool:
    """Whether the path is a table; Spark and others put files about the data, such as ``_SUCCESS``, beside them."""
    return path.suffix.lower() in PARTS and not path.name.startswith((".", "_")) and path.is_file()


def _joined(
    folder: Path, paths: Sequence[Path], text: tuple[str, ...], id_column: str | None, name: str | None = None
) -> Scan:
    """Several files as one table; columns that are text in the first file are text in all of them."""
    first = scan_file(paths[0], text=text, id_column=id_column)
    categories = [field.name for field in first.schema if type_of(field.type) == "category"]
    text = tuple(dict.fromkeys([*text, *categories]))
    scans = [first, *(scan_file(path, text=text, id_column=id_column) for path in paths[1:])]
    named = [replace(scan, name=path.relative_to(folder).as_posix()) for scan, path in zip(scans, paths, strict=True)]
    schema = _common_schema(named)
    parts = tuple(with_parts(_cast(scan, schema)) for scan in named)

    def read(columns: list[str], size: int) -> Iterator[Any]:
        for part in parts:
            yield from part.read(columns, size)

    counts = [part.n_rows for part in parts]
    n_rows = None if None in counts else sum(filter(None, counts))
    called = name or folder.name
    return with_rows(Scan(called, parts[0].schema, read, n_rows, parts, called))


def _common_schema(scans: Sequence[Scan]) -> Any:
    """The columns of the first file, with types that hold the values of all; one error where columns differ."""
    pa = need("pyarrow", "tables")
    first = scans[0]
    fields = {field.name: field for field in first.schema}
    for scan in scans[1:]:
        for field in scan.schema:
            if field.name not in fields:
                raise _differs(first, field.name, f"none in {first.name}, one in {scan.name}")
        for name, known in fields.items():
            if name not in scan.schema.names:
                raise _differs(first, name, f"none in {scan.name}")
            fields[name] = known.with_type(_common_type(known.type, scan.schema.field(name).type, first, scan, name))
    return pa.schema(list(fields.values()))


def _common_type(one: Any, other: Any, first: Scan, scan: Scan, name: str) -> Any:
    """A type for the values of both: numbers of 64 bits, text for categories."""
    pa = need("pyarrow", "tables")
    kinds = type_of(one), type_of(other)
    if one == other or kinds[1] == "missing":
        return one
    if kinds[0] == "missing":
        return other
    if kinds[0] != kinds[1] or kinds[0] not in ("number", "category", "date"):
        raise _differs(first, name, f"{kinds[0]} in {first.name}, {kinds[1]} in {scan.name}")
    if kinds[0] == "date" and not (pa.types.is_timestamp(one) and pa.types.is_timestamp(other)):
        raise _differs(first, name, f"{one} in {first.name}, {other} in {scan.name}")
    whole = pa.types.is_integer(one) and pa.types.is_integer(other)
    number = pa.int64() if whole else pa.float64()
    return {"number": number, "category": pa.large_string(), "date": pa.timestamp("us")}[kinds[0]]


def _differs(first: Scan, name: str, got: str) -> Exception:
    return bad_argument(OWNER, f"column {name!r}", f"in every file, of the type it has in {first.name}", Described(got))


def _cast(scan: Scan, schema: Any) -> Scan:
    """The same table with the columns of another schema."""
    if scan.schema.equals(schema):
        return replace(scan, schema=schema)
    pa = need("pyarrow", "tables")

    def read(columns: list[str], size: int) -> Iterator[Any]:
        for batch in scan.read(columns, size):
            arrays = [batch.column(name).cast(schema.field(name).type, safe=False) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)

    return replace(scan, schema=schema, read=read)
