"""Folders of images, one folder to a class, read into one array of equal squares."""

import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.data.sources import damaged
from pucl.data.tasks import Split
from pucl.errors import InputError, check_count, how_to_install, one_line, users_line

FORMATS = ("BMP", "GIF", "JPEG", "MPO", "PNG", "PPM", "TIFF", "WEBP")  # which the endings stand for
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def list_images(folder: Path) -> list[Path]:
    """The image files directly in a folder, by name; none if there is no such folder."""
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in files if path.suffix.lower() in ENDINGS)


def read_image_split(
    groups: Sequence[Sequence[Path]], *, size: int, mode: Literal["L", "RGB"], skip_unreadable: bool = False
) -> Split:
    """Images (n, c, size, size) of every group of files; the index of the group is the class.

    An image that is not square is scaled until it covers the square and cut to its middle.

    Args:
        groups: the files of each class.
        size: the side of the square in pixels.
        mode: ``"L"`` for one channel of grey, ``"RGB"`` for three of colour.
        skip_unreadable: leave out images that cannot be read, with one warning that names them; else the first is an
            error.
    """
    check_count("pucl.data", "size", size)
    files = [(path, label) for label, group in enumerate(groups) for path in group]
    x = np.empty((len(files), 3 if mode == "RGB" else 1, size, size), np.uint8)
    unreadable: list[int] = []
    for row, (path, _) in enumerate(files):
        try:
            x[row] = read_image(path, size=size, mode=mode)
        except InputError:
            if not skip_unreadable:
                raise
            unreadable.append(row)
    classes = np.array([label for _, label in files], np.int64)
    if not unreadable:
        return Split(x, classes)
    names = ", ".join(str(files[row][0]) for row in unreadable[:5]) + (", …" if len(unreadable) > 5 else "")
    warnings.warn(f"{len(unreadable)} unreadable image(s) left out: {names}", stacklevel=users_line())
    return Split(np.delete(x, unreadable, axis=0), np.delete(classes, unreadable))


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An image of Pillow that can be decoded inside; one that is damaged raises one of `unreadable()`.

    Whatever its name says, it is of one of `FORMATS`: to read PostScript, Pillow would start another program. More
    pixels than Pillow finds safe are an error, and what it says of damage that does no harm is left out.
    """
    from PIL import Image

    Image.init()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN]) as image:
            yield image


def unreadable() -> tuple[type[Exception], ...]:
    """What Pillow raises for images that it cannot read, or that have too many pixels."""
    from PIL import Image

    too_many = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    damaged = (SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, struct.error)
    return (OSError, MemoryError, *damaged, *too_many)


def opaque(image: Any) -> Any:
    """A Pillow image without transparency: what shows through is white; grey stays grey.

    A plain conversion would drop the alpha channel and show what lies beneath, which is often black everywhere.
    """
    if image.mode not in ("LA", "PA", "RGBA") and "transparency" not in image.info:
        return image
    from PIL import Image

    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("L" if image.mode in ("L", "LA") else "RGB")


def read_image(path: Path, *, size: int, mode: Literal["L", "RGB"]) -> NDArray[np.uint8]:
    """One image as an array (c, size, size); an unreadable one is an error that names it."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise InputError(f"{path}: reading images needs Pillow: {how_to_install('data')}") from error
    try:
        with opened(path) as file:
            image = ImageOps.fit(opaque(file).convert(mode), (size, size), Image.Resampling.BICUBIC)
    except unreadable() as error:
        raise damaged(path, f"not a readable image ({one_line(error)})") from error
    pixels = np.asarray(image, np.uint8).reshape(size, size, -1)
    return pixels.transpose(2, 0, 1)
