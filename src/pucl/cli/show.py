"""How the command shows a model."""

from pucl.models.record import FitRecord


def show_model(record: FitRecord) -> None:
    """A model in a few tables and lines."""
    from rich.console import Console
    from rich.table import Table

    rows, prior, metrics, console = record.rows, record.prior, record.metrics, Console()
    console.print(f"{rows.n:,} rows of kind {record.kind}, {rows.labelled:,} known positives.")
    console.print(
        f"Share of positives among the others: [bold]{100 * prior.value:.1f} %[/] "
        f"({100 * prior.low:.1f} to {100 * prior.high:.1f}, by {prior.method})."
    )
    if metrics is not None:
        table = Table(title="Estimated from hidden positives, no negatives needed", title_justify="left")
        for name in ("accuracy", "AUC", "precision", "recall", "F1"):
            table.add_column(name, justify="right")
        estimates = (metrics.proxy_accuracy, metrics.auc, metrics.precision, metrics.recall, metrics.f1)
        table.add_row(*map(str, estimates))
        console.print(table)
    for text in record.reasons:
        console.print(f"· {text}", markup=False, highlight=False)
    for text in (*record.diagnostics, *(f"Warning: {text}" for text in record.warnings)):
        console.print(text, markup=False, highlight=False)
