"""One stored line: a method on one split of a table with what was measured, or a labelled share that is skipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple, TypeAlias

from pucl.bench.grid.decode import as_table, decode
from pucl.bench.results.line import Origin

OWNER = "a result"


class Place(NamedTuple):
    """One split: a table, the share of its positive training rows that is labelled, and a seed."""

    table: str
    share: float
    seed: int


@dataclass(frozen=True)
class TableCell:
    """One fit: a method on one split of a table."""

    table: str
    share: float
    seed: int
    method: str

    @property
    def place(self) -> Place:
        """The split."""
        return Place(self.table, self.share, self.seed)

    @property
    def name(self) -> str:
        """For people and for ``--only``."""
        return f"{self.table} {self.share:g} seed {self.seed} {self.method}"

    @property
    def key(self) -> str:
        """The identity of the cell."""
        return self.name


@dataclass(frozen=True)
class WeighedPrior:
    """A π̂ next to the truth.

    Attributes:
        value: π̂.
        error: |π̂ − π|.
        low: lower end of the interval, where there is one.
        high: upper end.
        covered: whether the interval holds π.
        bounded: whether π is at most its upper end.
        is_bound: whether π̂ is only an upper bound, where the method says so.
    """

    value: float
    error: float
    low: float | None = None
    high: float | None = None
    covered: bool | None = None
    bounded: bool | None = None
    is_bound: bool | None = None


@dataclass(frozen=True)
class Measures:
    """What is known of one fit with the truth at hand.

    Attributes:
        cpu_seconds: of the fit.
        auc: on test rows.
        f1: on test rows, at the method's own threshold.
        accuracy: on test rows, at the same threshold.
        f1_at_share: F1 with as many test rows found as are positive.
        rows: for training.
        columns: of the table.
        labelled: positive training rows with a label.
        pi: π, the share of positives among the unlabelled training rows.
        pu_auc: AUC of P against U by out-of-fold scores.
        tails: q_U(c) / q_P(c) where the top shares `TAILS` of P lie above c: level in a region of pure positives.
        priors: what is said of π, by estimator.
        choices: what the method chose.
        promised: recall, precision and accuracy on U, as the method estimates them.
        true: the same in truth.
    """

    cpu_seconds: float
    auc: float
    f1: float
    accuracy: float
    f1_at_share: float
    rows: int
    columns: int
    labelled: int
    pi: float
    pu_auc: float | None = None
    tails: tuple[float, ...] = ()
    priors: dict[str, WeighedPrior] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    true: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FitLine:
    """The line of one fit: its measures, or the error it ended with."""

    cell: TableCell
    role: str
    metrics: Measures | str
    origin: Origin

    def to_dict(self) -> dict[str, Any]:
        """As a file holds it."""
        found = {"error": self.metrics} if isinstance(self.metrics, str) else _plain(self.metrics)
        return {"config": _plain(self.cell), "role": self.role, "metrics": found, **_plain(self.origin)}


@dataclass(frozen=True)
class SkipLine:
    """The line of a table that has too few positive rows for a labelled share."""

    table: str
    share: float
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """As a file holds it."""
        return {"config": {"table": self.table, "share": self.share}, "skipped": self.reason}


TableLine: TypeAlias = FitLine | SkipLine


def line_from(content: object) -> TableLine:
    """What `to_dict` wrote; anything else is one error."""
    stored = dict(as_table(OWNER, "it", content))
    config = as_table(OWNER, "config", stored.pop("config", None))
    if "skipped" in stored:
        return decode(SkipLine, {**config, "reason": stored["skipped"]}, owner=OWNER)
    found = as_table(OWNER, "metrics", stored.pop("metrics", None))
    role = decode(str, stored.pop("role", None), owner=OWNER, key="role")
    metrics = str(found["error"]) if "error" in found else decode(Measures, found, owner=OWNER)
    return FitLine(decode(TableCell, config, owner=OWNER), role, metrics, decode(Origin, stored, owner=OWNER))


def _plain(value: Any) -> Any:
    """A dataclass as a dictionary without the fields that say nothing, numbers with five digits."""
    if is_dataclass(value):
        own = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return {name: item for name, item in own.items() if item is not None and item != {} and item != []}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return round(value, 5) if isinstance(value, float) else value
