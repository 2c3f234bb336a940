"""The top of the page: the data, the estimates with their assumptions, and a drawing of the class prior."""

from math import isfinite
from types import MappingProxyType

from pucl.models.describe import bound_in_words, describe_sample
from pucl.models.record import FitRecord
from pucl.priors import PriorEstimate
from pucl.report.markup import Markup, count, duration, element, join, moment, percent, shorten
from pucl.report.tiles import other_figures, tiles

KINDS = MappingProxyType({"image": "images", "table": "table rows", "vector": "vectors"})
WITHOUT_NEGATIVES = "Without labelled negatives nothing on this page can be checked against the truth. "
WITH_NEGATIVES = (
    "The specificity and the AUC against negatives are measured on confirmed negatives; if these are a random sample, "
    "they hold for all negatives. The confirmed negatives are not shown in the figures and lists below. "
)
ESTIMATED = (
    "“Estimated” means: computed from rows held out of training, assuming that the labelled positives are a random "
    "sample of all positives. If they differ from the others, for example because they are easier, the true figures "
    "are usually worse. Precision, accuracy, F1 and AUC also depend on the share of positives among the unlabelled "
    "rows. "
)
ESTIMATED_WITHOUT_PRIOR = (
    "“Estimated” means: computed from rows held out of training, assuming that the labelled positives are a random "
    "sample of all positives. If labelled positives differ from the others, for example because they are easier, the "
    "true figures are usually worse. What depends on the share of positives, which is not known, is shown as the most "
    "it can be or as a range."
)
MIDDLE = 26  # pixels from the top to the line of the prior


def title(record: FitRecord) -> str:
    """What the page is called: the source, or the kind of rows."""
    return shorten(record.source, 200) if record.source else f"Classifier of {KINDS[record.kind]}"


def facts(record: FitRecord) -> Markup:
    """When, with what and how long, in one line."""
    parts = [
        moment(shorten(record.created, 60)) if record.created else None,
        f"pucl {shorten(record.pucl_version, 40)}" if record.pucl_version else None,
        f"seed {record.seed}",
        f"trained in {duration(record.seconds)}" if record.seconds is not None else None,
    ]
    return element("p", " · ".join(part for part in parts if part), class_="facts")


def verdict(record: FitRecord) -> Markup | None:
    """Whether the model is worth using, and why; the heading of its section is the verdict itself."""
    if record.verdict is None:
        return None
    reason = shorten(record.verdict.reason, 600)
    return element("p", f"{reason[:1].upper()}{reason[1:]}.")


def verdict_title(record: FitRecord) -> str:
    """The heading of the section: "Verdict: useful"."""
    words = {"useful": "useful", "weak": "weak, ranking only", "do not use": "do not use this model"}
    return "Verdict" if record.verdict is None else f"Verdict: {words[record.verdict.word]}"


def summary(record: FitRecord, called: int | None) -> Markup:
    """One paragraph, the tiles with the estimates, and the assumption below them."""
    meaning = ESTIMATED_WITHOUT_PRIOR if record.prior.is_bound else f"{ESTIMATED}{_share_used(record.prior)}"
    checked = WITH_NEGATIVES if record.rows.negative else WITHOUT_NEGATIVES
    return join(
        element("p", *_lead(record), class_="lead"),
        _sample(record),
        tiles(record, called),
        other_figures(record),
        element("p", element("strong", "What “estimated” means. "), checked, meaning, class_="note"),
    )


def _share_used(prior: PriorEstimate) -> str:
    """With which share of positives the figures that depend on it were computed."""
    if prior.method == "given":
        return f"They are computed with the share that you gave, {percent(prior.value)}."
    if prior.low <= 0:
        return f"They are computed with the estimated share, {percent(prior.value)}."
    return (
        f"They are computed with the low end of its interval, {percent(prior.cautious)}: rather too low than too high."
    )


def prior_section(record: FitRecord) -> Markup:
    """π in numbers, in a drawing and in a sentence."""
    prior, interval = record.prior, _interval(record.prior)
    if prior.is_bound:
        figure = element("p", "π ≤ ", element("span", f"{prior.high:.3f}", class_="value"), class_="figure-line")
        return join(figure, _drawing(prior), element("p", _bound(record), class_="meaning"))
    value = element("span", f"{prior.value:.3f}", class_="value")
    between = None
    if interval is not None:
        between = element("span", f"interval {interval[0]:.3f} to {interval[1]:.3f}", class_="error")
    return join(
        element("p", "π = ", value, " ", between, class_="figure-line"),
        _drawing(prior),
        element("p", _meaning(record), class_="meaning"),
    )


def _lead(record: FitRecord) -> list[object]:
    rows, share = record.all_rows, record.prior.value
    expected = count(share * rows.unlabelled)
    expects = f"It expects {percent(share)} of the unlabelled rows to be positive, about {expected} of them"
    if record.prior.is_bound:
        expects = (
            f"Positives among the unlabelled rows: {bound_in_words(record.prior)}; pass prior= (--prior) if you know it"
        )
    return [
        f"A classifier of {KINDS[record.kind]}, learned from ",
        element("strong", count(rows.labelled), " labelled positives"),
        ", " if rows.negative else " and ",
        element("strong", count(rows.unlabelled), " unlabelled rows"),
        *([" and ", element("strong", count(rows.negative), " confirmed negatives")] if rows.negative else []),
        f". {expects}.",
    ]


def _sample(record: FitRecord) -> Markup | None:
    """What a sample means for the page."""
    if record.sampling is None:
        return None
    words = (
        f" {describe_sample(record.rows, record.sampling)} Figures and their errors come from the sample. Numbers of "
        "rows are scaled to all rows. The lists and the map show rows of the sample only: pucl predict scores all rows."
    )
    return element("p", element("strong", "A sample. The model has learned from"), shorten(words, 1000), class_="note")


def _interval(prior: PriorEstimate) -> tuple[float, float] | None:
    return (prior.low, prior.high) if isfinite(prior.low) and isfinite(prior.high) else None


def _drawing(prior: PriorEstimate) -> Markup:
    interval = _interval(prior)
    spoken = f"Class prior {'at most ' if prior.is_bound else ''}{prior.value:.3f} on a scale from 0 to 1"
    if interval is not None and not prior.is_bound:
        spoken += f", interval from {interval[0]:.3f} to {interval[1]:.3f}"
    line = element("line", x1="0%", x2="100%", y1=MIDDLE, y2=MIDDLE, class_="axis")
    band = None if interval is None else _band(*interval)
    point = None if prior.is_bound else element("circle", cx=_at(prior.value), cy=MIDDLE, r=7, class_="point")
    ticks = join(*(_tick(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)))
    return element("svg", line, ticks, band, point, class_="prior", role="img", aria_label=spoken, height=62)


def _band(low: float, high: float) -> Markup:
    whole = element("line", x1=_at(low), x2=_at(high), y1=MIDDLE, y2=MIDDLE, class_="interval")
    ends = (
        element("line", x1=_at(end), x2=_at(end), y1=MIDDLE - 8, y2=MIDDLE + 8, class_="end") for end in (low, high)
    )
    return join(whole, *ends)


def _tick(share: float) -> Markup:
    anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
    mark = element("line", x1=_at(share), x2=_at(share), y1=MIDDLE, y2=MIDDLE + 6, class_="axis")
    return join(mark, element("text", f"{share:g}", x=_at(share), y=MIDDLE + 30, text_anchor=anchor))


def _at(share: float) -> str:
    return f"{100 * share:.2f}%"


def _bound(record: FitRecord) -> str:
    prior, unlabelled = record.prior, record.all_rows.unlabelled
    return (
        f"At most {percent(prior.high)} of the unlabelled rows are positive, {count(prior.high * unlabelled)} of "
        f"{count(unlabelled)}; it could be far less. These data do not show that positives and negatives separate: the "
        f"classes overlap, or labels are too few. The bound comes from {shorten(prior.method, 60)}. If you know the "
        "share, pass it to the fit (prior= or --prior): then probabilities, precision and accuracy can be estimated."
    )


def _meaning(record: FitRecord) -> str:
    prior, unlabelled, interval = record.prior, record.all_rows.unlabelled, _interval(record.prior)
    given = prior.method == "given"
    words = f"{percent(prior.value)} of the unlabelled rows are {'assumed' if given else 'estimated'} to be positive"
    if interval is not None and not given:
        low, high = (count(end * unlabelled) for end in interval)
        words += f": between {low} and {high} of {count(unlabelled)}"
    depends = "Every estimate below depends on it: a larger π means a higher precision."
    if not given:
        depends = "Precision, F1 and accuracy are computed with its low end: rather too low than too high."
    origin = "You gave this number." if given else f"Estimate and interval come from {shorten(prior.method, 60)}."
    return f"{words}. {origin} {depends}"
