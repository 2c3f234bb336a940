"""The rest of the page in words: the method and its candidates, findings and warnings, and how to repeat the run."""

from collections.abc import Mapping, Sequence
from math import isfinite

from pucl.models.record import CandidateScores, FitRecord
from pucl.models.schema import Schema
from pucl.report.markup import Markup, count, element, estimate, join, limited, name, percent, shorten
from pucl.selection.limits import Limits
from pucl.selection.scores import Estimate

MAX_CANDIDATES = 60
MAX_COLUMNS = 300
LONGEST_COMMAND = 20_000
MAX_VERSIONS = 12
AUC = "AUC, hidden positives against unlabelled rows"
COMPARED = (
    "Each on the rows hidden from it, ± one standard error; these need not be the same rows. “Against the chosen one” "
    "is the difference on the rows that both were judged on. To replace one that comes before it, a candidate must be "
    "higher there by more than one standard error; with another encoder, other than raw rows, by more than two."
)
FROM_THEORY = (
    "What follows from the numbers of rows, the plausible share of positives and the embedding, by the theorems of the "
    "paper behind pucl. It takes no label of an unlabelled row, and is about other ways to train than this model's."
)
AVERAGED = "The rankers with a weight are averaged; their weights follow from their AUC."


def choices(record: FitRecord) -> Markup:
    """Names and values of what was chosen, and why."""
    made = {key: value for key, value in record.choices.to_dict().items() if value is not None}
    pairs = (element("div", element("dt", name(key)), element("dd", _plain(value))) for key, value in made.items())
    reasons = (element("li", reason) for reason in limited(record.reasons))
    why = join(element("h3", "Why"), element("ul", *reasons)) if record.reasons else None
    return join(element("dl", *pairs, class_="pairs"), why)


def candidates(record: FitRecord) -> Markup | None:
    """A table of the candidates: the AUC by which they were chosen, on a common scale, and the differences."""
    tried = record.candidates[:MAX_CANDIDATES]
    if not tried:
        return None
    scale = scale_of([measured for measured in map(_measured, tried) if measured is not None])
    compared = any(candidate.difference is not None for candidate in tried)
    counted = any(candidate.hidden is not None for candidate in tried)
    averaged = any(candidate.weight is not None for candidate in tried)
    labels = (
        "Candidate", AUC, *(("Against the chosen one",) if compared else ()),
        *(("Hidden positives",) if counted else ()), *(("Weight",) if averaged else ()),
    )  # fmt: skip
    head = element("tr", *(element("th", label, scope="col") for label in labels))
    rows = (_row(candidate, scale, labels[2:]) for candidate in tried)
    said = " ".join([*([COMPARED] if compared else []), *([AVERAGED] if averaged else [])])
    caption = element("caption", said or "On rows hidden from each. Lines show ± one standard error.")
    table = element("table", caption, element("thead", head), element("tbody", *rows), class_="candidates")
    return join(element("h3", "Candidates"), table)


def warnings(record: FitRecord) -> Markup | None:
    """Warnings as a list, None where there are none."""
    return _bullets(record.warnings)


def diagnostics(record: FitRecord) -> Markup | None:
    """Findings as a list, those that are warnings marked."""
    return _bullets(record.diagnostics)


def theory(limits: Limits | None) -> Markup | None:
    """What theory says of the data and the embedding, as a list; None where it is not known."""
    if limits is None:
        return None
    return join(element("p", FROM_THEORY, class_="meaning"), _bullets(limits.messages))


def data_facts(record: FitRecord, schema: Schema | None) -> Markup:
    """Source, counts, shape, columns and fingerprint of the rows."""
    shape = None if schema is None else shorten(" × ".join(map(str, schema.shape)), 60)
    pairs = [
        ("Source", shorten(record.source, 400) if record.source else None),
        ("Rows", count(record.all_rows.n)),
        ("Labelled positives", count(record.all_rows.labelled)),
        ("Unlabelled", count(record.all_rows.unlabelled)),
        ("Confirmed negatives", count(record.all_rows.negative) if record.all_rows.negative else None),
        ("Rows learned from", None if record.sampling is None else count(record.rows.n)),
        ("Shape of a row", shape),
        ("Checksum of rows and labels", shorten(record.fingerprint, 200) if record.fingerprint else None),
        ("Seed", str(record.seed)),
        ("Versions", _versions(record)),
    ]
    facts = (element("div", element("dt", label), element("dd", value)) for label, value in pairs if value)
    return join(element("dl", *facts, class_="pairs"), _columns({} if schema is None else schema.columns))


def _versions(record: FitRecord) -> str:
    known = {"pucl": record.pucl_version, **record.versions}
    return ", ".join(
        f"{shorten(name, 40)} {shorten(number, 40)}" for name, number in list(known.items())[:MAX_VERSIONS]
    )


def command(record: FitRecord) -> Markup | None:
    """The command line, or the call in Python, with a button that copies it."""
    if not record.command:
        return None
    line = shorten(record.command, LONGEST_COMMAND)
    button = element("button", "Copy", type="button", id="copy")
    said = element("span", id="copied", role="status", class_="quiet")
    return join(element("pre", element("code", line, id="command-line"), tabindex="0"), element("p", button, " ", said))


def _measured(candidate: CandidateScores) -> Estimate | None:
    measured = candidate.pu_auc
    return measured if measured is not None and isfinite(measured.value) else None


def _row(candidate: CandidateScores, scale: tuple[float, float], more: Sequence[str]) -> Markup:
    mark = element("span", "chosen", class_="badge") if candidate.chosen else None
    title = element("th", shorten(candidate.name, 120), " ", mark, scope="row")
    values = {
        "Against the chosen one": _difference(candidate),
        "Hidden positives": "–" if candidate.hidden is None else count(candidate.hidden),
        "Weight": "–" if candidate.weight is None else percent(candidate.weight),
    }
    cells = (element("td", values[label], data_label=label, class_="plain") for label in more)
    return element(
        "tr",
        title,
        whisker_cell(_measured(candidate), AUC, scale),
        *cells,
        class_="chosen" if candidate.chosen else None,
    )


def _difference(candidate: CandidateScores) -> str:
    measured = candidate.difference
    return "–" if measured is None else f"{measured.value:+.3f} ± {measured.error:.3f}".replace("-", "−")


def whisker_cell(measured: Estimate | None, label: str, scale: tuple[float, float]) -> Markup:
    """An estimate with its error drawn on a scale."""
    if measured is None:
        return element("td", "–", data_label=label)
    value, error = measured.value, _error(measured)
    low, at, high = (_percent(end, scale) for end in (value - error, value, value + error))
    whisker = element("line", x1=low, x2=high, y1=7, y2=7)
    drawing = element("svg", whisker, element("circle", cx=at, cy=7, r=4), class_="whisker", aria_hidden="true")
    return element("td", element("div", element("span", estimate(measured)), drawing), data_label=label)


def scale_of(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """From below the lowest to above the highest of the estimates with their errors."""
    low = min((e.value - _error(e) for e in estimates), default=0.0)
    high = max((e.value + _error(e) for e in estimates), default=1.0)
    room = max(0.05 * (high - low), 0.005)
    return low - room, high + room


def _error(measured: Estimate) -> float:
    return measured.error if isfinite(measured.error) else 0.0


def _percent(value: float, scale: tuple[float, float]) -> str:
    return f"{100 * (value - scale[0]) / (scale[1] - scale[0]):.2f}%"


def _plain(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else shorten(value, 300)


def _bullets(lines: Sequence[str]) -> Markup | None:
    return element("ul", *map(_bullet, limited(lines))) if lines else None


def _bullet(line: str) -> Markup:
    plain = line.removeprefix("Warning: ")
    if plain == line:
        return element("li", line)
    return element("li", element("strong", "Warning"), ": ", plain, class_="warn")


def _columns(columns: Mapping[str, str]) -> Markup | None:
    if not columns:
        return None
    shown = list(columns.items())[:MAX_COLUMNS]
    items = (element("div", element("dt", shorten(key, 100)), element("dd", shorten(kind, 60))) for key, kind in shown)
    more = len(columns) - len(shown)
    rest = element("p", f"and {count(more)} more", class_="quiet") if more else None
    return element(
        "details", element("summary", f"{count(len(columns))} columns"), element("dl", *items, class_="pairs"), rest
    )
