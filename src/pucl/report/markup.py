"""Words and HTML of the page: numbers in readable form, and elements that escape their content."""

import html
import re
from collections.abc import Sequence
from datetime import datetime
from math import isfinite

from pucl.selection.scores import Estimate

MAX_TEXTS = 60
LONGEST_TEXT = 600
# Control characters, which HTML does not allow, halves of surrogate pairs, which UTF-8 does not, and marks that turn
# the direction of all text after them.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def visible(value: object) -> str:
    """`value` as text that any page can carry: what cannot be written becomes the replacement character."""
    return _INVISIBLE.sub("\ufffd", str(value))


def shorten(value: object, max_length: int) -> str:
    """`value` as visible text of at most `max_length` characters, with an ellipsis where some were left out."""
    text = str(value)
    return visible(text) if len(text) <= max_length else f"{visible(text[: max_length - 1])}…"


def escape(value: object) -> Markup:
    """`value` as HTML: markup as it is, anything else escaped."""
    return value if isinstance(value, Markup) else Markup(html.escape(visible(value)))


def element(name: str, *children: object, **attributes: object) -> Markup:
    """``<name attributes>children</name>``; ``class_`` gives class, ``aria_label`` aria-label, and None nothing."""
    return Markup(f"<{name}{_attributes(attributes)}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Children one after the other, those that are None left out."""
    return Markup("".join(escape(child) for child in children if child is not None))


def fill(template: str, **parts: str) -> Markup:
    """`template` with every ``{{name}}`` replaced once; what is put in is not searched again."""
    return Markup(_PLACE.sub(lambda place: escape(parts[place[1]]), template))


def _attributes(attributes: dict[str, object]) -> str:
    given = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    return "".join(f' {key}="{escape(value)}"' for key, value in given)


def count(n: float) -> str:
    """A whole number with thousands apart: 12,345."""
    return f"{round(n):,}"


def percent(share: float) -> str:
    """A share as a percentage, with one decimal below ten: 33%, 4.2%."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def estimate(measured: Estimate) -> str:
    """A value with its standard error, where that is known: 0.912 ± 0.010."""
    return str(measured) if isfinite(measured.error) else f"{measured.value:.3f}"


def duration(seconds: float) -> str:
    """A time span in its two largest units: 42 s, 3 min 12 s, 5 h 40 min."""
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(stamp: str) -> str:
    """An ISO time as day and minute; any other text as it is."""
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    return f"{at:%d %B %Y, %H:%M}{' UTC' if at.utcoffset() is not None and not at.utcoffset() else ''}".lstrip("0")


def name(key: str) -> str:
    """A key of model.json as a label: batch_size → Batch size."""
    words = key.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def limited(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts as many and as long as a page can take; the last one counts those left out."""
    rest = len(texts) - MAX_TEXTS
    more = (f"… and {rest} more.",) if rest > 0 else ()
    return (*(shorten(text, LONGEST_TEXT) for text in texts[:MAX_TEXTS]), *more)
