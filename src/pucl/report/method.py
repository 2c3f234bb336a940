"""How the model was made: the choices with their reasons, and the candidates they were picked from."""

from collections.abc import Mapping
from typing import Any

from pucl.report.markup import Markup, element, join, shorten
from pucl.report.reading import Measured, measured, records, section, texts
from pucl.report.wording import estimate, name

MOST_CHOICES = 60
MOST_CANDIDATES = 60
MEASURES = (("auc", "AUC"), ("accuracy", "Accuracy"))


def choices(about: Mapping[str, Any]) -> Markup | None:
    """Names and values of what was chosen, and why."""
    made = [(key, value) for key, value in section(about, "choices").items() if value is not None][:MOST_CHOICES]
    reasons = texts(about, "reasons")
    if not made and not reasons:
        return None
    pairs = (element("div", element("dt", name(shorten(key, 60))), element("dd", _plain(value))) for key, value in made)
    why = join(element("h3", "Why"), element("ul", *(element("li", reason) for reason in reasons)))
    return join(element("dl", *pairs, class_="pairs") if made else None, why if reasons else None)


def candidates(about: Mapping[str, Any]) -> Markup | None:
    """A table of what was tried, with estimates and their errors drawn on a common scale."""
    tried = list(records(about, "candidates"))[:MOST_CANDIDATES]
    shown = [(key, label) for key, label in MEASURES if any(measured(one.get(key)) for one in tried)]
    if not tried:
        return None
    scales = {key: _scale([found for one in tried if (found := measured(one.get(key)))]) for key, _ in shown}
    head = element(
        "tr", *(element("th", label, scope="col") for label in ("Candidate", *(label for _, label in shown)))
    )
    rows = (_row(one, scales) for one in tried)
    caption = element("caption", "Estimated on held-out rows; lines reach one standard error to each side.")
    table = element("table", caption, element("thead", head), element("tbody", *rows), class_="candidates")
    return join(element("h3", "Candidates"), table)


def _row(one: Mapping[str, Any], scales: Mapping[str, tuple[float, float]]) -> Markup:
    chosen = bool(one.get("chosen"))
    mark = element("span", "chosen", class_="badge") if chosen else None
    title = element("th", shorten(one.get("name") or "unnamed", 120), " ", mark, scope="row")
    cells = (_cell(measured(one.get(key)), label, scales[key]) for key, label in MEASURES if key in scales)
    return element("tr", title, *cells, class_="chosen" if chosen else None)


def _cell(found: Measured | None, label: str, scale: tuple[float, float]) -> Markup:
    if found is None:
        return element("td", "–", data_label=label)
    middle, error = found.value, found.error or 0.0
    low, at, high = (_percent(value, scale) for value in (middle - error, middle, middle + error))
    whisker = element("line", x1=low, x2=high, y1=7, y2=7)
    drawing = element("svg", whisker, element("circle", cx=at, cy=7, r=4), class_="whisker", aria_hidden="true")
    return element("td", element("div", element("span", estimate(found)), drawing), data_label=label)


def _scale(found: list[Measured]) -> tuple[float, float]:
    low = min(one.value - (one.error or 0.0) for one in found)
    high = max(one.value + (one.error or 0.0) for one in found)
    room = max(0.05 * (high - low), 0.005)
    return low - room, high + room


def _percent(value: float, scale: tuple[float, float]) -> str:
    return f"{100 * (value - scale[0]) / (scale[1] - scale[0]):.2f}%"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return shorten(", ".join(f"{key} {_plain(inner)}" for key, inner in value.items()), 300)
    if isinstance(value, list | tuple):
        return shorten(", ".join(map(_plain, value)), 300)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else shorten(value, 300)
