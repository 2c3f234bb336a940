"""HTML elements that escape what they hold, so that no text of a user can become markup."""

import html
import re

# Control characters, which HTML does not allow, and halves of surrogate pairs, which UTF-8 does not.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def visible(value: object) -> str:
    """`value` as text that any page can carry: what cannot be written becomes the replacement character."""
    return _INVISIBLE.sub("\ufffd", str(value))


def shorten(value: object, most: int) -> str:
    """`value` as visible text of at most `most` characters, with an ellipsis where some were left out."""
    text = visible(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


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
