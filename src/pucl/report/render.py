"""The whole page as one string: template, style, scripts and data in one file that loads nothing from a network."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pucl.errors import RunError, check_share
from pucl.models.evidence import Evidence
from pucl.models.record import FitRecord
from pucl.models.schema import Schema
from pucl.report.assets_of import asset, has_asset, head
from pucl.report.columns import importance
from pucl.report.details import candidates, choices, command, data_facts, diagnostics, theory, warnings
from pucl.report.explained import examples
from pucl.report.markup import Markup, element, fill, join
from pucl.report.overview import facts, prior_section, summary, title, verdict, verdict_title
from pucl.report.page_data import as_json, not_drawn, page_data
from pucl.report.pictures import sheets
from pucl.report.prepare import usable
from pucl.selection.limits import Limits

Lists = Mapping[str, Markup | None]  # what some sections list: "rows" explained, and "theory"
UNLINKED = ("verdict", "summary", "warnings")  # they stand at the top of the page
# How the page calls what a row is ordered by: a probability, or a score where π is only bounded.
PROBABILITY_WORDS = MappingProxyType(
    {
        "score": "probability",
        "colour": "the probability of being positive",
        "lowest": "0",
        "highest": "1",
        "unsure": "Unlabelled rows with probabilities closest to 0.5: labelling these helps the model most.",
    }
)
SCORE_WORDS = MappingProxyType(
    {
        "score": "score",
        "colour": "the score, from low to high",
        "lowest": "low",
        "highest": "high",
        "unsure": "Unlabelled rows with scores closest to the model's threshold: labelling these helps the model most.",
    }
)
LIKELIEST = "Unlabelled rows that are most likely positive: check these first to find new positives."
LIMIT = 5_000_000  # bytes of a page, never exceeded
SCRIPTS = (
    "base",
    "theme",
    "charts",
    "separation",
    "threshold",
    "training",
    "pictures",
    "map",
    "map_input",
    "csv",
    "lists",
    "start",
)


def render(record: FitRecord, evidence: Evidence, schema: Schema | None = None, limits: Limits | None = None) -> str:
    """The report of a fitted model as HTML: one file, below 5 MB, that works offline.

    Args:
        record: what is known of the fit; parts without content are left out of the page.
        evidence: what the fit left behind to look at.
        schema: what the model takes, to name the columns.
        limits: what theory says of the data and the embedding.
    """
    check_share("pucl.report", "prior", record.prior.value, closed=record.prior.is_bound)
    shown = usable(evidence)
    data = page_data(record, shown)
    lists = {"rows": examples(shown.explained), "theory": theory(limits)}
    parts = _parts(record, schema, data, not_drawn(record, shown), lists)
    room = LIMIT - len(_page(parts, data).encode())
    data["sheets"] = sheets(shown, room)
    page = _page(parts, data)
    if len(page.encode()) > LIMIT:
        raise RunError(
            f"the report would take {len(page.encode()):,} bytes, more than the limit of {LIMIT:,}; shorten its texts"
        )
    return page


def _parts(
    record: FitRecord, schema: Schema | None, data: Mapping[str, Any], notes: Mapping[str, str], lists: Lists
) -> dict[str, str]:
    """What goes into the template besides the data."""
    style = Markup(asset("page.css"))
    script = Markup("\n".join(asset(f"{name}.js") for name in SCRIPTS))
    sections = _sections(record, schema, data, notes, lists)
    return {
        "head": head(f"{title(record)} – pucl report", style=style, script=script),
        "title": title(record),
        "script": script,
        "facts": facts(record),
        "links": join(*(element("a", label, href=f"#{name}") for name, label, _ in sections if name not in UNLINKED)),
        "sections": join(*(_section(name, label, content, record) for name, label, content in sections)),
    }


def _page(parts: Mapping[str, str], data: Mapping[str, Any]) -> str:
    return str(fill(asset("page.html"), **parts, data=as_json(data)))


def _sections(
    record: FitRecord, schema: Schema | None, data: Mapping[str, Any], notes: Mapping[str, str], lists: Lists
) -> list[tuple[str, str, Markup]]:
    """Name, heading and content of every section that has something to show, or a note why it has not."""
    own = data.get("threshold")
    called = None if own is None else own["called"][own["half"]]
    words = SCORE_WORDS if record.prior.is_bound else PROBABILITY_WORDS
    reviewed = join(*(_rows_to_review(name, words) for name in data["lists"]))
    sections = [
        ("verdict", verdict_title(record), verdict(record)),
        ("summary", "Summary", summary(record, called)),
        ("warnings", "Warnings", warnings(record)),
        ("prior", "Class prior", prior_section(record)),
        ("separation", "Separation", _drawn("separation", data.get("separation"), words)),
        ("threshold", "Threshold", _drawn("threshold", data.get("threshold"), words)),
        ("columns", "Columns", importance(record)),
        ("review", "Review", join(lists["rows"], reviewed) or None),
        ("map", "Map", _drawn("map", data.get("map"), words)),
        ("training", "Training", _drawn("training", data["history"], words)),
        ("method", "Method", join(choices(record), candidates(record)) or None),
        ("diagnostics", "Diagnostics", diagnostics(record)),
        ("theory", "Theory", lists["theory"]),
        ("reproduce", "Reproduce", join(command(record), data_facts(record, schema))),
    ]
    said = ((name, label, _with_note(content, notes.get(name))) for name, label, content in sections)
    return [(name, label, content) for name, label, content in said if content is not None]


def _rows_to_review(name: str, words: Mapping[str, str]) -> Markup:
    """The frame of a list of rows: the likeliest ("top") or the least certain ("unsure")."""
    title, meaning = ("Top candidates", LIKELIEST) if name == "top" else ("Most uncertain", words["unsure"])
    return fill(asset("list.html"), name=name, title=title, meaning=meaning)


def _with_note(content: Markup | None, note: str | None) -> Markup | None:
    """The content with a note below it; None where there is neither."""
    return content if note is None else join(content, element("p", note, class_="quiet"))


def _drawn(name: str, present: object, words: Mapping[str, str]) -> Markup | None:
    """The frame of a drawing in the words of the page; with ``_bound`` in its name where π is only bounded."""
    if not present:
        return None
    bound = f"{name}_bound.html"
    own = words is SCORE_WORDS and has_asset(bound)
    return fill(asset(bound if own else f"{name}.html"), **words)


def _section(name: str, label: str, content: Markup, record: FitRecord) -> Markup:
    title, kind = element("h2", label, id=f"{name}-title"), None
    if name == "verdict" and record.verdict is not None:
        kind = record.verdict.word.replace(" ", "-")
    return element("section", title, content, id=name, class_=kind, aria_labelledby=f"{name}-title")
