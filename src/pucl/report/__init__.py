"""The report: one HTML file that shows a fitted model, works offline and stays under 5 MB."""

from pathlib import Path

from pucl.errors import Described, RunError, bad_argument
from pucl.files import replace_file
from pucl.models.model import Model
from pucl.report.prepare import lay_out
from pucl.report.render import render

__all__ = ["lay_out", "render", "write_report"]


def write_report(path: str | Path, model: Model) -> Path:
    """Write the report of a model to `path`, whole or not at all; laying out the points takes some seconds."""
    if model.evidence is None:
        raise bad_argument("pucl.report", "model", "one with the evidence of its fit", Described("one without"))
    page = render(model.record, lay_out(model.evidence, model.record.seed), model.schema, model.diagnose().limits)
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, page.encode())
    except OSError as error:
        raise RunError(f"pucl.report: cannot write {path}: {error.strerror or error}") from None
    return path
