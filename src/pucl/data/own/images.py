"""Folders of images as rows: decoded batch by batch, of one size unless resizing is asked for."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data import Kind
from pucl.data.own.batch import OWNER, Batch, need
from pucl.data.readers.image_folder import opaque, opened, unreadable
from pucl.errors import Described, InputError, bad_argument, check_count, users_line

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
GREY, COLOUR = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")


@dataclass(frozen=True)
class ImageRows:
    """Image files as uint8 rows (n, c, h, w): one channel if all are grey, three otherwise; transparent is white."""

    folder: Path
    names: tuple[str, ...]
    mode: str
    size: tuple[int, int]  # height, width
    kind: Kind = "image"

    @property
    def schema(self) -> Mapping[str, str]:
        """Nothing: images have no columns."""
        return {}

    def __len__(self) -> int:
        return len(self.names)

    def batches(self, size: int) -> Iterator[Batch]:
        """All images in order, at most `size` at a time; the ids are the names of the files."""
        for start in range(0, len(self), size):
            names = self.names[start : start + size]
            yield Batch(np.stack([self._pixels(name) for name in names]), np.array(names, dtype=object))

    def ids(self) -> NDArray[np.object_]:
        """The names of the files, relative to the folder."""
        return np.array(self.names, dtype=object)

    def take(self, index: NDArray[np.intp]) -> "ImageRows":
        """The images of the given numbers, still on disk."""
        return replace(self, names=tuple(self.names[i] for i in index))

    def _pixels(self, name: str) -> NDArray[np.uint8]:
        image = _decode(self.folder / name, name).convert(self.mode)
        if (image.height, image.width) != self.size:
            image = image.resize(self.size[::-1], need("PIL.Image", "a folder of images").Resampling.BILINEAR)
        pixels = np.asarray(image, dtype=np.uint8)
        return pixels[None] if self.mode == "L" else pixels.transpose(2, 0, 1)


def image_rows(folder: Path, *, size: Any = None, skip_unreadable: bool = False) -> ImageRows:
    """All images below `folder`, in the order of their names; each is decoded once to see that it can be."""
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if _is_image(path)]
    if not names:
        raise bad_argument(OWNER, str(folder), f"a folder of images ({', '.join(SUFFIXES)})", Described("none in it"))
    shapes: dict[str, tuple[str, int, int]] = {}
    unreadable = []
    for name in names:
        try:
            image = _decode(folder / name, name)
            shapes[name] = ("L" if image.mode in GREY else "RGB", image.height, image.width)
        except InputError:
            if not skip_unreadable:
                raise
            unreadable.append(name)
    if unreadable:
        text = f"{len(unreadable)} of {len(names)} images cannot be read and are skipped, first {unreadable[0]}"
        warnings.warn(text, stacklevel=users_line())
    if not shapes:
        raise bad_argument(OWNER, str(folder), "a folder of images", Described("none that can be read"))
    mode = "L" if all(shape[0] == "L" for shape in shapes.values()) else "RGB"
    return ImageRows(folder, tuple(shapes), mode, _common_size(shapes) if size is None else _wanted_size(size))


def has_images(folder: Path) -> bool:
    """Whether there is an image below `folder`."""
    return any(_is_image(path) for path in folder.rglob("*"))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def _common_size(shapes: Mapping[str, tuple[str, int, int]]) -> tuple[int, int]:
    (first, (_, height, width)), *others = shapes.items()
    for name, (_, h, w) in others:
        if (h, w) != (height, width):
            got = Described(f"{first} of {height}×{width} and {name} of {h}×{w}")
            raise bad_argument(OWNER, "images", "of one size, or resized with size=", got)
    return height, width


def _wanted_size(size: Any) -> tuple[int, int]:
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2:
        raise bad_argument(OWNER, "size", "a number of pixels or (height, width)", size)
    return check_count(OWNER, "size", pair[0]), check_count(OWNER, "size", pair[1])


def _decode(path: Path, name: str) -> Any:
    turned = need("PIL.ImageOps", "a folder of images").exif_transpose
    try:
        with opened(path) as image:
            image.load()
            upright = turned(image)
    except unreadable() as error:
        reason = " ".join(str(error).replace(str(path), name).split())[:120] or type(error).__name__
        raise InputError(
            f"image {name} cannot be read ({reason}); skip_unreadable=True leaves it out", owner=OWNER
        ) from None
    if upright.mode not in (*GREY, *COLOUR):
        raise bad_argument(OWNER, f"image {name}", "of 8 bits per channel", Described(f"mode {upright.mode}"))
    return opaque(upright)
