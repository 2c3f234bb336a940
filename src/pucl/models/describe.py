"""A fit in a few lines of text, for a terminal."""

from pucl.models.record import FitRecord
from pucl.selection.scores import PUScores


def describe(record: FitRecord) -> str:
    """What the model was trained on, what was picked and why, and how good it is estimated to be."""
    rows, prior, choices = record.rows, record.prior, record.choices.to_dict()
    lines = [
        f"{rows.n:,} rows ({record.kind}), {rows.labelled:,} labelled positives",
        "picked: " + ", ".join(f"{name} {value}" for name, value in choices.items() if value is not None),
        *(f"  {reason}" for reason in record.reasons),
        f"positives among the unlabelled: {prior.value:.3f} ({prior.low:.3f} to {prior.high:.3f}), by {prior.method}",
    ]
    if record.metrics is not None:
        lines.append(f"estimated from hidden positives: {_estimates(record.metrics)}")
    return "\n".join([*lines, *record.diagnostics, *(f"warning: {text}" for text in record.warnings)])


def _estimates(scores: PUScores) -> str:
    shown = (
        ("accuracy", scores.proxy_accuracy), ("AUC", scores.auc), ("precision", scores.precision),
        ("recall", scores.recall),
    )  # fmt: skip
    return ", ".join(f"{name} {estimate}" for name, estimate in shown)
