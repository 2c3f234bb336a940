"""How the command shows a model."""

from pucl.models.describe import describe_prior
from pucl.models.record import FitRecord


def show_model(record: FitRecord) -> None:
    """A model in a few tables and lines."""
    from rich.console import Console
    from rich.table import Table

    rows, prior, metrics, console = record.rows, record.prior, record.metrics, Console()
    console.print(f"{rows.n:,} rows ({record.kind}), {rows.labelled:,} of them labelled positives.")
    console.print(f"Positives among the unlabelled rows: {describe_prior(prior)}.", highlight=False)
    if metrics is not None:
        table = Table(title="Estimated from hidden positives", title_justify="left")
        for name in ("accuracy", "AUC", "precision", "recall", "F1"):
            table.add_column(name, justify="right")
        estimates = (metrics.proxy_accuracy, metrics.auc, metrics.precision, metrics.recall, metrics.f1)
        table.add_row(*map(str, estimates))
        console.print(table)
    for title, texts in (("Why", record.reasons), ("Checks", record.diagnostics), ("Warnings", record.warnings)):
        for line in (f"{title}:", *(f"  - {text}" for text in texts)) if texts else ():
            console.print(line, markup=False, highlight=False)
