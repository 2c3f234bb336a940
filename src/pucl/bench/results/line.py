"""One stored result: a cell, what was measured of it, and where the numbers come from."""

from dataclasses import dataclass, field, fields

from pucl.bench.grid.cells import Cell, cell_from
from pucl.bench.grid.decode import Option, Options, as_table, decode
from pucl.bench.results.revisions import Revisions, is_outdated

OWNER = "a result"
METRIC = "accuracy"  # the metric that every result has


@dataclass(frozen=True)
class Origin:
    """Where a result comes from.

    Attributes:
        versions: of the libraries that numbers are computed with, by name.
        hardware: the card, or the processor and its threads.
        commit: of the package, marked where its files had changes.
    """

    versions: dict[str, str]
    hardware: str
    commit: str


@dataclass(frozen=True)
class ResultLine:
    """A line of a results file.

    Attributes:
        cell: what was measured.
        metrics: numbers by name; in per cent but for `loss` and priors.
        seconds: that the cell took, without its encoder.
        time: when it was finished, as ISO 8601 in UTC.
        revisions: of the code it was made with, see `pucl.bench.results.revisions`.
        origin: versions, hardware and commit.
        encoder_seconds: of training its encoder, where it has one.
        warnings: that were raised meanwhile.
    """

    cell: Cell
    metrics: dict[str, float]
    seconds: float
    time: str
    revisions: Revisions
    origin: Origin
    encoder_seconds: float | None = None
    warnings: tuple[str, ...] = field(default=())

    @property
    def key(self) -> str:
        """The identity of the cell."""
        return self.cell.key

    @property
    def accuracy(self) -> float:
        """Test accuracy in per cent."""
        return float(self.metrics[METRIC])

    @property
    def is_outdated(self) -> bool:
        """Whether the code would give another result today."""
        return is_outdated(self.revisions, self.cell)

    def to_dict(self) -> dict[str, Option]:
        """As a file holds it; the key comes first."""
        encoder = {} if self.encoder_seconds is None else {"encoder_seconds": self.encoder_seconds}
        origin = {name.name: getattr(self.origin, name.name) for name in fields(Origin)}
        return {
            "key": self.key,
            "config": self.cell.to_dict(),
            "metrics": self.metrics,
            "seconds": self.seconds,
            **encoder,
            "time": self.time,
            "revisions": dict(self.revisions),
            **origin,
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }

    @classmethod
    def from_dict(cls, content: object) -> "ResultLine":
        """What `to_dict` wrote; anything else is one error."""
        table = dict(as_table(OWNER, "it", content))
        cell = cell_from(table.pop("config", None))
        stored = decode(_StoredLine, table, owner=OWNER)
        if METRIC not in stored.metrics:
            raise ValueError(f"metrics without an {METRIC}")
        if cell.key != stored.key:
            raise ValueError("a configuration that does not match its key")
        origin = Origin(stored.versions, stored.hardware, stored.commit)
        return cls(
            cell, stored.metrics, stored.seconds, stored.time, stored.revisions, origin, stored.encoder_seconds,
            stored.warnings,
        )  # fmt: skip


@dataclass(frozen=True)
class _StoredLine:
    """A line as a file holds it, without its configuration."""

    key: str
    metrics: dict[str, float]
    seconds: float
    time: str
    revisions: dict[str, int]
    versions: dict[str, str]
    hardware: str
    commit: str
    encoder_seconds: float | None = None
    warnings: tuple[str, ...] = ()


def same_numbers(first: ResultLine, second: ResultLine) -> bool:
    """Whether two results of a cell agree."""
    return _numbers(first) == _numbers(second)


def _numbers(line: ResultLine) -> Options:
    return {name: float(value) for name, value in line.metrics.items()}
