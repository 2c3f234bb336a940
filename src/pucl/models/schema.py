"""What a model takes: the kind and shape of its rows, and how a table or an image becomes one."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.data import Kind
from pucl.data.own import Batch, OwnData, Rows, Table, TableTransform, open_rows
from pucl.data.own.batch import load
from pucl.data.own.dates import source_of
from pucl.data.own.expand import Expand
from pucl.data.own.files import is_of_tables
from pucl.data.own.images import ImageRows
from pucl.data.own.opening import is_frame
from pucl.data.own.texts import TextFiles, TextRows, is_texts
from pucl.encoders.inputs import as_rows
from pucl.errors import Described, InputError, bad_argument, some
from pucl.texts import HASHED, Arrays

OWNER = "pucl"
MANY = 128  # columns from which a matrix of numbers is taken for embeddings
ARRAYS = (".npy", ".npz")
LARGEST = 1 << 28  # numbers in a row of a stored schema
FAR = 1.0  # how far outside [0, 1] pixels may lie before they are taken to be on another scale
BRIGHT = 128  # a largest value from which float images are taken for bytes
SAME_NORM = 1e-3  # relative spread of the norms of rows below which they are taken for normalised embeddings


@dataclass(frozen=True)
class Schema:
    """How rows come in.

    Attributes:
        kind: ``"image"``, ``"table"`` or ``"vector"``.
        shape: of one row as the encoder takes it.
        columns: the feature columns and their types; empty where rows have no named columns.
        low: the value of float images that becomes 0.
        span: float images become (x − low) / span, within [0, 1]; uint8 images stay as they are.
        transform: of tables, how columns become features.
        resize: whether images of another size are resized, as those of training were.
    """

    kind: Kind
    shape: tuple[int, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    low: float = 0.0
    span: float = 1.0
    transform: TableTransform | None = None
    resize: bool = False

    def encode(self, rows: Any, *, owner: str = OWNER) -> Tensor:
        """Rows as a model takes them, from a `Table` or an array of the model's kind: (n, *shape), or compact rows."""
        if isinstance(rows, Batch):
            rows = rows.rows
        if self.transform is not None:
            return torch.from_numpy(self.transform.compact(rows))
        x = as_rows(rows, owner=owner)
        if tuple(x.shape[1:]) != self.shape:
            raise self._misfit(owner, f"shape {tuple(x.shape[1:])}")
        if self.kind == "image" and x.dtype != torch.uint8:
            return self._scaled(x, owner)
        return x

    @property
    def expand(self) -> Expand | None:
        """From compact rows of a table to features; None where rows are taken as they are."""
        return None if self.transform is None else self.transform.expand

    @torch.no_grad()
    def features(self, rows: Tensor) -> Tensor:
        """Rows as the encoder takes them (n, *shape), from what `encode` gives."""
        expand = self.expand
        if expand is None:
            return rows
        features: Tensor = expand(rows)
        return features

    def rows(self, source: Any, *, owner: str = OWNER) -> Tensor:
        """All rows of an array, a frame or what `pucl.read` returned, as a model takes them."""
        return self.encode(load(self.open(source, owner=owner)), owner=owner)

    def open(self, source: Any, *, owner: str = OWNER, resize: bool = False, **options: Any) -> Rows:
        """The rows of any source, to be read batch by batch; an error names the columns that are missing.

        Args:
            source: what `pucl.read` takes or returned.
            owner: who signs the errors.
            resize: resize images to the size of training.
            **options: the other arguments of `open_rows`, such as ``id_column``.
        """
        if resize and self.kind != "image":
            raise bad_argument(owner, "resize", f"left out for a model of kind {self.kind!r}", resize)
        path = Path(source) if isinstance(source, str | Path) else None
        folder = path is not None and path.is_dir() and (self.kind == "image" or not is_of_tables(path))
        images = self.kind == "image" and (folder or isinstance(source, OwnData))
        size = self.shape[1:] if images and (resize or self.resize) else None
        if isinstance(source, OwnData):
            return self._as_trained(source.rows, size, owner)
        named_file = path is not None and path.suffix.lower() not in ARRAYS
        if path is not None and named_file and path.exists() and not self._takes(folder=folder):
            raise self._misfit(owner, f"the {'folder' if path.is_dir() else 'file'} {path.name}")
        by_name = bool(self.columns) and not folder
        by_name = by_name and (named_file or (not is_texts(source) and is_frame(source)))
        named: dict[str, Any] = {"columns": self.needed} if by_name else {}
        text = self.as_text if by_name else ()
        rows = open_rows(source, kind=self.kind, categorical=text, size=size, **named, **options)
        if isinstance(rows, TextRows | TextFiles) and self.only_text is not None:
            return replace(rows, name=self.only_text)
        if self.kind == "table" and not named and tuple(rows.schema) != tuple(self.columns):
            names = f"a frame or file whose columns have the names of training: {some(self.given)}"
            if path is None:
                names += "; pd.DataFrame(X, columns=[…]) names those of an array, in that order"
            width = len(rows.schema)
            raise bad_argument(owner, "X", names, Described(f"an array of {width:,} columns without names"))
        return self._as_trained(rows, size, owner)

    @property
    def only_text(self) -> str | None:
        """The column of text where that is all a model takes, so that a list or a folder of texts will do."""
        texts = () if self.transform is None else self.transform.texts
        return texts[0].name if len(texts) == 1 and self.needed == (texts[0].name,) else None

    @property
    def as_text(self) -> tuple[str, ...]:
        """The columns to be read as text, of which training has seen none as dates."""
        named = () if self.transform is None else self.transform.read_as_text
        return tuple(name for name in named if self.columns.get(name) != "date")

    def _takes(self, *, folder: bool) -> bool:
        """Whether a folder of images or texts, or else tables, can hold such rows."""
        return self.kind == "image" or self.only_text is not None if folder else self.kind != "image"

    @property
    def as_scaled(self) -> NDArray[np.bool_]:
        """Features (d,) whose scale means something, so that nothing may standardise them: vectors of texts."""
        if self.transform is None:
            return np.zeros(self.shape[0], dtype=bool)
        return np.concatenate(
            [np.full(len(rule.features), rule in self.transform.texts) for rule in self.transform.rules]
        )

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns a table must have."""
        return self.transform.columns if self.transform is not None else tuple(self.columns)

    @property
    def given(self) -> tuple[str, ...]:
        """The feature columns as the user has them, without the parts of dates."""
        return tuple(name for name in self.columns if source_of(name, self.columns) == name)

    @property
    def sources(self) -> dict[str, tuple[int, ...]]:
        """The places in a row that `encode` gives by the column they are made of; those of a date with its parts."""
        rules = () if self.transform is None else self.transform.rules
        places: dict[str, tuple[int, ...]] = {}
        start = 0
        for rule in rules:
            name = source_of(rule.name, self.columns)
            places[name] = (*places.get(name, ()), *range(start, start + rule.width))
            start += rule.width
        return places

    def _as_trained(self, rows: Rows, size: tuple[int, ...] | None, owner: str) -> Rows:
        """Images grey or in colour, and of the size, as in training, whatever the folder holds."""
        if rows.kind != self.kind:
            raise self._misfit(owner, f"rows of kind {rows.kind!r}")
        if not isinstance(rows, ImageRows):
            return rows
        height, width = size or rows.size
        return replace(rows, mode="L" if self.shape[0] == 1 else "RGB", size=(height, width))

    def _scaled(self, images: Tensor, owner: str) -> Tensor:
        """Images of floats within [0, 1]; those of another scale than training's are refused."""
        images = (images - self.low) / self.span if (self.low, self.span) != (0.0, 1.0) else images
        if len(images) and (float(images.min()) < -FAR or float(images.max()) > 1 + FAR):
            low, high = (float(value) * self.span + self.low for value in (images.min(), images.max()))
            raise self._misfit(owner, f"values from {low:.4g} to {high:.4g}")
        return images

    def _misfit(self, owner: str, got: str) -> InputError:
        """What the model takes, and what came instead."""
        shape = "×".join(map(str, self.shape[1:]))
        channels = {1: "grey", 3: "colour"}.get(self.shape[0], f"{self.shape[0]}-channel")
        allowed = {
            "image": f"{channels} images of {shape} within [{self.low:g}, {self.low + self.span:g}] or of uint8, "
            "as in training (resize=True resizes files)",
            "table": f"a table with the {len(self.columns)} columns of training ({some(self.given)})",
            "vector": f"vectors of {self.shape[0]} numbers, as in training",
        }
        return bad_argument(owner, "X", allowed[self.kind], Described(got))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `from_dict` gives back an equal schema, from this and the `arrays`."""
        transform = json.loads(self.transform.to_json()) if self.transform is not None else None
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "columns": dict(self.columns),
            "low": self.low,
            "span": self.span,
            "transform": transform,
            "resize": self.resize,
        }

    @property
    def arrays(self) -> Arrays:
        """What text encoders have learnt; empty without texts."""
        return {} if self.transform is None else self.transform.arrays

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], arrays: Arrays | None = None) -> "Schema":
        """The schema that `to_dict` gave, checked; without its `arrays` it does not encode texts."""
        try:
            kind, shape, columns = content["kind"], tuple(content["shape"]), dict(content["columns"])
            low, span, stored = float(content["low"]), float(content["span"]), content["transform"]
            sound = kind in get_args(Kind) and all(isinstance(size, int) and size > 0 for size in shape) and span > 0
            sound = sound and math.prod(shape) <= LARGEST
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a stored schema: {error!r}", owner=OWNER) from None
        transform = TableTransform.from_json(json.dumps(stored), arrays) if stored is not None else None
        if transform is not None:
            sound = sound and (len(transform.features),) == shape and {*transform.columns} <= {*columns}
        if not sound:
            raise InputError("the stored schema is damaged", owner=OWNER)
        return cls(kind, shape, columns, low, span, transform, bool(content.get("resize", False)))


def learn_schema(
    source: Any,
    *,
    kind: Kind | None = None,
    categorical: Sequence[str] = (),
    text_columns: Sequence[str] = (),
    text_encoder: str = HASHED,
    download: bool = False,
    content: Any = None,
    owner: str = OWNER,
) -> tuple[Schema, Tensor]:
    """The schema of training rows, and the rows as a model takes them.

    A frame is a table, and so are texts. A matrix of numbers is a table too, unless its rows look like embeddings:
    `MANY` columns or more, or all rows of the same norm and no whole numbers, and nothing missing. An array of three or
    four dimensions is images: grey without channels, or channels first or last. `content` are the rows in memory, if
    they have been read already.
    """
    opened = source.rows if isinstance(source, OwnData) else _opened(source, kind)
    content = load(opened) if content is None else content
    if isinstance(content, Table):
        transform = TableTransform.fit(
            content, categorical=categorical, text_columns=text_columns, text_encoder=text_encoder, download=download
        )
        rows = torch.from_numpy(transform.compact(content))
        return Schema("table", (len(transform.features),), dict(content.types), transform=transform), rows
    for name, columns in (("categorical", categorical), ("text_columns", text_columns)):
        if columns:
            raise bad_argument(owner, name, f"left out for data of kind {opened.kind!r}", tuple(columns))
    low, span = _range(content) if opened.kind == "image" and content.dtype != np.uint8 else (0.0, 1.0)
    schema = Schema(opened.kind, tuple(content.shape[1:]), dict(opened.schema), low, span)
    return schema, schema.encode(content, owner=owner)


def _opened(source: Any, kind: Kind | None) -> Rows:
    opened = open_rows(source, kind=kind)
    if kind is None and opened.kind == "vector" and not opened.schema and not _embeddings(np.asarray(opened.open())):  # type: ignore[attr-defined]
        return open_rows(source, kind="table")
    return opened


def _embeddings(matrix: NDArray[Any]) -> bool:
    """Whether a matrix looks like embeddings rather than a table."""
    if matrix.dtype.kind != "f" or not np.isfinite(matrix).all():
        return False
    if matrix.shape[1] >= MANY:
        return True
    largest = np.abs(matrix).max()
    length = np.linalg.norm(matrix.astype(np.float64) / (largest or 1), axis=1)  # no square may overflow
    same = matrix.shape[1] > 2 and bool(np.ptp(length) <= SAME_NORM * length.max())
    return same and bool((matrix % 1 != 0).any())  # categories as columns of zeros and ones have one norm, too


def _range(images: NDArray[Any]) -> tuple[float, float]:
    """Where float images lie: within [0, 1], up to 255 as bytes do, else from the least to the largest value."""
    low, high = float(images.min()), float(images.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if low >= 0 and BRIGHT <= high <= 255:
        return 0.0, 255.0
    return low, high - low or 1.0
