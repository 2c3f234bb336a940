"""What model.json says, with an empty answer for everything that is missing, null or of another kind."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pucl.errors import Described, bad_argument, check_share, is_number
from pucl.report.markup import shorten

MOST_TEXTS = 60
LONGEST_TEXT = 600
REQUIRED = ("kind", "rows", "prior")


@dataclass(frozen=True)
class Measured:
    """A number with its standard error, which may be unknown."""

    value: float
    error: float | None


@dataclass(frozen=True)
class Interval:
    """The class prior π with its interval and the way it came about, as far as they are known."""

    value: float
    low: float | None
    high: float | None
    method: str | None


def check_about(about: Mapping[str, Any]) -> None:
    """Raise one clear error unless kind, rows and prior are there."""
    missing = [key for key in REQUIRED if about.get(key) is None]
    if missing:
        got = Described(f"nothing for {', '.join(missing)}")
        raise bad_argument("pucl.report", "about", f"the content of model.json with {', '.join(REQUIRED)}", got)


def section(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of model.json that is a mapping; empty where there is none."""
    found = about.get(key)
    return found if isinstance(found, Mapping) else {}


def number(value: Any) -> float | None:
    """`value` as a finite float, or None."""
    return float(value) if is_number(value) else None


def text(about: Mapping[str, Any], key: str, most: int = LONGEST_TEXT) -> str | None:
    """A text or a number under `key`, shortened; None where it is missing or empty."""
    found = about.get(key)
    return shorten(found, most) if isinstance(found, str | int | float) and str(found) else None


def texts(about: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts under `key`, as many and as long as a page can take; the last one counts those left out."""
    found = about.get(key)
    if not isinstance(found, list | tuple):
        return ()
    said = [one for one in found if one is not None]
    rest = len(said) - MOST_TEXTS
    more = (f"… and {rest} more.",) if rest > 0 else ()
    return (*(shorten(one, LONGEST_TEXT) for one in said[:MOST_TEXTS]), *more)


def records(about: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The mappings in a list under `key`."""
    found = about.get(key)
    if isinstance(found, list | tuple):
        yield from (one for one in found if isinstance(one, Mapping))


def measured(value: Any) -> Measured | None:
    """A number, or a mapping with value and error, as a measured number; None where there is no value."""
    parts = value if isinstance(value, Mapping) else {"value": value}
    main = number(parts.get("value"))
    return None if main is None else Measured(main, number(parts.get("error")))


def prior_of(about: Mapping[str, Any]) -> Interval:
    """π with its interval; a bare number is allowed."""
    found = about["prior"]
    parts = found if isinstance(found, Mapping) else {"value": found}
    value = check_share("pucl.report", "prior", parts.get("value"))
    low, high = (number(parts.get(key)) for key in ("low", "high"))
    return Interval(value, _share(low), _share(high), text(parts, "method", 60))


def _share(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)
