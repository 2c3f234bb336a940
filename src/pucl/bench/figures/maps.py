"""Figures of stored maps: embeddings in two dimensions, a panel for each encoder, classes by colour."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pucl.bench.figures.picture import Cloud, Panel, Picture
from pucl.bench.figures.sweep import command_of, gamma_of, objective_of, shown_cells, shown_name
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.maps import EmbeddingMap
from pucl.errors import InputError

ORDER = ("ssCL", "sCL-PU", "puCL", "puNCE", "sCL")
CLASSES = (("negative", "s", 0), ("positive", "o", 1))
SIZE = 5.0  # of a point


def title_of(cell: Cell) -> str:
    """The objective of a panel, with γ where it matters."""
    name = objective_of(cell)
    return name if name in ("ssCL", "sCL") else f"{name}, γ = {gamma_of(cell):.2f}"


@dataclass(frozen=True)
class Maps:
    """A figure of stored maps.

    Attributes:
        title: above the picture.
        only: which cells of the grid it shows, one for every panel, as ``pucl bench maps --only`` has it.
        columns: of panels.
        panel: the title of a panel.
    """

    title: str
    only: tuple[str, ...]
    columns: int
    panel: Callable[[Cell], str] = title_of


@dataclass(frozen=True)
class StoredMaps:
    """The cells that fill a figure of maps and those of their maps that are there, by the key of the encoder."""

    figure: Maps
    grid: Path
    cells: list[Pipeline]
    maps: Mapping[str, EmbeddingMap]

    @classmethod
    def of(cls, figure: Maps, grid: Path, cells: list[Cell], maps: Mapping[str, EmbeddingMap]) -> "StoredMaps":
        """Those of the cells of a grid that the figure shows, one for each encoder, and their maps."""
        shown = shown_cells(figure.only, grid, cells)
        own = {cell.encoder_cell.key: cell for cell in shown if isinstance(cell, Pipeline)}
        return cls(figure, grid, list(own.values()), {key: maps[key] for key in own if key in maps})

    @property
    def command(self) -> str:
        """What fills the figure."""
        return command_of("maps", self.grid, self.figure.only)


def draw_maps(name: str, stored: StoredMaps) -> Picture:
    """The picture of what is stored; nothing stored is an error that says what to run."""
    if not stored.maps:
        raise InputError(
            f"figure {name!r}: no maps are stored; run: {stored.command} ({len(stored.cells)} encoders)"
        )  # fmt: skip
    there = [cell for cell in stored.cells if cell.encoder_cell.key in stored.maps]
    there.sort(key=lambda cell: (ORDER.index(objective_of(cell)), cell.place.n_labelled))
    panels = tuple(_panel(stored.figure.panel(cell), stored.maps[cell.encoder_cell.key]) for cell in there)
    cell = there[0]
    points = {len(one.x) for one in stored.maps.values()}
    said = [
        shown_name(cell.place.task),
        cell.encoder,
        f"{cell.recipe.training.epochs} epochs",
        cell.place.setting,
        f"{max(points):,} test rows, the same in all panels",
        "t-SNE with perplexity 30; one seed",
        "kNN: 200 neighbours that have true labels",
    ]
    if len(there) < len(stored.cells):
        said.append(f"{len(there)} of {len(stored.cells)} maps are there")
    return Picture(stored.figure.title, "; ".join(said) + ".", panels, stored.figure.columns)


def _panel(title: str, stored: EmbeddingMap) -> Panel:
    clouds = []
    for digit, (series, marker, colour) in enumerate(CLASSES):
        own = [at for at, value in enumerate(stored.positive) if int(value) == digit]
        clouds.append(
            Cloud(series, tuple(stored.x[at] for at in own), tuple(stored.y[at] for at in own), marker, colour, SIZE)
        )
    return Panel(f"{title}; kNN {stored.knn:.1f} %", clouds=tuple(clouds), equal=True)
