"""What there is to see of a model, and its other form: ``pucl inspect``, ``diagnose``, ``report`` and ``export``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pucl.cli.options import AsJson, ModelFolder


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
    """Show what theory says of a model's data and embedding: label noise, κ, separation; or that it is unknown.

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
