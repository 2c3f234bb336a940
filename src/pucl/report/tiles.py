"""The figures at the top of the page: those that people act on as tiles, the others in a table that opens."""

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType

from pucl.models.describe import range_in_words
from pucl.models.record import FitRecord
from pucl.priors import PriorEstimate
from pucl.report.markup import Markup, count, element, estimate, percent
from pucl.selection.lift import Lift
from pucl.selection.scores import Estimate, PUScores

MEANINGS = MappingProxyType(
    {
        "precision": ("Precision", "Share of positives among the unlabelled rows that are called positive."),
        "recall": (
            "Recall of hidden positives",
            "Share of the labelled positives hidden from the model that it calls positive.",
        ),
        "specificity": ("Specificity", "Share of the confirmed negatives that are not called positive."),
        "accuracy": ("Accuracy", "Share of the unlabelled rows put in the right class."),
        "f1": ("F1", "Harmonic mean of precision and recall."),
        "auc": ("AUC", "Chance that a positive scores above a negative: 0.5 is guessing, 1 is perfect."),
        "pu_auc": (
            "AUC, labelled against unlabelled",
            "Chance that a hidden positive scores above an unlabelled row. It stays below 1, because some unlabelled "
            "rows are positive.",
        ),
        "pn_auc": (
            "AUC, labelled against negatives",
            "Chance that a labelled positive scores above a confirmed negative.",
        ),
    }
)
TILES = ("precision", "recall", "specificity")
OTHERS = ("accuracy", "f1", "auc", "pu_auc", "pn_auc")
FIRST_LIFT = 0.05  # the share whose lift is the large figure, where it is known


def tiles(record: FitRecord, called: int | None) -> Markup | None:
    """What decides whether and how to use the model: positives, rows found, recall, precision and lift.

    `called` is how many unlabelled rows the model calls positive, None where that is not known.
    """
    if record.metrics is None:
        return None
    figures = _figures(record)
    known = ((name, *MEANINGS[name]) for name in TILES if name in figures)
    shown = [_tile(label, f"{meaning}{_share_used(record, name)}", *figures[name]) for name, label, meaning in known]
    return element(
        "dl",
        _share_tile(record),
        None if called is None else _called_tile(called, record.all_rows.unlabelled),
        *shown,
        _lift_tile(record.lift) if record.lift else None,
        class_="tiles",
    )


def _share_used(record: FitRecord, name: str) -> str:
    """What the precision of an estimated π was computed with; "Expected true positives" below takes π itself."""
    prior = record.prior
    if name != "precision" or prior.is_bound or prior.method == "given" or not prior.low > 0:
        return ""
    return f" Computed with the low end of that share, {percent(prior.low)}: rather too low."


def other_figures(record: FitRecord) -> Markup | None:
    """The other estimates with their meanings, closed at first."""
    figures = _figures(record)
    rows = [
        element("div", element("dt", MEANINGS[name][0]), element("dd", *figures[name], " · ", MEANINGS[name][1]))
        for name in OTHERS
        if name in figures
    ]
    if not rows:
        return None
    return element("details", element("summary", "Other estimates"), element("dl", *rows, class_="lines"))


def _figures(record: FitRecord) -> dict[str, tuple[object, ...]]:
    """Every figure that is known, as it is shown: a value with its error, or a range where π is only bounded."""
    metrics = record.metrics
    if metrics is None:
        return {}
    known: Mapping[str, Estimate | None] = {name: getattr(metrics, name, None) for name in MEANINGS}
    if isinstance(metrics, PUScores):
        known = {**known, "accuracy": metrics.proxy_accuracy}
    measured = {name: _value(each) for name, each in known.items() if each is not None and isfinite(each.value)}
    ranges = {name: (range_in_words(*ends),) for name, ends in record.score_ranges.items() if name in MEANINGS}
    return {**measured, **ranges}


def _value(measured: Estimate) -> tuple[object, ...]:
    if not isfinite(measured.error):
        return (f"{measured.value:.3f}",)
    error = element("span", f"± {measured.error:.3f}", class_="error")
    return (element("span", f"{measured.value:.3f} ", error, aria_label=estimate(measured)),)


def _share_tile(record: FitRecord) -> Markup:
    prior, label = record.prior, "Positives among the unlabelled"
    rows = record.all_rows.unlabelled
    if prior.is_bound:
        meaning = f"At most {count(prior.high * rows)} of {count(rows)} rows; it could be far less."
        return _tile(label, meaning, f"at most {percent(prior.high)}")
    value = f"About {count(prior.value * rows)} of {count(rows)} rows, {_origin(prior)}."
    return _tile(label, value, percent(prior.value))


def _origin(prior: PriorEstimate) -> str:
    if prior.method == "given":
        return "as you gave it"
    return (
        f"between {percent(prior.low)} and {percent(prior.high)}" if isfinite(prior.low + prior.high) else "estimated"
    )


def _called_tile(called: int, n_unlabelled: int) -> Markup:
    share = percent(called / max(1, n_unlabelled))
    meaning = f"Of {count(n_unlabelled)} unlabelled rows, {share}, at the model's own threshold."
    return _tile("Rows called positive", meaning, count(called))


def _lift_tile(lifts: tuple[Lift, ...]) -> Markup:
    first = next((each for each in lifts if each.share == FIRST_LIFT), lifts[0])
    rest = " and ".join(f"{each.value:.1f} in the top {100 * each.share:g}%" for each in lifts if each is not first)
    meaning = "How many times richer in hidden positives these rows are than a random pick: 1 is guessing."
    error = element("span", f"± {first.error:.1f}", class_="error")
    label = f"Lift in the top {100 * first.share:g}%"
    return _tile(label, f"{meaning} It is {rest}." if rest else meaning, f"{first.value:.1f}", " ", error)


def _tile(label: str, meaning: str, *value: object) -> Markup:
    figure = element("dd", *value, class_="value")
    return element("div", element("dt", label), figure, element("dd", meaning, class_="meaning"), class_="tile")
