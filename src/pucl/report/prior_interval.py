"""The class prior with its interval, drawn on the scale from 0 to 1."""

from collections.abc import Mapping
from typing import Any

from pucl.report.markup import Markup, element, join
from pucl.report.reading import Interval, number, prior_of, section
from pucl.report.wording import count, percent

MIDDLE = 26  # pixels from the top to the line


def prior_section(about: Mapping[str, Any]) -> Markup:
    """π in numbers, in a drawing and in a sentence."""
    prior = prior_of(about)
    value = element("span", f"{prior.value:.3f}", class_="value")
    interval = _interval(prior)
    between = (
        None
        if interval is None
        else element("span", f"interval {interval[0]:.3f} to {interval[1]:.3f}", class_="error")
    )
    return join(
        element("p", "π = ", value, " ", between, class_="figure-line"),
        _drawing(prior),
        element("p", _meaning(about, prior), class_="meaning"),
    )


def _interval(prior: Interval) -> tuple[float, float] | None:
    return None if prior.low is None or prior.high is None else (prior.low, prior.high)


def _drawing(prior: Interval) -> Markup:
    interval = _interval(prior)
    spoken = f"Class prior {prior.value:.3f} on a scale from 0 to 1"
    spoken += "" if interval is None else f", interval from {interval[0]:.3f} to {interval[1]:.3f}"
    line = element("line", x1="0%", x2="100%", y1=MIDDLE, y2=MIDDLE, class_="axis")
    band = None if interval is None else _band(*interval)
    point = element("circle", cx=_at(prior.value), cy=MIDDLE, r=7, class_="point")
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


def _meaning(about: Mapping[str, Any], prior: Interval) -> str:
    unlabelled, interval = number(section(about, "rows").get("unlabelled")), _interval(prior)
    words = f"Of the unlabelled rows, {percent(prior.value)} are estimated to be positive"
    if unlabelled is not None and interval is not None:
        words += (
            f": between {count(interval[0] * unlabelled)} and {count(interval[1] * unlabelled)} of {count(unlabelled)}"
        )
    how = {None: "", "given": " The number was given, not estimated."}.get(
        prior.method, f" Method: {prior.method}, which compares labelled and unlabelled rows."
    )
    return f"{words}.{how} Every estimate below takes it for right: with a larger π, precision rises."
