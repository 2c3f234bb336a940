"""A reader to try: valid inputs for it, hostile ones, and how it is called."""

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz.mutators import mutated

Files = dict[str, bytes]  # an input: the content of files by name, below a folder
Hostile = Callable[[Random, Sequence[Files]], Files]
MB = 1 << 20


@dataclass(frozen=True)
class Reader:
    """What is tried.

    Attributes:
        name: for people.
        seeds: valid inputs, made in the empty folder that is given.
        read: reads the input in a folder, and uses what it gives.
        hostile: inputs made for the purpose, by name.
        share: how many of a thousand inputs of a long run are for it.
        memory: bytes by which it may grow.
        seconds: of CPU that an input may take.
        mended: changes an input so that a checksum is right again, as somebody does who knows of it.
        once: the names of hostile inputs that are large and tried once, as they are.
        names: other words than the names of its files by which a refusal may call the input.
    """

    name: str
    seeds: Callable[[Path], Sequence[Files]]
    read: Callable[[Path], Any]
    hostile: Mapping[str, Hostile] = field(default_factory=dict)
    share: int = 30
    memory: int = 256 * MB
    seconds: float = 10.0
    mended: Callable[[Files], Files] | None = None
    once: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def make(self, seeds: Sequence[Files], seed: int, number: int) -> tuple[str, Files]:
        """The input of a number, and what it is; the first are the valid ones, then the hostile ones as they are."""
        if number < len(seeds):
            return "valid", dict(seeds[number])
        rng = Random(f"{self.name} {seed} {number}")
        kinds = [*self.hostile]
        if number < len(seeds) + len(kinds):
            kind = kinds[number - len(seeds)]
            return kind, self.hostile[kind](rng, seeds)
        kind, files = "damaged", dict(rng.choice(seeds))
        kinds = [kind for kind in kinds if kind not in self.once]
        if kinds and rng.random() < 0.3:
            kind = rng.choice(kinds)
            files = self.hostile[kind](rng, seeds)
            if rng.random() < 0.5:
                return kind, files
        name = rng.choice(sorted(files))
        others = [other for some in seeds for other in some.values()]
        files[name] = mutated(rng, files[name], rng.choice(others))
        if self.mended is not None and rng.random() < 0.9:
            files = self.mended(files)
        return kind, files


def files_in(folder: Path) -> Files:
    """The files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def write(folder: Path, files: Files) -> None:
    """Put an input into a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def zipped(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive in memory."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()
