"""Rows through a model into files: ``pucl predict`` and ``pucl embed``, of one file or of many."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pucl.cli.options import (
    CLUSTER,
    DATA,
    OUTPUT,
    Address,
    AsJson,
    Device,
    EngineName,
    IdColumn,
    Key,
    ModelFolder,
    SkipUnreadable,
)

if TYPE_CHECKING:
    from pucl.models.many_files import FilesDone

LABELS = "Labels, by one of these rules"  # a panel of --help
Rows = Annotated[
    str,
    typer.Argument(
        help="A table, an array, or a folder of images or .txt files, as for 'pucl fit'; many tables as a pattern in "
        "quotes ('data/*.parquet'), a folder or an address (s3://bucket/data)."
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Refuse categories and missing values that training did not have.", rich_help_panel=DATA
    ),
]
Resize = Annotated[bool, typer.Option("--resize", help="Resize images to the size of training.", rich_help_panel=DATA)]
BatchSize = Annotated[int, typer.Option(help="Rows held in memory at a time.")]
Shard = Annotated[
    str | None,
    typer.Option(help="i/n: only every n-th file, from the i-th on (0/4 to 3/4 are all).", rich_help_panel=CLUSTER),
]


def predict(
    model: ModelFolder,
    data: Rows,
    out: Annotated[
        str, typer.Option(help="A .parquet or .csv file; for many files also a folder.", rich_help_panel=OUTPUT)
    ],
    id_column: IdColumn = None,
    key: Key = None,
    top: Annotated[
        int | None,
        typer.Option(help="Label this many rows positive: the highest scores.", rich_help_panel=LABELS),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Label enough rows positive to find this share of all positives.", rich_help_panel=LABELS),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            help="Label rows positive as long as this share of them should be right.",
            rich_help_panel=LABELS,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Label rows above this probability (default: 0.5).", rich_help_panel=LABELS),
    ] = None,
    batch_size: BatchSize = 8192,
    resize: Resize = False,
    skip_unreadable: SkipUnreadable = None,
    strict: Strict = False,
    device: Device = None,
    shard: Shard = None,
    engine: EngineName = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Score rows with a model: id, probability, label and reliability of each, for files of any size and number.

    A model that only knows a bound on the share of positives writes a score in the place of the probability. With a
    folder as --out, many files give one file of scores each; the same command again does what is missing.

    Example: pucl predict model customers.parquet --id-column customer --out scores.parquet

    Example: pucl predict model customers.parquet --top 500 --out scores.csv

    Example: pucl predict model 'data/*.parquet' --engine ray --out scores
    """
    from pucl.cli.console import progress_bar
    from pucl.device import pick_device
    from pucl.models.folder import load_model
    from pucl.models.many_files import score_files
    from pucl.models.scoring import score_to_file

    how: dict[str, Any] = {"batch_size": batch_size, "id_column": id_column, "key": key, "strict": strict}
    how |= {"top": top, "threshold": threshold, "recall": recall, "precision": precision}
    if many := _many(model, data, out, shard, engine, address, resize=resize, skip_unreadable=skip_unreadable):
        with _progress("pucl predict", "scoring") as report:
            done = score_files(model, data, out, device=device, on_progress=report, **many, **how)
        _say(done, "pucl predict", as_json=as_json)
        return
    with progress_bar() as report:
        scored = score_to_file(
            load_model(model).to(pick_device(device)), data, out, resize=resize,
            skip_unreadable=bool(skip_unreadable), on_progress=lambda rows: report(f"{rows:,} rows", 0.0), **how,
        )  # fmt: skip
    if as_json:
        counts = {"rows": scored.rows, "positive": scored.positive, "rule": scored.rule}
        typer.echo(json.dumps({**counts, "out": str(scored.path)}, ensure_ascii=False))
    else:
        share = f"{scored.positive:,} of {scored.rows:,} rows labelled positive ({scored.rule})"
        typer.echo(f"{share}\nScores: {scored.path}")


def embed(
    model: ModelFolder,
    data: Rows,
    out: Annotated[str, typer.Option(help="A .parquet file; for many files also a folder.", rich_help_panel=OUTPUT)],
    id_column: IdColumn = None,
    key: Key = None,
    batch_size: BatchSize = 8192,
    resize: Resize = False,
    skip_unreadable: SkipUnreadable = None,
    strict: Strict = False,
    device: Device = None,
    shard: Shard = None,
    engine: EngineName = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Embed rows with the encoder of a model: id and embedding of each, a vector of length 1.

    The result is a table that 'pucl fit' and pucl.read take. With a folder as --out, many files give one file of
    embeddings each; the same command again does what is missing.

    Example: pucl embed model pictures --out embeddings.parquet

    Example: pucl embed model 'data/*.parquet' --shard 0/4 --out embeddings
    """
    from pucl.cli.console import progress_bar
    from pucl.device import pick_device
    from pucl.models.folder import load_model
    from pucl.models.many_files import embed_files
    from pucl.models.scoring import embed_to_file

    how: dict[str, Any] = {"batch_size": batch_size, "id_column": id_column, "key": key, "strict": strict}
    if many := _many(model, data, out, shard, engine, address, resize=resize, skip_unreadable=skip_unreadable):
        with _progress("pucl embed", "embedding") as report:
            done = embed_files(model, data, out, device=device, on_progress=report, **many, **how)
        _say(done, "pucl embed", as_json=as_json)
        return
    with progress_bar() as report:
        rows = embed_to_file(
            load_model(model).to(pick_device(device)), data, out, resize=resize, skip_unreadable=bool(skip_unreadable),
            on_progress=lambda rows: report(f"{rows:,} rows", 0.0), **how,
        )  # fmt: skip
    typer.echo(json.dumps({"rows": rows, "out": out}) if as_json else f"{rows:,} rows\nEmbeddings: {out}")


def _many(
    model: Any,
    data: str,
    out: str,
    shard: str | None,
    engine: str | None,
    address: str | None,
    **of_images: bool | None,
) -> dict[str, Any]:
    """Who works on many files; nothing where all rows go into one file."""
    from pucl.engines import Engine
    from pucl.errors import bad_argument
    from pucl.models.many_files import SHARDS, are_many
    from pucl.models.scoring import SUFFIXES

    one = "://" not in data and (Path(out).suffix.lower() in SUFFIXES or not are_many(model, data))
    if one and shard is None and engine is None and address is None:
        return {}
    for option, value in of_images.items():
        if value:
            raise bad_argument("pucl", option, "left out for many files, which are no images", value)
    first, slash, n = ("0", "/", "1") if shard is None else shard.partition("/")
    if not (first.isdecimal() and slash and n.isdecimal()):
        raise bad_argument("pucl", "shard", SHARDS, shard)
    return {"engine": Engine(engine, address), "shard": (int(first), int(n))}


@contextmanager
def _progress(command: str, stage: str) -> Iterator[Callable[[str, float], None]]:
    """A live line, or lines now and then in a pipe; yields the function to report with: (what is done, its share)."""
    from pucl.fitting.progress import ProgressLines, StageProgress

    with ProgressLines(command) as show:
        yield lambda words, share: show(StageProgress(stage, share, words))


def _say(done: "FilesDone", command: str, *, as_json: bool) -> None:
    """What became of many files; those that failed on stderr, with exit code 1."""
    if as_json:
        typer.echo(json.dumps(vars(done), ensure_ascii=False))
    else:
        labels = f"; {done.positive:,} labelled positive ({done.rule})" if done.rule and done.files else ""
        typer.echo(f"{done.files:,} files written, {done.there:,} there already: {done.rows:,} rows{labels}")
        typer.echo(f"{'Scores' if done.rule else 'Embeddings'}: {done.out}")
    for name, reason in done.failed:
        typer.echo(f"{command}: {name}: {reason}", err=True)
    if done.failed:
        raise typer.Exit(1)
