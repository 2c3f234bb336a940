"""A training sample of a table of any size, drawn in one pass over its files.

Every row has a key that looks random: a hash of the seed and of its id or, without ids, of the name of its file and its
number in it. Of every kind of rows those with the lowest keys are kept. So a row is kept or not whatever is read before
it: neither the order of the files nor the size of batches matters and, with ids, neither does which file it is in.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import OWNER, PASS, need
from pucl.data.own.labelled_rows import RowList, check_distinct
from pucl.data.own.reading import OwnData, ReadOptions
from pucl.data.own.row_keys import Keys, keys_of_ids, keys_of_rows
from pucl.data.own.scan import scan_frame
from pucl.data.own.streamed_labels import ReadRows, streamed_labels
from pucl.data.own.table_rows import TableRows
from pucl.errors import Described, about_file, bad_argument, check_count
from pucl.labels import check_negatives

FEWEST = 4  # rows that a sample may have
MOST_POSITIVE, MOST_NEGATIVE = 2, 4  # one in so many rows of the sample may be one
SLACK = 1.5  # times the rows to keep that are held before the others are let go


@dataclass(frozen=True)
class Source:
    """The rows that a sample was drawn from.

    Attributes:
        labelled: how many are labelled positives.
        unlabelled: how many are neither labelled nor confirmed negatives.
        negative: how many are confirmed negatives.
        key: what decides whether a row is drawn, in words.
    """

    labelled: int
    unlabelled: int
    negative: int
    key: str

    @property
    def n(self) -> int:
        """How many rows there are."""
        return self.labelled + self.unlabelled + self.negative


def can_draw(reading: ReadOptions) -> bool:
    """Whether `draw` reads such labels: a column, or a list of the positives."""
    of_column = isinstance(reading.label, str) and not reading.label.endswith(".npy")
    return (of_column and reading.positives is None) or (reading.label is None and reading.positives is not None)


def draw(
    rows: TableRows,
    reading: ReadOptions,
    n: int,
    *,
    seed: int = 0,
    also: Collection[str] = (),
    on_rows: Callable[[int], None] | None = None,
) -> tuple[OwnData, Source]:
    """At most n rows: the labelled positives, the confirmed negatives and a uniform sample of the unlabelled rows.

    The positives are at most half of the sample and the negatives a quarter; where there are more, they are a uniform
    sample, too. So the share of positives inside U stays what it is. Nothing is held in memory that grows with the
    number of rows. The rows come in the order of their keys.

    Args:
        rows: of one or of many files, opened as `reading` says.
        reading: where the labels are.
        n: how many rows.
        seed: the same seed draws the same rows.
        also: ids of unlabelled rows that are added where they are not drawn, and marked as `extra`.
        on_rows: called with how many rows were read.
    """
    check_count(OWNER, "n", n, low=FEWEST)
    check_count(OWNER, "seed", seed, low=0)
    labels = streamed_labels(reading.label, reading.positive_value, reading.positives, rows.id_column)
    if labels.column is not None:
        rows.scan.check_columns(labels.column)
    negatives = None
    if reading.negatives is not None:
        negatives = RowList("negatives", reading.negatives, id_column=rows.id_column)
    named = RowList("also", list(also), id_column=rows.id_column) if also else None
    kept: dict[tuple[Any, bool], Lowest] = {}
    asked: dict[Any, Lowest] = {}  # the rows of `also` by their label
    n_rows, name = 0, rows.scan.name
    for read, keys in _batches(rows, labels.column, seed):
        n_rows += len(keys)
        known = np.zeros(len(keys), dtype=bool) if negatives is None else negatives.mask(read.ids, read.start)
        wanted = np.zeros(len(keys), dtype=bool) if named is None else named.mask(read.ids, read.start) & ~known
        part = Part(keys, np.arange(read.start, n_rows), read.columns.select(rows.wanted))
        with about_file(name):
            values = list(labels.of(read))
        for value, said in values:
            for negative in (False, True):
                kept.setdefault((value, negative), Lowest(n)).add(part, said & (known == negative))
            asked.setdefault(value, Lowest(max(1, len(also)))).add(part, said & wanted)
        if on_rows is not None:
            on_rows(n_rows)
    if negatives is not None:
        negatives.check(n_rows)
    kept = {kind: lowest for kind, lowest in kept.items() if lowest.seen}
    counts: dict[Any, int] = {}
    for (value, _), lowest in kept.items():
        counts[value] = counts.get(value, 0) + lowest.seen
    with about_file("" if labels.column is None else name):
        positive = labels.positive(counts)
    with about_file(name):
        return _sampled(rows, positive, kept, {value: lowest for value, lowest in asked.items() if lowest.seen}, n)


def _batches(rows: TableRows, label: str | None, seed: int) -> Iterator[tuple[ReadRows, Keys]]:
    """The rows with their keys, file after file."""
    columns, start = list(dict.fromkeys([*rows.wanted, *([] if label is None else [label])])), 0
    for file in rows.scan.parts or (rows.scan,):
        first = start
        for batch in file.read(columns, PASS):
            with about_file(file.name):
                ids = rows.ids_of(batch, start)
                if rows.id_column is None:
                    keys = keys_of_rows(file.name, start - first, len(batch), seed)
                else:
                    keys = keys_of_ids(batch.column(rows.id_column), rows.id_column, seed)
            yield ReadRows(batch, ids, start), keys
            start += len(batch)


class Part(NamedTuple):
    """Some rows: their keys, their numbers in the source, and their columns in an Arrow batch or table."""

    keys: Keys
    numbers: NDArray[np.int64]
    columns: Any

    def take(self, index: NDArray[np.intp]) -> "Part":
        """The rows at these places."""
        return Part(self.keys[index], self.numbers[index], self.columns.take(need("pyarrow", "a table").array(index)))

    @classmethod
    def joined(cls, parts: Sequence["Part"]) -> "Part":
        """The rows of all parts."""
        pa = need("pyarrow", "a table")
        tables = [
            part.columns if isinstance(part.columns, pa.Table) else pa.Table.from_batches([part.columns])
            for part in parts
        ]
        keys, numbers = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:2])
        return cls(keys, numbers, pa.concat_tables(tables).unify_dictionaries().combine_chunks())

    def without(self, other: "Part") -> "Part":
        """The rows that are not among others."""
        return self.take(np.flatnonzero(~np.isin(self.numbers, other.numbers)))

    def lowest(self, n: int) -> "Part":
        """The n rows with the lowest keys, in the order of their keys; all of them where there are fewer."""
        return self.take(np.argsort(self.keys, kind="stable")[:n])


class Lowest:
    """The n rows with the lowest keys of all that were added, and how many these were."""

    def __init__(self, n: int) -> None:
        self.seen, self._n = 0, n
        self._parts: list[Part] = []
        self._held, self._limit = 0, np.uint64(2**64 - 1)

    def add(self, part: Part, mask: NDArray[np.bool_]) -> None:
        """Add the rows of a part that a mask marks."""
        self.seen += int(mask.sum())
        index = np.flatnonzero(mask & (part.keys <= self._limit))
        if not len(index):
            return
        self._parts.append(part.take(index))
        self._held += len(index)
        if self._held > SLACK * self._n:
            lowest = self.rows()
            self._parts, self._held, self._limit = [lowest], len(lowest.keys), lowest.keys[-1]

    def rows(self) -> Part:
        """The rows that are kept."""
        return Part.joined(self._parts).lowest(self._n)


def _sampled(
    rows: TableRows,
    positive: Collection[Any],
    kept: Mapping[tuple[Any, bool], Lowest],
    asked: Mapping[Any, Lowest],
    n: int,
) -> tuple[OwnData, Source]:
    """The sample out of the rows that were kept, now that it is known which labels mean a positive."""
    kinds: dict[str, list[Lowest]] = {"labelled": [], "negative": [], "unlabelled": []}
    for (value, negative), lowest in kept.items():
        if negative and value in positive:
            _refuse_both(rows, lowest.rows())
        kinds["labelled" if value in positive else "negative" if negative else "unlabelled"].append(lowest)
    seen = {kind: sum(lowest.seen for lowest in each) for kind, each in kinds.items()}
    sizes = {
        "labelled": min(seen["labelled"], n // MOST_POSITIVE),
        "negative": min(seen["negative"], n // MOST_NEGATIVE),
    }
    sizes["unlabelled"] = n - sum(sizes.values())
    drawn = {
        kind: Part.joined([lowest.rows() for lowest in each]).lowest(sizes[kind])
        for kind, each in kinds.items()
        if each
    }
    extra = [lowest.rows().without(drawn["unlabelled"]) for value, lowest in asked.items() if value not in positive]
    if any(len(part.keys) for part in extra):
        drawn["extra"] = Part.joined(extra)
    whole = Part.joined(list(drawn.values()))
    kind_of = np.concatenate([np.full(len(part.keys), kind) for kind, part in drawn.items()])
    order = np.argsort(whole.keys, kind="stable")
    whole, kind_of = whole.take(order), kind_of[order]
    s, negative = kind_of == "labelled", kind_of == "negative"
    scan = replace(scan_frame(whole.columns), name=rows.scan.name)
    sample = replace(rows, scan=scan)
    ids = whole.numbers
    if rows.id_column is not None:
        ids = sample.ids()
        check_distinct(ids, rows.id_column)
    known = check_negatives(negative, s, len(s), OWNER) if kinds["negative"] else None
    key = "file and row number" if rows.id_column is None else f"the id in column {rows.id_column!r}"
    added = kind_of == "extra" if "extra" in drawn else None
    return OwnData(sample, s, ids, known, added), Source(**seen, key=key)


def _refuse_both(rows: TableRows, part: Part) -> None:
    """The error for a row that is both a labelled positive and a confirmed negative."""
    first = part.numbers[0] if rows.id_column is None else rows.ids_of(part.columns.to_batches()[0], 0)[0]
    got = Described(f"{'row ' if rows.id_column is None else ''}{first}, which is a labelled positive")
    raise bad_argument(OWNER, "negatives", "rows that are not labelled positives", got)
