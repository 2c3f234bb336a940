"""A fit in a few lines of text, for a terminal: data, π, quality, choices, reasons, checks and warnings."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pucl.models.record import Choices, FitRecord, RowCounts, Sampling
from pucl.priors import PriorEstimate
from pucl.selection.lift import Lift
from pucl.selection.scores import Estimate, PUScores, RankingScores

SHOWN = 5  # columns that the summary names
ERRORS = 2.0  # standard errors above which a column matters
NAMES = MappingProxyType({"f1": "F1"})  # of figures, where they differ from their keys


def describe(record: FitRecord, *, option: str = "prior=") -> str:
    """What the model was trained on, how good it is estimated to be, what was picked and why, and the verdict.

    `option` is how the user passes π: an argument, or an option of the command.
    """
    lines = [
        f"Data: {record.all_rows.n:,} rows ({record.kind}), {_known(record.all_rows)}.",
        *([] if record.sampling is None else [f"Learned from {describe_sample(record.rows, record.sampling)}"]),
        f"Positives among the unlabelled rows: {describe_prior(record.prior, option=option)}.{_of_all(record)}",
    ]
    lines[1:1] = _list("Warnings", record.warnings)  # before anything that sounds good
    if record.metrics is not None:
        lines.append(
            f"Estimated from hidden positives{_with_share(record)}: {_estimates(record.metrics, record.lift)}."
        )
    if record.score_ranges:
        lines.append(f"What depends on the share of positives: {describe_ranges(record.score_ranges)}.")
    if record.importance:
        lines.append(f"Columns that matter most: {_importance(record.importance)}.")
    lines.append(f"Model: {_choices(record.choices)}.")
    parts = (("Why", record.reasons), ("Checks", record.diagnostics))
    lines += [line for title, texts in parts for line in _list(title, texts)]
    return "\n".join([*lines, *([f"Verdict: {record.verdict}."] if record.verdict is not None else [])])


def _with_share(record: FitRecord) -> str:
    """With which π the figures were computed, where it was estimated."""
    if not isinstance(record.metrics, PUScores) or record.prior.method == "given":
        return ""
    return f", with the low end of that share ({record.metrics.prior:.3f})"


def _known(rows: RowCounts) -> str:
    labelled = f"{rows.labelled:,} of them labelled positives"
    return f"{labelled} and {rows.negative:,} confirmed negatives" if rows.negative else labelled


def describe_sample(rows: RowCounts, sampling: Sampling) -> str:
    """Which of all rows were used, drawn how, and why so many, in two sentences."""
    kinds = (("labelled positives", "labelled"), ("confirmed negatives", "negative"), ("unlabelled rows", "unlabelled"))
    counts = ((words, getattr(rows, kind), getattr(sampling.rows, kind)) for words, kind in kinds)
    listed = _listed([_part(words, used, of) for words, used, of in counts if of])
    drawn = f"drawn by {sampling.key} with seed {sampling.seed}"
    return f"{rows.n:,} of them: {listed}, {drawn}. {sampling.reason}"


def _part(words: str, used: int, of: int) -> str:
    return f"all {of:,} {words}" if used == of else f"a random {used:,} of {of:,} {words} ({100 * used / of:.2g} %)"


def _of_all(record: FitRecord) -> str:
    """How many of all unlabelled rows the share of a sample means."""
    if record.sampling is None:
        return ""
    n, about = record.all_rows.unlabelled, "at most" if record.prior.is_bound else "about"
    return f" Of all {n:,} unlabelled rows that is {about} {record.prior.value * n:,.0f}."


def describe_prior(prior: PriorEstimate, *, option: str = "prior=") -> str:
    """π with its interval, or its bound, and the method that gave it."""
    if prior.is_bound:
        return f"{bound_in_words(prior)}; pass {option} if you know it"
    if prior.method == "given":
        return f"{prior.value:.3f}, as given"
    if (prior.low, prior.high) == (0.0, 1.0):
        return f"{prior.value:.3f}, by {prior.method} (which gives no interval)"
    return f"{prior.value:.3f} ({prior.low:.3f} to {prior.high:.3f}), by {prior.method}"


def bound_in_words(prior: PriorEstimate) -> str:
    """How much the data say of π where they only bound it."""
    share = f"{100 * prior.high:.0f}" if prior.high >= 0.0995 else f"{max(0.1, 100 * prior.high):.1f}"
    return f"at most {share} %, it could be far less; nothing in this data can tell"


def describe_ranges(ranges: Mapping[str, tuple[float, float]]) -> str:
    """What follows from a bound on π: "precision at most 0.55", or from where to where."""
    return ", ".join(f"{NAMES.get(name, name)} {range_in_words(*ends)}" for name, ends in ranges.items())


def range_in_words(low: float, high: float) -> str:
    """A range of a figure; one that starts at 0 is only a bound, and one from 0 to 1 says nothing."""
    if low >= 0.005:
        return f"{low:.2f} to {high:.2f}"
    return f"at most {high:.2f}" if high < 0.995 else "not known"


def _choices(choices: Choices) -> str:
    training = choices.training
    trained = "" if training is None else f" ({training.objective}, {training.epochs} epochs)"
    tuned = "" if choices.fine_tuned is None else f", fine-tuned on {choices.fine_tuned}"
    return f"encoder {choices.encoder}{trained}, labeller {choices.labeller}, head {choices.head}{tuned}"


def _estimates(scores: RankingScores, lift: Sequence[Lift]) -> str:
    """The estimates; where π is only bounded, those that need none, the recall first."""
    shown = [("recall", scores.recall)]
    if isinstance(scores, PUScores):
        shown = [("accuracy", scores.proxy_accuracy), ("AUC", scores.auc), ("precision", scores.precision), *shown]
    if scores.specificity is not None:
        shown.append(("specificity", scores.specificity))
    figures = [f"{name} {estimate}" for name, estimate in shown]
    if lift:
        values, shares = (
            _listed(texts)
            for texts in zip(*((f"{each.value:.1f}", f"{100 * each.share:g}") for each in lift), strict=True)
        )
        figures.append(f"lift {values} in the top {shares} %")
    if not isinstance(scores, PUScores):
        figures.append(f"AUC against unlabelled rows {scores.pu_auc}")
    return ", ".join(figures)


def _importance(importance: Mapping[str, Estimate]) -> str:
    """The first few columns; those whose drop is more than noise, where there are any."""
    clear = clear_columns(importance)
    listed = ", ".join(f"{name} {importance[name]}" for name in (clear or list(importance))[:SHOWN])
    if not clear:
        return f"none alone by more than noise ({listed}); columns with the same information replace each other"
    more = f" (and {len(clear) - SHOWN} more)" if len(clear) > SHOWN else ""
    return f"{listed}{more}, by the drop of the AUC against unlabelled rows when a column is shuffled"


def clear_columns(importance: Mapping[str, Estimate]) -> list[str]:
    """The columns whose importance is more than `ERRORS` standard errors, the most important first."""
    return [name for name, drop in importance.items() if drop.value > ERRORS * drop.error and drop.value > 0]


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _list(title: str, texts: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  - {text}" for text in texts)] if texts else []
