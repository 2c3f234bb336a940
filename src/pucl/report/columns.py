"""The columns of a table: how much each matters to the ranking of hidden positives."""

from pucl.models.describe import clear_columns
from pucl.models.record import FitRecord
from pucl.report.details import scale_of, whisker_cell
from pucl.report.markup import Markup, count, element, join, shorten

MAX_SHOWN = 20
BY_CHANCE = 0.023  # share of columns without any effect that are above two standard errors
DROP = "Drop of the AUC"
MEANING = (
    "How far the AUC of hidden positives against unlabelled rows drops when the values of a column are shuffled among "
    "rows, by models that did not see the rows; lines show ± one standard error. A date counts with its parts, a "
    "category or a text as one column. Columns with the same information replace each other, so each of them may "
    "show little."
)


def importance(record: FitRecord) -> Markup | None:
    """A table of the columns, the most important first; None where nothing is known of them."""
    drops = record.importance
    if not drops:
        return None
    clear = set(clear_columns(drops))
    shown = list(drops.items())[:MAX_SHOWN]
    scale = scale_of([drop for _, drop in shown])
    rows = (
        element(
            "tr", element("th", shorten(name, 120), scope="row"), whisker_cell(drop, DROP, scale),
            class_="chosen" if name in clear else None,
        )
        for name, drop in shown
    )  # fmt: skip
    head = element("tr", element("th", "Column", scope="col"), element("th", DROP, scope="col"))
    table = element(
        "table",
        element("thead", head),
        element("tbody", *rows),
        class_="candidates columns",
        aria_label="Importance of the columns",
    )
    return join(
        element("p", MEANING, class_="meaning"), table, element("p", _rest(len(drops), len(clear)), class_="quiet")
    )


def _rest(n: int, clear: int) -> str:
    more = f" The {MAX_SHOWN} first are shown." if n > MAX_SHOWN else ""
    chance = f"by chance alone about {BY_CHANCE * n:.1f} of {count(n)} would be"
    return f"{count(clear)} of {count(n)} columns are above two standard errors; {chance}.{more}"
