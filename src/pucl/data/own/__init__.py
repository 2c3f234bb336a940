"""User data: arrays, frames, files and folders of images with s, and the transform of tables.

`read` gives rows and s, `sample` draws some of them from a file larger than memory, `batches` streams rows to
score, and `TableTransform` turns tables into float32 rows, in training and prediction alike.
"""

from pucl.data.own.batch import Batch, Rows, Table
from pucl.data.own.opening import batches, open_rows
from pucl.data.own.reading import OwnData, ReadOptions, read, sample
from pucl.data.own.transform import TableTransform

__all__ = [
    "Batch",
    "OwnData",
    "ReadOptions",
    "Rows",
    "Table",
    "TableTransform",
    "batches",
    "open_rows",
    "read",
    "sample",
]
