"""``pucl theory``: the statements of the paper checked by numbers, as a table."""

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from pucl.cli.options import AsJson, names_of, words

if TYPE_CHECKING:
    from rich.table import Table

    from pucl.theory.checking import Row

FORMATS = ("text", "markdown")
WIDE = 100  # columns from which a verdict has a line


def theory(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Statements by name or by their label in the paper (default: all of them).",
            autocompletion=names_of("statements"),
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same figures.")] = 0,
    form: Annotated[str, typer.Option("--format", help="text or markdown.", autocompletion=words(*FORMATS))] = "text",
    as_json: AsJson = False,
) -> None:
    """Check the paper's theorems by numbers: what each predicts, what is measured, and whether it holds as written.

    'pucl list statements' shows the names. All of them take less than a minute.

    Example: pucl theory

    Example: pucl theory scl_pu_bias lemma:label_noise --seed 1
    """
    from pucl.cli.console import progress_bar
    from pucl.errors import check_known
    from pucl.theory.checking import check

    check_known("pucl theory", "format", [form], FORMATS)
    with progress_bar() as report:
        rows = check(names or (), seed=seed, on_statement=report)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
        return
    if form == "markdown":
        typer.echo(markdown(rows), nl=False)
        return
    from rich.console import Console

    console = Console(highlight=False)
    for statement, group in groupby(rows, key=lambda row: row.statement):
        own = tuple(group)
        console.print(f"[bold]{own[0].label}[/] ({statement}), {own[0].seconds:.1f} s")
        console.print(rows_table(own, wide=console.width >= WIDE))
        for note in dict.fromkeys(row.note for row in own if row.note and row.verdict != "holds"):
            console.print(note, markup=False)
        console.print()
    console.print(f"Seed {seed}. The intervals of a statement hold all its figures together with 99 %.")


def markdown(rows: "tuple[Row, ...]") -> str:
    """The table for a page of the documentation, one line for every figure."""
    lines = [
        "| statement | what is compared | paper | corrected | measured | verdict |",
        "|---|---|---:|---:|---:|---|",
    ]
    before = ""
    for row in rows:
        statement = f"`{row.label}`" if row.statement != before else ""
        before = row.statement
        cells = (statement, row.compared.replace("|", "\\|"), *_figures(row), row.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rows_table(rows: "tuple[Row, ...]", *, wide: bool) -> "Table":
    """One line for every figure of a statement; the columns of all statements stand under each other."""
    from rich.table import Table

    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("what is compared", ratio=1)
    for header, width in (("paper", 10), ("corrected", 10), ("measured", 18)):
        table.add_column(header, justify="right", no_wrap=True, width=width)
    table.add_column("verdict", width=25 if wide else 14)
    for row in rows:
        table.add_row(row.compared.replace("[", r"\["), *_figures(row), row.verdict)
    return table


def _figures(row: "Row") -> tuple[str, str, str]:
    """What the paper says, what the corrected form says, and what was measured."""
    corrected = "" if row.corrected is None else f"{row.relation} {figure(row.corrected)}"
    return f"{row.relation} {figure(row.predicted)}", corrected, _measured(row)


def _measured(row: "Row") -> str:
    half = (row.high - row.low) / 2
    sampled = half > 1e-6 * max(1.0, abs(row.measured))
    return f"{figure(row.measured)} ± {half:.1g}" if sampled else figure(row.measured)


def figure(value: float) -> str:
    """A number in four digits, without a minus sign before a zero."""
    return f"{value + 0.0:.4g}" if abs(value) >= 5e-10 else "0"
