"""Stored maps: embeddings of test rows in two dimensions, one line of a file for each encoder."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pucl.bench.grid.decode import Option, Options, as_table, decode
from pucl.bench.grid.identity import key_of
from pucl.bench.results.json_lines import appending, only_writer, read_lines
from pucl.bench.results.revisions import Revisions

OWNER = "a map"
BEGIN = b'{"key"'  # of every line


@dataclass(frozen=True)
class EmbeddingMap:
    """Where t-SNE puts the embeddings of some test rows.

    Attributes:
        key: the identity of the encoder.
        config: all that decides the encoder, as `EncoderCell.to_dict` has it.
        x: of every point.
        y: of every point.
        positive: the true class of every point, "1" for positive, in one text.
        knn: the accuracy of nearest neighbours on all test rows, in per cent.
        time: when it was made, as ISO 8601 in UTC.
        revisions: of the code the encoder was made with.
        versions: of the libraries that numbers are computed with, by name.
        hardware: the card, or the processor and its threads.
        commit: of the package.
    """

    key: str
    config: dict[str, Any]
    x: list[float]
    y: list[float]
    positive: str
    knn: float
    time: str
    revisions: dict[str, int]
    versions: dict[str, str]
    hardware: str
    commit: str

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.positive) > 0 or set(self.positive) - {"0", "1"}:
            raise ValueError("x, y and positive that do not have a value for every point")
        if key_of(self.config) != self.key:
            raise ValueError("a configuration that does not match its key")

    def outdated(self, today: Revisions) -> bool:
        """Whether the code would train another encoder today, of which these are the revisions."""
        return any(self.revisions.get(name, 1) < revision for name, revision in today.items())

    def to_dict(self) -> dict[str, Option]:
        """As a file holds it; the key comes first."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def read_maps(path: Path, *, missing_ok: bool = False, argument: str = "--maps") -> dict[str, EmbeddingMap]:
    """The maps of a file by the key of their encoder; of several the last one counts."""
    lines = read_lines(path, _map, begin=BEGIN, missing_ok=missing_ok, argument=argument, verb="maps")
    return {line.key: line for line in lines}


def add_maps(path: Path, made: Iterable[EmbeddingMap]) -> None:
    """Append maps to a file as they come, each in one piece."""
    with only_writer(path), appending(path, begin=BEGIN) as file:
        for one in made:
            file.append(one.to_dict())


def _map(content: object) -> EmbeddingMap:
    table: Options = as_table(OWNER, "it", content)
    return decode(EmbeddingMap, table, owner=OWNER)
