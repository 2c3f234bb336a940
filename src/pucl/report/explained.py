"""Example rows: what raises and lowers the scores of some of the first unlabelled rows, in words."""

from collections.abc import Sequence

from pucl.models.evidence import Effect, Explained
from pucl.report.markup import Markup, element, join, shorten

MOST_ROWS, MOST_EFFECTS = 20, 10
MEANING = (
    "For some of the top candidates, the values that move the score (a logit) most: by how much it is higher or lower "
    "than with the typical value among the unlabelled rows (the median, or the most common category). One value is "
    "changed at a time, so the changes need not add up, and columns with the same information share their effect. The "
    "scores are those of the model itself, which was trained with these rows as unlabelled."
)


def examples(explained: Sequence[Explained]) -> Markup | None:
    """A list of rows with the changes; None where there are none."""
    if not explained:
        return None
    rows = (
        element("div", element("dt", shorten(each.id, 100)), element("dd", in_words(each)))
        for each in explained[:MOST_ROWS]
    )
    return join(
        element("h3", "Why these rows"), element("p", MEANING, class_="meaning"), element("dl", *rows, class_="lines")
    )


def in_words(row: Explained) -> str:
    """``age 61: +1.2; job retired: +0.8``."""
    return "; ".join(map(_effect, row.effects[:MOST_EFFECTS])) or "no single value moves it"


def _effect(effect: Effect) -> str:
    value = shorten(effect.value, 60) if effect.value else "(missing)"
    return f"{shorten(effect.column, 60)} {value}: {_signed(effect.change)}"


def _signed(value: float) -> str:
    return f"{value:+.1f}" if abs(value) >= 0.05 else f"{value:+.2f}"
