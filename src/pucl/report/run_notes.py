"""What the run had to say and how to repeat it: warnings, diagnostics, the command and the data it was given."""

from collections.abc import Mapping
from typing import Any

from pucl.report.markup import Markup, element, join, shorten
from pucl.report.reading import number, section, text, texts
from pucl.report.wording import count

LONGEST_COMMAND = 20_000
MOST_COLUMNS = 300


def warnings(about: Mapping[str, Any]) -> Markup | None:
    """Warnings as a list, None where there are none."""
    return _bullets(texts(about, "warnings"))


def diagnostics(about: Mapping[str, Any]) -> Markup | None:
    """Findings as a list, those that are warnings marked."""
    return _bullets(texts(about, "diagnostics"))


def data_facts(about: Mapping[str, Any]) -> Markup | None:
    """Source, counts, shape, columns and fingerprint of the rows."""
    rows, schema = section(about, "rows"), section(about, "schema")
    shape = schema.get("shape")
    pairs = [
        ("Source", text(about, "source", 400)),
        *((label, _count(rows.get(key))) for key, label in (("n", "Rows"), ("labelled", "Labelled positives"))),
        ("Unlabelled", _count(rows.get("unlabelled"))),
        (
            "Shape of a row",
            shorten(" × ".join(map(str, shape)), 60) if isinstance(shape, list | tuple) and shape else None,
        ),
        ("Fingerprint", text(about, "fingerprint", 200)),
    ]
    found = (element("div", element("dt", label), element("dd", value)) for label, value in pairs if value)
    return join(element("dl", *found, class_="pairs"), _columns(schema.get("columns")))


def command(about: Mapping[str, Any]) -> Markup | None:
    """The command line with a button that copies it."""
    line = text(about, "command", LONGEST_COMMAND)
    if line is None:
        return None
    button = element("button", "Copy", type="button", id="copy")
    said = element("span", id="copied", role="status", class_="quiet")
    return join(element("pre", element("code", line, id="command-line"), tabindex="0"), element("p", button, " ", said))


def _bullets(lines: tuple[str, ...]) -> Markup | None:
    return element("ul", *map(_bullet, lines)) if lines else None


def _bullet(line: str) -> Markup:
    plain = line.removeprefix("Warning: ")
    if plain == line:
        return element("li", line)
    return element("li", element("strong", "Warning"), ": ", plain, class_="warn")


def _columns(columns: Any) -> Markup | None:
    if not isinstance(columns, Mapping) or not columns:
        return None
    shown = list(columns.items())[:MOST_COLUMNS]
    items = (element("div", element("dt", shorten(key, 100)), element("dd", shorten(kind, 60))) for key, kind in shown)
    more = len(columns) - len(shown)
    rest = element("p", f"and {count(more)} more", class_="quiet") if more else None
    return element(
        "details", element("summary", f"{count(len(columns))} columns"), element("dl", *items, class_="pairs"), rest
    )


def _count(value: Any) -> str | None:
    found = number(value)
    return None if found is None else count(found)
