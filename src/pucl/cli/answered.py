"""``--answers`` and ``--start-from`` of ``pucl fit``: what they name, and what the fit changed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from pucl.errors import InputError, bad_argument

if TYPE_CHECKING:
    from pucl.fitting.from_files import FittedFiles
    from pucl.models.model import Model
    from pucl.review.answers import Answers

OWNER = "pucl fit"


def inputs_of(options: Mapping[str, Any]) -> "tuple[Answers | None, Model | None]":
    """The answers, and the model to start from; None where they are not given."""
    from pucl.models.folder import load_model
    from pucl.review.answers import read_answers

    places = options["answers"]
    places = [places] if isinstance(places, str) else places
    if places is not None and not all(isinstance(place, str) for place in places):
        raise bad_argument(OWNER, "answers", "names of files or folders", places)
    answers = read_answers(places, OWNER) if places else None
    if options["start_from"] is None:
        return answers, None
    try:
        return answers, load_model(options["start_from"])
    except InputError as error:
        error.sign(OWNER, argument="--start-from" if error.argument == "folder" else None)
        raise


def say_changes(fitted: "FittedFiles", answers: "Answers | None", *, quiet: bool) -> dict[str, Any]:
    """Print what the fit changed and which answers look wrong; the same as a dictionary."""
    if answers is None and fitted.before is None:
        return {}
    from pucl.review.changes import changes

    found = changes(fitted, () if answers is None else answers.contradictions)
    if not quiet:
        typer.echo(f"{found}\n")
    return {"changes": found.to_dict()}
