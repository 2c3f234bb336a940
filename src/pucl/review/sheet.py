"""A sheet of rows to answer: as CSV for a spreadsheet, and as a page with two keys that works offline."""

import base64
import codecs
import hashlib
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own import OwnData
from pucl.data.own.batch import Table, load
from pucl.data.own.dates import source_of
from pucl.data.own.images import ImageRows
from pucl.data.own.values import values_as_text
from pucl.formulas import marked
from pucl.report.assets_of import asset, head
from pucl.report.markup import Markup, fill, shorten
from pucl.report.page_data import as_json
from pucl.report.pictures import png
from pucl.review.answers import csv_bytes
from pucl.review.picking import Pick

PACKAGE = "pucl.review"
FIXED = ("id", "answer", "sheet", "why", "score")  # columns of a sheet before the values
LONGEST, MOST_VALUES = 5000, 200  # characters of a value on the page, and values of a row
LONGEST_ID = 400
NUMBERS = 24  # of a vector that are shown
SIDE = 640  # pixels of the longer side of a picture
SCRIPTS = ("sheet",)


@dataclass(frozen=True)
class SheetRow:
    """A row to be answered.

    Attributes:
        id: what it is called.
        why: why it was picked.
        score: the logit of the model.
        values: its values by column, as text.
        picture: as a data: address; None unless it is an image.
    """

    id: str
    why: str
    score: float
    values: Mapping[str, str] = field(default_factory=dict)
    picture: str | None = None


def sheet_rows(data: OwnData, picks: Sequence[Pick], logits: NDArray[np.float64]) -> list[SheetRow]:
    """The picked rows with what there is to see of them."""
    if not picks:
        return []
    order = np.argsort([pick.row for pick in picks])  # rows are read in their order
    index = np.array([picks[k].row for k in order], dtype=np.intp)
    chosen = data.rows.take(index)
    content = load(chosen)
    values = _values(content)
    pictures = _pictures(chosen, content) if data.kind == "image" else [None] * len(index)
    rows: list[SheetRow | None] = [None] * len(picks)
    for place, k in enumerate(order.tolist()):
        row, why = picks[k]
        known = {name: column[place] for name, column in values.items()}
        rows[k] = SheetRow(str(data.ids[row]), why, float(logits[row]), known, pictures[place])
    return [row for row in rows if row is not None]


def _values(content: Any) -> dict[str, tuple[str, ...]]:
    if isinstance(content, Table):
        every = np.arange(len(content))
        names = (name for name in content.values if source_of(name, content.types) == name)  # no parts of dates
        return {name: _column(content, name, every) for name in names}
    if content.ndim == 2:
        shown = content[:, :NUMBERS]
        return {f"number {j + 1}": tuple(f"{value:.6g}" for value in shown[:, j]) for j in range(shown.shape[1])}
    return {}


def _column(table: Table, name: str, every: NDArray[np.intp]) -> tuple[str, ...]:
    """A column as text; texts as long as they are, since they are to be read."""
    values = table.values[name]
    if values.dtype != object:
        return values_as_text(table, name, every)
    return tuple("" if value is None else str(value) for value in values.tolist())


def _pictures(rows: Any, content: Any) -> list[str | None]:
    """The pictures as data: addresses: from their files where there are any, else from the numbers."""
    if isinstance(rows, ImageRows):
        return [_of_file(rows, name) for name in rows.names]
    pixels = content
    if pixels.dtype != np.uint8:
        low, high = float(pixels.min()), float(pixels.max())
        pixels = ((pixels - low) / ((high - low) or 1.0) * 255).round().astype(np.uint8)
    kept = pixels[:, :3] if pixels.shape[1] >= 3 else pixels[:, :1]
    return [_address("image/png", png(np.ascontiguousarray(one))) for one in kept.transpose(0, 2, 3, 1)]


def _of_file(rows: ImageRows, name: str) -> str:
    from PIL import Image, ImageOps

    with Image.open(rows.folder / name) as image:
        turned = ImageOps.exif_transpose(image).convert("RGB")
    turned.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    small = max(turned.size) < SIDE // 4
    turned.save(out, "PNG" if small else "JPEG", **({} if small else {"quality": 88}))
    return _address("image/png" if small else "image/jpeg", out.getvalue())


def _address(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def as_table(name: str, rows: Sequence[SheetRow]) -> bytes:
    """The sheet as CSV with an empty column to fill in; no spreadsheet runs its texts, or takes ü for two letters."""
    columns = list(rows[0].values) if rows else []
    heads = [column if column.strip().casefold() not in FIXED else f"{column} (value)" for column in columns]
    lines = [(*FIXED, *(marked(head) for head in heads))]
    for row in rows:
        values = (marked(row.values[column]) for column in columns)
        lines.append((marked(row.id), "", name, row.why, f"{row.score:.4f}", *values))
    table = csv_bytes(lines)
    return table if table.isascii() else codecs.BOM_UTF8 + table


def as_page(name: str, rows: Sequence[SheetRow], *, folder: str, title: str) -> bytes:
    """The sheet as a page: one row at a time, two keys, and a CSV file to save; it loads nothing from a network.

    Args:
        name: of the sheet.
        rows: what stands on it.
        folder: of the review, for the command that takes the answers back.
        title: what the rows are.
    """
    columns = list(rows[0].values)[:MOST_VALUES] if rows else []
    digest = hashlib.sha256("\0".join(row.id for row in rows).encode(errors="surrogatepass")).hexdigest()[:16]
    data = {
        "sheet": name,
        "key": f"pucl-review {name} {digest}",
        "columns": [shorten(column, LONGEST_ID) for column in columns],
        "left_out": len(rows[0].values) - len(columns) if rows else 0,
        "rows": [
            {
                "id": shorten(row.id, LONGEST_ID),
                "cell": marked(row.id),
                "why": row.why,
                "score": round(row.score, 3),
                "values": [shorten(row.values[column], LONGEST) for column in columns],
                "picture": row.picture,
            }
            for row in rows
        ],
    }
    script = Markup("\n".join(asset(f"{part}.js", PACKAGE) for part in SCRIPTS))
    style = Markup(f"{asset('page.css')}\n{asset('sheet.css', PACKAGE)}")
    page = fill(
        asset("sheet.html", PACKAGE), head=head(f"{name} – pucl review", style=style, script=script),
        script=script, name=name, title=shorten(title, LONGEST_ID), count=f"{len(rows):,}", data=as_json(data),
        command=f"pucl review --out {shlex.quote(folder)} --add answers-{name}.csv",
    )  # fmt: skip
    return str(page).encode("utf-8", errors="replace")
