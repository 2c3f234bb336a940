"""Images: folders of one's own and those of data sets."""

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from dataset_examples import noise
from fuzz.reader import MB, Files, Reader
from pucl.data.own import open_rows
from pucl.data.readers.image_folder import read_image

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".webp": "WEBP", ".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF", ".ppm": "PPM"}
MODES = {
    ".png": ("L", "LA", "P", "RGBA", "1", "I;16"),
    ".jpg": ("L", "CMYK"),
    ".tif": ("L", "RGBA", "CMYK", "F"),
    ".webp": ("RGBA",),
}


def encoded(suffix: str, mode: str = "RGB", side: int = 9, **options: Any) -> bytes:
    """A small image in a format."""
    from PIL import Image

    file = io.BytesIO()
    image = Image.fromarray(noise(side, side, 3))
    image = image.convert("L").convert("I;16") if mode == "I;16" else image.convert(mode)
    image.save(file, FORMATS[suffix], **options)
    return file.getvalue()


def _seeds(suffix: str, _: Path) -> Sequence[Files]:
    seeds = [{f"a{suffix}": encoded(suffix)}]
    seeds += [{f"a{suffix}": encoded(suffix, mode)} for mode in MODES.get(suffix, ()) if mode not in ("I;16", "F")]
    if suffix == ".jpg":
        from PIL import Image

        exif = Image.Exif()
        exif[0x0112] = 6  # turned
        seeds += [{"a.jpg": encoded(".jpg", exif=exif)}, {"a.jpg": encoded(".jpg", progressive=True)}]
    if suffix == ".tif":
        seeds += [{"a.tif": encoded(".tif", compression=name)} for name in ("tiff_lzw", "tiff_deflate", "jpeg")]
    return seeds


def _read_own(folder: Path) -> object:
    rows = open_rows(folder)
    return [batch.rows.shape for batch in rows.batches(8)]


def _read_official(folder: Path) -> object:
    return [read_image(path, size=8, mode=mode) for path in folder.iterdir() for mode in ("L", "RGB")]


def png(
    width: int, height: int, *, depth: int = 8, colour: int = 0, data: bytes | None = None, chunks: bytes = b""
) -> bytes:
    """A PNG with any header; its pixels are zeros unless given."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    if data is None:
        packer = zlib.compressobj(9)
        row = bytes(1 + (width * depth * {0: 1, 2: 3, 6: 4}.get(colour, 1) + 7) // 8)
        data = b"".join([packer.compress(row) for _ in range(height)]) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + header + chunks + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG with its checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _wide(rng: Random, _: Sequence[Files]) -> Files:
    return {"a.png": png(*rng.choice(((65_500, 3), (3, 65_500))), colour=rng.choice((0, 2)))}


def _huge(rng: Random, _: Sequence[Files]) -> Files:
    """A small file whose header claims very many pixels."""
    side = rng.choice((13_000, 65_500, 2**31 - 1))
    return {"a.png": png(side, side, data=zlib.compress(bytes(1000)))}


def _bomb(_: Random, __: Sequence[Files]) -> Files:
    return {"a.png": png(11_000, 11_000, depth=1)}


def _sizes(rng: Random, _: Sequence[Files]) -> Files:
    sides = [rng.choice((0, 1, 7, 2**31 - 1, 2**32 - 1)) for _ in range(2)]
    return {
        "a.png": png(*sides, depth=rng.choice((0, 1, 3, 16)), colour=rng.randrange(8), data=zlib.compress(bytes(90)))
    }


def _text(rng: Random, _: Sequence[Files]) -> Files:
    """Compressed texts, profiles and Exif data beside the pixels."""
    packed = zlib.compress(bytes(80 * MB), 9)
    parts = (b"zTXtname\0\0" + packed, b"iCCPname\0\0" + packed, b"eXIf" + noise(rng.randrange(200)).tobytes())
    part = rng.choice(parts)
    return {"a.png": png(4, 4, chunks=chunk(part[:4], part[4:]))}


def _other(rng: Random, _: Sequence[Files]) -> Files:
    """Another format under the name of this one: PostScript, an icon, a video, nothing, a text."""
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(canary) (w) file\nshowpage\n"
    fli = struct.pack("<IHHHHHH", 144, 0xAF12, 1, 9, 9, 8, 3) + bytes(130)
    others = (postscript, fli, b"", b"\0\0\1\0\1\0\x10\x10" + bytes(20), b"P7\nWIDTH 4\n", b"<svg/>", b"BM" + bytes(60))
    return {f"a{rng.choice(tuple(FORMATS))}": rng.choice(others)}


def _mixed(rng: Random, _: Sequence[Files]) -> Files:
    """Images of several formats, modes and sizes."""
    names = rng.sample(tuple(FORMATS), 3)
    return {f"{i}{suffix}": encoded(suffix, side=rng.choice((9, 9, 8))) for i, suffix in enumerate(names)}


def _deep(rng: Random, _: Sequence[Files]) -> Files:
    suffix, mode = rng.choice(((".png", "I;16"), (".tif", "F")))
    return {f"a{suffix}": encoded(suffix, mode)}


HOSTILE: dict[str, Callable[[Random, Sequence[Files]], Files]] = {
    "wide": _wide,
    "huge": _huge,
    "sizes": _sizes,
    "text": _text,
    "other": _other,
    "mixed": _mixed,
    "16 bits": _deep,
    "bomb": _bomb,
}
ONCE = ("text", "bomb")
READERS = (
    *(
        Reader(f"images {name}", partial(_seeds, suffix), _read_own, share=20, memory=600 * MB)
        for suffix, name in FORMATS.items()
    ),
    Reader("images hostile", partial(_seeds, ".png"), _read_own, HOSTILE, share=10, memory=600 * MB, once=ONCE),
    Reader(
        "images of data sets", partial(_seeds, ".jpg"), _read_official, HOSTILE, share=20, memory=600 * MB, once=ONCE
    ),
)
