"""Numbers, durations and dates as people read them."""

from datetime import datetime

from pucl.report.reading import Measured


def count(n: float) -> str:
    """A whole number with thousands apart: 12,345."""
    return f"{round(n):,}"


def percent(share: float) -> str:
    """A share as a percentage, with one decimal below ten: 33%, 4.2%."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def estimate(measured: Measured) -> str:
    """A value with its standard error: 0.912 ± 0.010."""
    error = "" if measured.error is None else f" ± {measured.error:.3f}"
    return f"{measured.value:.3f}{error}"


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
