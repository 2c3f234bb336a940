"""``pucl review``: which rows to look at, the answers taken back, and answers withdrawn."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pucl.cli.options import (
    AsJson,
    IdColumn,
    Key,
    Label,
    Negatives,
    Positives,
    PositiveValue,
    Rows,
    Seed,
    SkipUnreadable,
    reading,
    words,
)
from pucl.errors import Described, bad_argument, check_count
from pucl.review.strategies import MIXED, STRATEGIES

if TYPE_CHECKING:
    from pucl.review.loop import Round

OWNER = "pucl review"
ANSWERS = "Answers"  # a panel of --help
N = 20


def review(
    model: Annotated[Path | None, typer.Argument(help="A folder that 'pucl fit' wrote.")] = None,
    data: Annotated[str | None, typer.Argument(help="The rows to pick from, as for 'pucl fit'.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the review: the log of answers and the sheets.")] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="likely (the best scores), doubtful (the scores nearest to the threshold), different (farthest from "
            "all that is known), mixed (these in turn), or random.",
            autocompletion=words(*STRATEGIES),
        ),
    ] = MIXED,
    n: Annotated[int, typer.Option(help="Rows on the sheet.")] = N,
    add: Annotated[
        list[Path] | None,
        typer.Option(help="A file of answers to add to the log; may be given several times.", rich_help_panel=ANSWERS),
    ] = None,
    take_back: Annotated[
        list[str] | None,
        typer.Option(
            help="The id of a row whose answers are taken back, or the name of a sheet; may be given several times.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    positives: Positives = None,
    label: Label = None,
    positive_value: PositiveValue = None,
    negatives: Negatives = None,
    id_column: IdColumn = None,
    key: Key = None,
    skip_unreadable: SkipUnreadable = None,
    rows: Rows = None,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Pick the rows worth a look and write them as a sheet to answer; take the answers back with --add.

    The sheet is a CSV file and a page that opens in any browser, with two keys: P for positive, N for negative. Answers
    are only ever added to the log in --out. 'pucl fit … --answers' learns from them.

    Example: pucl review model customers.csv --out review

    Example: pucl review --out review --add answers-sheet-0001.csv

    Example: pucl review --out review --take-back 1017
    """
    from pucl.review.picking import check_strategy

    if out is None:
        raise bad_argument(OWNER, "--out", "given: the folder of the review", None)
    if (model is None) != (data is None):
        raise bad_argument(OWNER, "DATA", "given with MODEL", None)
    if model is None and not add and not take_back:
        got = Described("none of them")
        raise bad_argument(OWNER, "MODEL and DATA", "given for a new sheet, or --add or --take-back", got)
    check_strategy(strategy)
    check_count(OWNER, "--n", n)
    check_count(OWNER, "--seed", 0 if seed is None else seed, low=0)
    told: dict[str, Any] = {"out": str(out)}
    if add or take_back:
        told |= _keep(out, add or [], take_back or [], say=not as_json)
    if model is not None and data is not None:
        given = {
            "positives": positives, "label": label, "positive_value": positive_value, "negatives": negatives,
            "id_column": id_column, "key": key, "skip_unreadable": skip_unreadable,
        }  # fmt: skip
        told |= _ask(model, data, out, given, strategy, n, seed or 0, rows, say=not as_json)
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False))


def _keep(out: Path, add: list[Path], take_back: list[str], *, say: bool) -> dict[str, Any]:
    """Add files of answers and take answers back."""
    from pucl.errors import some
    from pucl.review.answers import standing
    from pucl.review.folder import add_files, log_of, working_in
    from pucl.review.folder import take_back as withdraw
    from pucl.review.share import random_share

    if not out.is_dir():
        raise bad_argument(OWNER, f"--out {out}", "the folder of a review", Described("nothing there"))
    with working_in(out, OWNER):
        added = add_files(out, add, OWNER) if add else None
        withdrawn = withdraw(out, take_back, OWNER) if take_back else []
        log = log_of(out, OWNER)
    rows, share = standing(log), random_share(log)
    found = Counter("positive" if row.answer else "negative" for row in rows.values() if row.answer is not None)
    contradicted = [one for one, row in rows.items() if row.contradicts]
    open_ = sum(row.open for row in rows.values())
    if say:
        if added is not None:
            known = f", {added.known:,} were in the log already" if added.known else ""
            empty = "" if added.new or added.known else ", the column 'answer' is empty"
            typer.echo(f"Answers added: {added.new:,}{known}{empty}")
        if withdrawn:
            typer.echo(f"Taken back: {some(withdrawn)}")
        typer.echo(
            f"In the log: {found['positive']:,} positive, {found['negative']:,} negative, {open_:,} not answered yet"
        )
        if share is not None:
            typer.echo(str(share))
        if contradicted:
            typer.echo(f"Answers that contradict each other, asked again on the next sheet: {some(contradicted)}")
        typer.echo(f"Next: pucl fit DATA … --answers {shlex.quote(str(out))} --start-from MODEL --out NEW-MODEL")
    return {
        "added": 0 if added is None else added.new, "taken_back": withdrawn, "positive": found["positive"],
        "negative": found["negative"], "open": open_, "contradictions": contradicted,
        "random_share": None if share is None else share.value,
    }  # fmt: skip


def _ask(
    model: Path, data: str, out: Path, given: dict[str, Any], strategy: str, n: int, seed: int, rows: int | None, *,
    say: bool,
) -> dict[str, Any]:  # fmt: skip
    """Write the next sheet."""
    from pucl.models.folder import load_model
    from pucl.review.folder import check_place
    from pucl.review.loop import write_round

    check_place(out, OWNER)
    done = write_round(
        load_model(model), data, out, reading(given), strategy=strategy, n=n, seed=seed, max_rows=rows, owner=OWNER
    )
    if say:
        typer.echo(_said(done, out))
    return {
        "sheet": done.name, "files": [str(path) for path in done.files], "rows": len(done.picks), "left": done.left,
        "drift": None if done.drift is None else str(done.drift),
    }  # fmt: skip


def _said(done: "Round", out: Path) -> str:
    drift = [] if done.drift is None else [str(done.drift)]
    if not done.name:
        return "\n".join([*drift, "Nothing left to ask: every row is labelled, answered or stands on a sheet."])
    counts = Counter(pick.why for pick in done.picks)
    why = ", ".join(f"{count} {words}" for words, count in counts.items())
    table, page = done.files
    return "\n".join(
        [
            *drift,
            f"{done.name}: {len(done.picks):,} rows to answer ({why}); {done.left:,} more could be asked",
            f"Page: {page} (open it in a browser; P is positive, N is negative)",
            f"Table: {table} (or fill in its column 'answer')",
            f"Then: pucl review --out {shlex.quote(str(out))} --add FILE",
        ]
    )
