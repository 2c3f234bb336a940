"""How the command shows a model."""

from collections.abc import Mapping
from typing import Any


def show_model(about: Mapping[str, Any]) -> None:
    """A model in a few tables and lines."""
    from rich.console import Console
    from rich.table import Table

    rows, prior, console = about["rows"], about["prior"], Console()
    console.print(f"{rows['n']:,} rows of kind {about['kind']}, {rows['labelled']:,} known positives.")
    console.print(
        f"Share of positives among the others: [bold]{100 * prior['value']:.1f} %[/] "
        f"({100 * prior['low']:.1f} to {100 * prior['high']:.1f}, by {prior['method']})."
    )
    if about["metrics"]:
        table = Table(title="Estimated from hidden positives, no negatives needed", title_justify="left")
        for name in ("accuracy", "AUC", "precision", "recall", "F1"):
            table.add_column(name, justify="right")
        keys = ("proxy_accuracy", "auc", "precision", "recall", "f1")
        found = [about["metrics"][key] for key in keys]
        table.add_row(*(f"{one['value']:.3f} ± {one['error']:.3f}" for one in found))
        console.print(table)
    for text in about["reasons"]:
        console.print(f"· {text}", markup=False, highlight=False)
    for text in (*about["diagnostics"], *(f"Warning: {text}" for text in about["warnings"])):
        console.print(text, markup=False, highlight=False)
