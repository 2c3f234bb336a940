"""A fit in a few lines of text, for a terminal: data, π, quality, choices, reasons, checks and warnings."""

from collections.abc import Sequence

from pucl.models.record import Choices, FitRecord
from pucl.priors import PriorEstimate
from pucl.selection.scores import PUScores


def describe(record: FitRecord) -> str:
    """What the model was trained on, how good it is estimated to be, what was picked and why."""
    lines = [
        f"Data: {record.rows.n:,} rows ({record.kind}), {record.rows.labelled:,} of them labelled positives.",
        f"Positives among the unlabelled rows: {describe_prior(record.prior)}.",
    ]
    if record.metrics is not None:
        lines.append(f"Estimated from hidden positives: {_estimates(record.metrics)}.")
    lines.append(f"Model: {_choices(record.choices)}.")
    parts = (("Why", record.reasons), ("Checks", record.diagnostics), ("Warnings", record.warnings))
    return "\n".join([*lines, *(line for title, texts in parts for line in _list(title, texts))])


def describe_prior(prior: PriorEstimate) -> str:
    """π with its interval, and the method that gave both."""
    if prior.method == "given":
        return f"{prior.value:.3f}, as given"
    if (prior.low, prior.high) == (0.0, 1.0):
        return f"{prior.value:.3f}, by {prior.method} (which gives no interval)"
    return f"{prior.value:.3f} ({prior.low:.3f} to {prior.high:.3f}), both by {prior.method}"


def _choices(choices: Choices) -> str:
    training = choices.training
    trained = "" if training is None else f" ({training.objective}, {training.epochs} epochs)"
    tuned = "" if choices.fine_tuned is None else f", fine-tuned on {choices.fine_tuned}"
    return f"encoder {choices.encoder}{trained}, labeller {choices.labeller}, head {choices.head}{tuned}"


def _estimates(scores: PUScores) -> str:
    shown = (
        ("accuracy", scores.proxy_accuracy), ("AUC", scores.auc), ("precision", scores.precision),
        ("recall", scores.recall),
    )  # fmt: skip
    return ", ".join(f"{name} {estimate}" for name, estimate in shown)


def _list(title: str, texts: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  - {text}" for text in texts)] if texts else []
