"""What the command line shows: tables, a progress bar, images as characters."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from pucl.metrics import Evaluation
    from pucl.registry import Entry

BLOCKS = " ▄▀█"  # (upper, lower) pixel: neither, lower, upper, both


def entries_table(family: str, entries: Mapping[str, "Entry"]) -> Table:
    """Everything registered in a family, one row each."""
    table = Table(title=f"{family} ({len(entries)})", title_justify="left", title_style="bold")
    table.add_column("name", style="cyan", no_wrap=True)
    for header in ("what it does", "reference", "prior", "input"):
        table.add_column(header)
    for entry in entries.values():
        prior = "needed" if entry.needs_prior else "–"
        table.add_row(entry.name, entry.summary, entry.reference, prior, ", ".join(entry.inputs))
    return table


def scores_table(title: str, scores: Mapping[str, "Evaluation"]) -> Table:
    """Accuracy, F1 and AUC in percent, one method per row."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("method", no_wrap=True)
    for header in ("accuracy", "F1", "AUC"):
        table.add_column(header, justify="right")
    for name, score in scores.items():
        table.add_row(name, *(f"{100 * value:.1f}" for value in (score.accuracy, score.f1, score.auc)))
    return table


def images_as_text(images: Any, *, per_row: int = 5) -> str:
    """Small grey images (n, h, w) drawn in half-block characters, two pixels to a character, several to a row."""
    bright = images.astype(int) * 2 > images.max()
    lines: list[str] = []
    for first in range(0, len(images), per_row):
        group = bright[first : first + per_row]
        for top in range(0, images.shape[1], 2):
            lines.append(
                "    ".join("".join(BLOCKS[2 * a + b] for a, b in zip(*im[top : top + 2], strict=True)) for im in group)
            )
        lines.append("")
    return "\n".join(line.rstrip() for line in lines).rstrip()


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A live bar on the terminal, nothing in a pipe; yields the function to report with: (stage, share done)."""
    console = Console(stderr=True)
    if not console.is_terminal:  # rich 13 and 14.0 end the line of a bar that is disabled
        yield lambda _stage, _done: None
        return
    columns = (TextColumn("{task.description:<42}"), BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=1.0)

        def report(stage: str, done: float) -> None:
            progress.update(task, description=stage, completed=done)

        yield report
