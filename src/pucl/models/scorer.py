"""A model as one function from a batch of rows to their scores, which any engine can send to its processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import need
from pucl.errors import Described, bad_argument, check_known, signed_by, some
from pucl.models.folder import read_card
from pucl.models.labelling import LabelRule
from pucl.models.model import Model
from pucl.models.schema import Schema
from pucl.models.scoring import ScoredRows, columns_of, scores
from pucl.models.source import ModelSource

OWNER = "pucl.scorer"


@dataclass(frozen=True)
class Scorer:
    """From a batch of rows to probability, label and reliability of each, in the same kind of container.

    It can be pickled. A process that calls it loads the model at the first call, and once. See `pucl.scorer`.
    """

    source: ModelSource
    rule: LabelRule = field(default_factory=LabelRule)
    keep: tuple[str, ...] | None = None
    column: str | None = None
    strict: bool = False
    device: str | None = None

    @signed_by(OWNER)
    def __call__(self, batch: Any) -> Any:
        """The scores of a batch: a mapping of arrays, an Arrow, pandas or polars table, or an array of rows."""
        model = self.source.load(self.device)
        names = columns_of(model)[1:]
        columns = {name: _column(batch, name) for name in self._kept(batch, model.record.id_column)}
        return _like(batch, columns | self._scores(model, batch).columns(names))

    def _kept(self, batch: Any, id_column: str | None) -> Sequence[str]:
        """The columns of the batch that stand before its scores."""
        there = _names(batch)
        if self.keep is None:
            return [id_column] if id_column in there else []
        check_known(OWNER, "column of the batch", self.keep, there)
        return self.keep

    def _scores(self, model: Model, batch: Any) -> ScoredRows:
        if not _length(batch):
            nothing = np.empty(0)
            return ScoredRows(nothing, nothing, nothing, nothing.astype(bool), nothing)
        rule: dict[str, Any] = {name: value for name, value in vars(self.rule).items() if name != "top"}
        parts = list(scores(model, self._rows(model.schema, batch), strict=self.strict, **rule))
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])}
        return ScoredRows(**joined)

    def _rows(self, schema: Schema, batch: Any) -> Any:
        """What `scores` takes: a table with the columns of the model, texts, or an array of rows."""
        names = _names(batch)
        if not names:
            return batch
        if self.column is not None:
            check_known(OWNER, "column of the batch", [self.column], names)
            column = _column(batch, self.column)
            return _values(column) if schema.only_text is not None else _array(column)
        wanted = [name for name in names if name in schema.needed]
        if wanted:
            return _table(batch, wanted)
        arrays = [name for name in names if np.ndim(_column(batch, name)) > 1]
        if schema.kind == "table" and not arrays:
            return _table(batch, names)  # the error names the columns that are missing
        arrays = arrays if len(names) > 1 else names
        if len(arrays) != 1:
            got = Described(f"a batch with the columns {some(names)}")
            raise bad_argument(OWNER, "column", "the name of the column that holds the rows", got)
        return _array(_column(batch, arrays[0]))


@signed_by(OWNER)
def scorer(
    model: Model | str | Path,
    *,
    threshold: float | None = None,
    recall: float | None = None,
    precision: float | None = None,
    keep: Sequence[str] | None = None,
    column: str | None = None,
    strict: bool = False,
    device: str | None = None,
) -> Scorer:
    """A function from a batch of rows to their scores, which can be sent to the processes of any engine.

    The batch is a mapping of arrays, an Arrow, pandas or polars table, or an array; what comes back is of the same kind
    (a mapping for an array) and has the columns ``probability``, ``label`` and ``reliability``, or ``score`` and
    ``label`` where π is only bounded. The numbers are those of `pucl predict` on a file with the same rows.

    Args:
        model: a fitted one, or its folder, which all processes must see then.
        threshold: of the probability, for the label; the model's own, 0.5, when nothing else is given.
        recall: label with the threshold that finds this share of the positives, by held-out rows; needs no π.
        precision: label with the lowest threshold at which this share of the labelled rows should be positive.
        keep: columns of the batch that come back too; the id column of training, if it is there, when not given.
        column: which column has the images, vectors or texts, if there are others beside it.
        strict: refuse categories and missing values that training did not have.
        device: where encoders compute; a GPU if the process has one.
    """
    rule = LabelRule(threshold, None, recall, precision)
    if isinstance(model, str | Path):
        source = ModelSource.of_folder(model)
        about: Any = read_card(model)
    else:
        source, about = ModelSource.of_model(model), model
    rule.checked(about, owner=OWNER)
    clash = sorted({*(keep or ())} & {*columns_of(about)[1:]})
    if clash:
        allowed = f"columns with other names than those of the scores ({some(columns_of(about)[1:])}); rename it first"
        raise bad_argument(OWNER, "keep", allowed, clash[0])
    return Scorer(source, rule, None if keep is None else tuple(keep), column, strict, device)


def _names(batch: Any) -> list[str]:
    """The names of the columns; none for an array."""
    if isinstance(batch, Mapping):
        return list(batch)
    if _library(batch) == "pyarrow":
        return list(batch.schema.names)
    return [str(name) for name in getattr(batch, "columns", ())]


def _library(batch: Any) -> str:
    """The package that the type of a batch comes from."""
    return type(batch).__module__.partition(".")[0]


def _length(batch: Any) -> int:
    return len(next(iter(batch.values()), ())) if isinstance(batch, Mapping) else len(batch)


def _column(batch: Any, name: str) -> Any:
    return batch.column(name) if _library(batch) == "pyarrow" else batch[name]


def _table(batch: Any, names: list[str]) -> Any:
    """Columns of a batch as a frame or an Arrow table of one piece."""
    arrow = need("pyarrow", "a batch of columns")
    if isinstance(batch, Mapping):
        return arrow.table({name: arrow.array(batch[name], from_pandas=True) for name in names})
    if _library(batch) != "pyarrow":
        return batch[names]
    table = arrow.Table.from_batches([batch]) if isinstance(batch, arrow.RecordBatch) else batch
    return table.select(names).combine_chunks()


def _values(column: Any) -> list[Any]:
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)


def _array(column: Any) -> NDArray[Any]:
    """A column of images or vectors as one array."""
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(column, "to_numpy_ndarray"):  # Arrow's own type of tensors
        tensors: NDArray[Any] = column.to_numpy_ndarray()
        return tensors
    array = np.asarray(_values(column) if hasattr(column, "to_pylist") else column)
    return np.stack([np.asarray(row) for row in array]) if array.dtype == object else array


def _like(batch: Any, columns: dict[str, Any]) -> Any:
    """Columns in the kind of container that the batch is."""
    library = _library(batch)
    if library == "pandas":
        return type(batch)(columns, index=batch.index)
    if library == "polars":
        return type(batch)(columns)
    return type(batch).from_pydict(columns) if library == "pyarrow" else columns
