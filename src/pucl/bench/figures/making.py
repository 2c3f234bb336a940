"""Figures by name: what there is, what fills each, and its picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pucl.bench.figures.maps import Maps, StoredMaps, draw_maps
from pucl.bench.figures.picture import Picture
from pucl.bench.figures.sweep import Stored, Sweep, draw_sweep
from pucl.bench.grid.cells import Cell
from pucl.bench.grid.grid import read_grid
from pucl.bench.results.line import ResultLine
from pucl.bench.results.maps import EmbeddingMap
from pucl.errors import InputError, check_known
from pucl.registry import entries

FAMILY = "figures"


@dataclass(frozen=True)
class Results:
    """What is stored: results of cells, and maps of encoders by their key."""

    lines: Sequence[ResultLine] = ()
    maps: Mapping[str, EmbeddingMap] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A picture, how many of its cells have no result yet, and the command that runs them."""

    picture: Picture
    missing: int = 0
    command: str = ""


def make(name: str, grid: Path, results: Results) -> Made:
    """The figure registered under `name`; one of stored results shows the cells of `grid`."""
    known = entries(FAMILY)
    check_known("pucl bench figure", FAMILY, [name], known)
    described: Picture | Sweep | Maps = known[name].function()
    if isinstance(described, Picture):
        return Made(described)
    if isinstance(described, Maps):
        found = StoredMaps.of(described, grid, read_grid(grid), results.maps)
        return Made(draw_maps(name, found), len(found.cells) - len(found.maps), found.command)
    stored = Stored.of(described, grid, read_grid(grid), results.lines)
    return Made(draw_sweep(name, stored), len(stored.cells) - len(stored.lines), stored.command)


def catalogue(grid: Path, results: Results) -> Iterator[str]:
    """Two lines for every figure: its name, its label in the paper and what it shows; what fills it."""
    cells = read_grid(grid)
    for name, entry in entries(FAMILY).items():
        yield f"{name} ({entry.reference}): {entry.summary}"
        yield f"    {_filled(entry.function(), grid, cells, results) if needs_results(name) else 'needs no runs'}"


def _filled(described: Sweep | Maps, grid: Path, cells: list[Cell], results: Results) -> str:
    try:
        if isinstance(described, Maps):
            found = StoredMaps.of(described, grid, cells, results.maps)
            return f"{len(found.maps)} of {len(found.cells)} maps stored; {found.command}"
        stored = Stored.of(described, grid, cells, results.lines)
    except InputError:
        return f"no cells in {grid}"
    return f"{len(stored.lines)} of {len(stored.cells)} cells stored; {stored.command}"


def needs_results(name: str) -> bool:
    """Whether a figure shows stored results, as its function says it returns."""
    return entries(FAMILY)[name].function.__annotations__["return"] in (Sweep, Maps)
