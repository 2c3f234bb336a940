"""How a table is written: text for a terminal, Markdown, CSV for machines, LaTeX."""

import csv
import io
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pucl.bench.pages.tables import Measured, PaperTable, Row
from pucl.bench.results.published import PRETRAINED, Column
from pucl.errors import unknown_name

ABREAST = 6  # columns of a part, so that it fits a page
NOTHING = "–"
TEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "_%&#{}$"}
    | {"±": r"$\pm$", "–": "--", "†": r"$^\dagger$", "‡": r"$^\ddagger$", "<": "$<$", "\\": r"$\backslash$"}
)
FIELDS = (
    "table", "method", "recipe", "prior", "task", "n_labelled", "mean", "std", "seeds", "published", "published_std",
    "difference", "p_value", "best", "outdated",
)  # fmt: skip

ABOUT_NUMBERS = (
    "Accuracy on test rows in per cent, last epoch: mean ± sample standard deviation (number of seeds) of our own runs."
)
ABOUT_TESTS = (
    "‡ The best row of the column with at least two seeds. p: two-sided paired t-test against ‡ over common seeds, not "
    "corrected for the number of rows. prior: how our row got its class prior, if it did. Ceilings, supervised rows "
    "and kNN saw every training label."
)
PAPER_NOTE = (
    f"{ABOUT_NUMBERS} In brackets: the paper's number, then ours minus it. Readouts and encoders that the paper does "
    "not have are compared with puPL on the same objective and the paper's encoder. † The paper's method was given the "
    f"true class prior. {ABOUT_TESTS}"
)
OWN_NOTE = (
    "efficientnet_lite0 and minilm start from weights that were learnt from the labels of ImageNet and from pairs of "
    "sentences: not to be compared with tables of encoders that start from nothing. hashed learns from the task's own "
    "texts; tfidf is a logistic regression on TF-IDF, of P against U (naive, whose ranking is much better than its "
    "threshold: docs/benchmark.md has its AUC) or on every true label (supervised). "
    f"{ABOUT_NUMBERS} {ABOUT_TESTS}"
)


def write(table: PaperTable, form: str) -> str:
    """The table in one of `FORMATS`, ending in a line feed."""
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    return FORMATS[form](table)


def as_text(table: PaperTable) -> str:
    """Two lines a row: our mean ± std (seeds), then the paper's number, the difference and p."""
    parts = []
    for columns, rows in _parts(table):
        lines = [["method", "recipe", "prior", *_heads(columns)]]
        for row in rows:
            entries = [row.entries.get(column, Measured()) for column in columns]
            lines.append([*row.label, *(ours(entry) for entry in entries)])
            lines.append(["", "", "", *(theirs(entry) for entry in entries)])
        widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
        written = ["  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        parts.append("\n".join([written[0], "-" * max(len(line) for line in written), *written[1:]]))
    return "\n\n".join([table.name, *parts, *notes(table)]) + "\n"


def as_markdown(table: PaperTable) -> str:
    """The same in Markdown, our best of every column in bold."""
    parts = []
    for columns, rows in _parts(table):
        heads = ["method", "recipe", "prior", *_heads(columns)]
        lines = [heads, ["---", "---", "---", *("---:" for _ in columns)]]
        for row in rows:
            entries = [row.entries.get(column, Measured()) for column in columns]
            cells = [_two(_strong(entry), theirs(entry), "<br>") for entry in entries]
            lines.append([*(word.replace("|", r"\|") for word in row.label), *cells])
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, *notes(table)]) + "\n"


def as_csv(table: PaperTable) -> str:
    """One line for every row and column, numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for row in table.rows:
        for (task, n), entry in sorted(row.entries.items(), key=lambda item: table.columns.index(item[0])):
            number, some = entry.published, bool(entry.values)
            values = (
                round(entry.mean, 4) if some else None, _rounded(entry.std) if some else None, len(entry.values),
                number.accuracy if number else None, number.std if number else None, _rounded(entry.difference),
                entry.p_value, entry.best, entry.outdated,
            )  # fmt: skip
            writer.writerow([table.name, *row.label, task, n, *("" if value is None else value for value in values)])
    return out.getvalue()


def as_latex(table: PaperTable) -> str:
    """Tables for the package booktabs."""
    parts = []
    for columns, rows in _parts(table):
        heads = ("method", "recipe", "prior", *_heads(columns))
        lines = [" & ".join(_tex(head) for head in heads) + r" \\", r"\midrule"]
        for row in rows:
            entries = [row.entries.get(column, Measured()) for column in columns]
            cells = [_tex(_two(ours(entry), theirs(entry), "; ")) for entry in entries]
            cells = [rf"\textbf{{{cell}}}" if e.best else cell for cell, e in zip(cells, entries, strict=True)]
            lines.append(" & ".join([*(_tex(word) for word in row.label), *cells]) + r" \\")
        head = [rf"\begin{{tabular}}{{lll{'r' * len(columns)}}}", r"\toprule"]
        parts.append("\n".join([*head, *lines, r"\bottomrule", r"\end{tabular}"]))
    return "\n\n".join([f"% {table.name}", *parts, *(f"% {note}" for note in notes(table))]) + "\n"


FORMATS: Mapping[str, Callable[[PaperTable], str]] = MappingProxyType(
    {"text": as_text, "markdown": as_markdown, "csv": as_csv, "latex": as_latex}
)


def ours(entry: Measured) -> str:
    """``92.10 ± 0.40 (5)``, with ‡ where others are tested against it and * where it is outdated."""
    if not entry.values:
        return NOTHING
    spread = f" ± {entry.std:.2f}" if entry.std is not None else ""
    signs = ("‡" if entry.tested_against else "") + ("*" if entry.outdated else "")
    return f"{entry.mean:.2f}{spread} ({len(entry.values)}){signs}"


def theirs(entry: Measured) -> str:
    """``[91.8† +0.30] p 0.012``: the paper's number, ours minus it, and the paired test."""
    words = []
    if entry.published is not None:
        number = f"{entry.published.shown}{'†' if entry.published.with_prior else ''}"
        words.append(f"[{number}]" if entry.difference is None else f"[{number} {entry.difference:+.2f}]")
    if entry.p_value is not None:
        words.append("p < 0.001" if entry.p_value < 0.001 else f"p {entry.p_value:.3f}")
    return " ".join(words)


def notes(table: PaperTable) -> list[str]:
    """What the signs mean and where the numbers come from."""
    texts = [OWN_NOTE if table.name == PRETRAINED else PAPER_NOTE]
    if any(entry.outdated for row in table.rows for entry in row.entries.values()):
        texts.append("* Made by an earlier revision of the code; 'pucl bench run GRID --stale' runs it again.")
    if table.older:
        plural = "s" * (table.older > 1)
        texts.append(f"Not shown: {table.older} result{plural} of older configurations with the same names.")
    if table.commits:
        texts.append(f"Commits: {', '.join(table.commits)}.")
    return texts


def _parts(table: PaperTable) -> list[tuple[list[Column], list[Row]]]:
    """The columns some at a time, each part with the rows that have something to show in it."""
    cut = [table.columns[at : at + ABREAST] for at in range(0, len(table.columns), ABREAST)]
    return [(columns, _shown(table.rows, columns)) for columns in cut]


def _shown(rows: list[Row], columns: list[Column]) -> list[Row]:
    """Rows of ours in some columns, and of every published method that none of them is compared with one row."""
    own = [any(row.entries.get(column, Measured()).values for column in columns) for row in rows]
    named = [_published_in(row, columns) for row in rows]
    carried = {name for is_own, names in zip(own, named, strict=True) if is_own for name in names}
    shown = []
    for row, is_own, names in zip(rows, own, named, strict=True):
        if is_own or names - carried:
            shown.append(row)
            carried |= names
    return shown


def _published_in(row: Row, columns: list[Column]) -> set[str]:
    numbers = [row.entries[column].published for column in columns if column in row.entries]
    return {number.method for number in numbers if number is not None}


def _heads(columns: list[Column]) -> list[str]:
    return [f"{task}, {n:,}" for task, n in columns]


def _two(first: str, second: str, between: str) -> str:
    return f"{first}{between}{second}" if second else first


def _strong(entry: Measured) -> str:
    return f"**{ours(entry)}**" if entry.best else ours(entry)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _tex(text: str) -> str:
    return text.translate(TEX)
