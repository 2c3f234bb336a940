"""Thumbnails of the page: many in one picture that fits a number of bytes; smaller, then coarser, then fewer."""

import base64
import importlib.util
import io
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.models.evidence import Evidence, Shown

Bytes = NDArray[np.uint8]

BLOCK = 8  # tiles start at multiples of it, so that no block of a JPEG holds two of them
SAMPLE = 200  # tiles from which the size of all is predicted
CHUNK = 500
QUALITIES = (85, 60)
LIST_SIDES = (96, 64, 48, 32, 24, 16)
MAP_SIDES = (48, 32, 24, 16)
LISTS_AT_MOST = 1_600_000
SHARE_OF_LISTS = 0.5
PER_TILE = 6  # bytes of the number of a tile


@dataclass(frozen=True)
class Encoding:
    """A way to write a picture to a file."""

    media_type: str
    write: Callable[[Bytes], bytes]


@dataclass(frozen=True)
class Sheet:
    """Tiles of w × h in one picture, `across` in a row, each `pitch` pixels from the next.

    Attributes:
        source: the picture as a data: address.
        size: w and h.
        pitch: steps to the right and down.
        across: tiles in a row.
        tile: the number of the tile of each thumbnail, −1 for those left out, (k,).
    """

    source: str
    size: tuple[int, int]
    pitch: tuple[int, int]
    across: int
    tile: NDArray[np.int64]

    def as_json(self) -> dict[str, Any]:
        """What the page needs to find a tile; the tile numbers are left out, they belong to the rows."""
        return {"source": self.source, "size": self.size, "pitch": self.pitch, "across": self.across}


def sheets(evidence: Evidence, most: int) -> dict[str, Any]:
    """Sheets for the lists and the map, together at most `most` bytes; absent where rows have no pictures."""
    packed: dict[str, Any] = {}
    of_lists = [shown for shown in (evidence.top, evidence.unsure) if shown.pictures is not None and len(shown)]
    most -= PER_TILE * (len(evidence.points) + sum(map(len, of_lists))) + 1_000
    if of_lists and (lists := pack(_together(of_lists), LIST_SIDES, min(LISTS_AT_MOST, int(most * SHARE_OF_LISTS)))):
        packed["lists"] = {**lists.as_json(), "tile": _tiles(lists, evidence)}
        most -= len(lists.source)
    pictures = evidence.points.pictures
    if pictures is not None and (points := pack(pictures, MAP_SIDES, most)):
        packed["map"] = {**points.as_json(), "tile": points.tile.tolist()}
    return packed


def _together(lists: list[Shown]) -> Bytes:
    return np.concatenate([shown.pictures for shown in lists if shown.pictures is not None])


def _tiles(sheet: Sheet, evidence: Evidence) -> dict[str, list[int]]:
    """The tiles of each list, which stand on the sheet one list after the other."""
    cut = 0 if evidence.top.pictures is None else len(evidence.top)
    return {"top": sheet.tile[:cut].tolist(), "unsure": sheet.tile[cut:].tolist()}


def pack(pictures: Bytes, sides: tuple[int, ...], most: int) -> Sheet | None:
    """Thumbnails (k, h, w, c) on a sheet of at most `most` characters; None where not even one fits.

    Args:
        pictures: uint8, with c of 1 or 3.
        sides: lengths of the longer side to try, the best first; pictures are never made larger.
        most: length of the data: address.
    """
    count = len(pictures)
    if not count or not pictures.size or most <= 0:
        return None
    every = np.arange(count)
    for side, encoding in _attempts(pictures, sides):
        if _size_per_tile(pictures, side, encoding) * count <= most:
            sheet = _sheet(pictures, every, side, encoding)
            if len(sheet.source) <= most:
                return sheet
    return _fewer(pictures, min(sides), most)


def shrink(pictures: Bytes, side: int) -> Bytes:
    """Pictures (k, h, w, c) whose longer side is at most `side`, every pixel the mean of the area it covers."""
    height, width = pictures.shape[1:3]
    factor = side / max(height, width)
    if factor >= 1:
        return pictures
    down, right = _cover(height, max(1, round(height * factor))), _cover(width, max(1, round(width * factor)))
    chunks = (pictures[i : i + CHUNK].astype(np.float32) for i in range(0, len(pictures), CHUNK))
    small = (np.einsum("ah,khwc,bw->kabc", down, chunk, right, optimize=True) for chunk in chunks)
    return np.concatenate([np.clip(chunk + 0.5, 0, 255).astype(np.uint8) for chunk in small])


def _attempts(pictures: Bytes, sides: tuple[int, ...]) -> Iterator[tuple[int, Encoding]]:
    """Sides and encodings from the best to the smallest; sides that change nothing are tried once."""
    longest = max(pictures.shape[1:3])
    for side in dict.fromkeys(min(side, longest) for side in sides):
        yield from ((side, encoding) for encoding in _encodings())


def _encodings() -> tuple[Encoding, ...]:
    exact = Encoding("image/png", png)
    if importlib.util.find_spec("PIL") is None:
        return (exact,)
    return (exact, *(Encoding("image/jpeg", _jpeg(quality)) for quality in QUALITIES))


def _jpeg(quality: int) -> Callable[[Bytes], bytes]:
    def write(picture: Bytes) -> bytes:
        from PIL import Image

        file = io.BytesIO()
        image = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
        image.save(file, "JPEG", quality=quality, subsampling=0)
        return file.getvalue()

    return write


def _size_per_tile(pictures: Bytes, side: int, encoding: Encoding) -> float:
    """Characters per tile, from a sample spread evenly over the pictures."""
    sample = _spread(len(pictures), min(SAMPLE, len(pictures)))
    return len(_sheet(pictures[sample], np.arange(len(sample)), side, encoding).source) / len(sample)


def _fewer(pictures: Bytes, side: int, most: int) -> Sheet | None:
    """As many tiles of the smallest kind as fit, spread evenly."""
    encoding = _encodings()[-1]
    kept = min(len(pictures), int(most / _size_per_tile(pictures, side, encoding)))
    while kept > 0:
        sheet = _sheet(pictures, _spread(len(pictures), kept), side, encoding)
        if len(sheet.source) <= most:
            return sheet
        kept = kept * 9 // 10
    return None


def _sheet(pictures: Bytes, chosen: NDArray[np.int64], side: int, encoding: Encoding) -> Sheet:
    small = shrink(pictures[chosen], side)
    count, height, width, channels = small.shape
    pitch = (-(-width // BLOCK) * BLOCK, -(-height // BLOCK) * BLOCK)
    across = max(1, round(np.sqrt(count * pitch[1] / pitch[0])))
    rows = -(-count // across)
    room = np.zeros((rows * across, pitch[1], pitch[0], channels), np.uint8)
    room[:count] = np.pad(small, ((0, 0), (0, pitch[1] - height), (0, pitch[0] - width), (0, 0)), mode="edge")
    tiles = room.reshape(rows, across, pitch[1], pitch[0], channels).swapaxes(1, 2)
    data = encoding.write(np.ascontiguousarray(tiles.reshape(rows * pitch[1], across * pitch[0], channels)))
    source = f"data:{encoding.media_type};base64,{base64.b64encode(data).decode()}"
    tile = np.full(len(pictures), -1, np.int64)
    tile[chosen] = np.arange(len(chosen))
    return Sheet(source, (width, height), pitch, across, tile)


def _spread(count: int, kept: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, kept).round().astype(np.int64))


def _cover(old: int, new: int) -> NDArray[np.float32]:
    """The share that each of `old` pixels has in each of `new` ones, (new, old)."""
    edges = np.arange(new + 1) * old / new
    low, high = edges[:-1, None], edges[1:, None]
    at = np.arange(old)
    overlap = np.clip(np.minimum(high, at + 1) - np.maximum(low, at), 0, None)
    return np.asarray(overlap / (old / new), np.float32)


def png(picture: Bytes) -> bytes:
    """A picture (h, w, 1 or 3) of uint8 as a PNG file."""
    height, width, channels = picture.shape
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    parts = (("IHDR", head), ("IDAT", zlib.compress(_filtered(picture), 9)), ("IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name.encode(), data) for name, data in parts)


def _filtered(picture: Bytes) -> bytes:
    """The rows after the filter (none, left, above) that leaves the smallest differences in each of them."""
    height, width, channels = picture.shape
    left, above = np.zeros_like(picture), np.zeros_like(picture)
    left[:, 1:], above[1:] = picture[:, :-1], picture[:-1]
    tried = np.stack([picture, picture - left, picture - above]).reshape(3, height, width * channels)
    cost = np.abs(tried.view(np.int8).astype(np.int16)).sum(axis=2, dtype=np.int64)
    best = cost.argmin(axis=0)
    rows = tried[best, np.arange(height)]
    return np.concatenate([best.astype(np.uint8)[:, None], rows], axis=1).tobytes()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
