"""What is done with a model: ``pucl predict``, ``inspect``, ``diagnose``, ``report`` and ``export``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pucl.cli.options import DATA, OUTPUT, AsJson, Data, IdColumn, Key, ModelFolder, SkipUnreadable

LABELS = "Labels, by one of these rules"  # a panel of --help


def predict(
    model: ModelFolder,
    data: Data,
    out: Annotated[Path, typer.Option(help="File for the scores: .parquet or .csv.", rich_help_panel=OUTPUT)],
    id_column: IdColumn = None,
    key: Key = None,
    top: Annotated[
        int | None, typer.Option(help="Label so many rows positive, the best.", rich_help_panel=LABELS)
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Label so many that this share of the positives is found.", rich_help_panel=LABELS),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(help="Label as many as let this share of them be positive.", rich_help_panel=LABELS),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Label rows above this probability (default: 0.5).", rich_help_panel=LABELS),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Rows held in memory at a time.")] = 8192,
    resize: Annotated[
        bool, typer.Option("--resize", help="Resize images to the size of training.", rich_help_panel=DATA)
    ] = False,
    skip_unreadable: SkipUnreadable = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse categories and missing values that training did not have.", rich_help_panel=DATA
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score rows with a model: id, probability, label and reliability of each, for files of any size.

    A model that only knows a bound on the share of positives writes a score in the place of the probability.

    Example: pucl predict model customers.parquet --id-column customer --out scores.parquet

    Example: pucl predict model customers.parquet --top 500 --out scores.csv
    """
    from pucl.cli.console import progress_bar
    from pucl.models.folder import load_model
    from pucl.models.scoring import score_to_file

    loaded = load_model(model)
    with progress_bar() as report:
        scored = score_to_file(
            loaded, data, out, on_progress=lambda rows: report(f"{rows:,} rows", 0.0), threshold=threshold,
            top=top, recall=recall, precision=precision, batch_size=batch_size, id_column=id_column, key=key,
            resize=resize, strict=strict, skip_unreadable=bool(skip_unreadable),
        )  # fmt: skip
    if as_json:
        counts = {"rows": scored.rows, "positive": scored.positive, "rule": scored.rule}
        typer.echo(json.dumps({**counts, "out": str(scored.path)}, ensure_ascii=False))
    else:
        share = f"{scored.positive:,} of {scored.rows:,} rows labelled positive ({scored.rule})"
        typer.echo(f"{share}\nScores: {scored.path}")


def inspect(model: ModelFolder, as_json: AsJson = False) -> None:
    """Show what a model was trained on, how good it is estimated to be, what was chosen and why.

    Example: pucl inspect model --json
    """
    from pucl.cli.fit import in_words_of_fit
    from pucl.errors import some
    from pucl.models.describe import describe
    from pucl.models.folder import read_card

    card = read_card(model)
    if as_json:
        about = {"format": card.format, "written_by": card.written_by, "schema": card.schema.to_dict()}
        typer.echo(json.dumps(about | card.record.to_dict(), ensure_ascii=False))
        return
    columns = some(card.schema.needed) or " × ".join(map(str, card.schema.shape))
    written = f"Saved by pucl {card.written_by} (format {card.format})."
    shown = in_words_of_fit(describe(card.record, option="--prior"))
    typer.echo(f"{shown}\nInput: {columns}.\n{written}")


def diagnose(model: ModelFolder, as_json: AsJson = False) -> None:
    """Show what theory says of a model's data and embedding: label noise, κ, separation; unknowns are called so.

    It works from the model folder alone. pucl.diagnose does the same for embeddings and labels in Python.

    Example: pucl diagnose model
    """
    from pucl.models.folder import load_model

    found = load_model(model).diagnose()
    typer.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else str(found))


def report(
    model: ModelFolder,
    out: Annotated[Path | None, typer.Option(help="HTML file (default: report.html in the model's folder).")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a report as one HTML file that works offline: quality, threshold, rows worth a look.

    Example: pucl report model --out report.html
    """
    from pucl.models.folder import load_model
    from pucl.models.places import check_file
    from pucl.report import write_report

    loaded, path = load_model(model), out or model / "report.html"
    check_file("pucl report", "--out", path, (".html", ".htm"))
    write_report(path, loaded)
    typer.echo(
        json.dumps({"out": str(path), "bytes": path.stat().st_size})
        if as_json
        else f"Report: {path} (open it in a browser)"
    )


def export(
    model: ModelFolder,
    onnx: Annotated[Path, typer.Option(help="ONNX file to write.")],
    as_json: AsJson = False,
) -> None:
    """Export a model as one ONNX file: all steps from columns or images to probabilities, checked by onnxruntime.

    Example: pucl export model --onnx model.onnx
    """
    from pucl.models.export import export_onnx
    from pucl.models.folder import load_model

    path = export_onnx(load_model(model), onnx)
    _wrote(f"ONNX model: {path}", path, as_json=as_json)


def _wrote(message: str, path: Path, *, as_json: bool) -> None:
    typer.echo(json.dumps({"out": str(path), "bytes": path.stat().st_size}) if as_json else message)
