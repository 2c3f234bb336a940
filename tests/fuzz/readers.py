"""Every reader that is tried."""

from dataclasses import replace
from pathlib import Path

from fuzz import arrays, earlier, lists, official, pictures, reviews, stored, tables
from fuzz.reader import Files, Reader
from fuzz.trial import Outcome, trials

READERS: tuple[Reader, ...] = (
    *official.READERS,
    *pictures.READERS,
    *tables.READERS,
    *arrays.READERS,
    *lists.READERS,
    *reviews.READERS,
    *stored.READERS,
    *earlier.READERS,
)


def tried(name: str, files: Files, place: Path) -> Outcome:
    """What the reader of this name makes of some files."""
    reader = next(reader for reader in READERS if reader.name == name)
    (outcome,) = trials(replace(reader, hostile={"only": lambda *_: files}, once=()), (), 0, [0], place)
    return outcome
