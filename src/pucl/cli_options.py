"""Options that several verbs share: how data is read, and a TOML file in the place of options."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pucl.errors import InputError, bad_argument, unknown_name

Data = Annotated[str, typer.Argument(help="A table (.csv, .tsv, .parquet, .arrow), an array (.npy, .npz) or a folder.")]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that 'pucl fit' wrote.")]
Positives = Annotated[
    str | None, typer.Option(help="File that lists the known positives: ids, file names or row numbers, one a line.")
]
Label = Annotated[str | None, typer.Option(help="Column that is 1 for known positives and 0 for all other rows.")]
PositiveValue = Annotated[str | None, typer.Option(help="Which of the two values of --label means a known positive.")]
IdColumn = Annotated[str | None, typer.Option(help="Column with the ids of the rows.")]
Kind = Annotated[str | None, typer.Option(help="image, table or vector; by the data if not given.")]
Columns = Annotated[str | None, typer.Option(help="Feature columns, separated by commas; all others by default.")]
Categorical = Annotated[str | None, typer.Option(help="Columns of numbers that mean categories, separated by commas.")]
Size = Annotated[int | None, typer.Option(help="Resize images to this many pixels a side.")]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same result.  [default: 0]")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Config = Annotated[Path | None, typer.Option(help="TOML file with any of these options; the command line wins.")]
READING = ("positives", "label", "positive_value", "id_column", "kind", "columns", "categorical", "size")


def with_config(owner: str, config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given on the command line, and what the file says where nothing was.

    Args:
        owner: the verb, for errors.
        config: a TOML file whose keys are the names of options, with - or _.
        given: every option of the verb by name; None where it was not given.
    """
    stored = _read(owner, config) if config is not None else {}
    for key in stored:
        if key not in given:
            raise unknown_name(f"key of {config}", key, given)
    return {name: stored.get(name) if value is None else value for name, value in given.items()}


def reading(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `pucl.read`; lists of columns may be written with commas."""
    found = {name: options[name] for name in READING if options.get(name) is not None}
    for name in ("columns", "categorical"):
        if isinstance(found.get(name), str):
            found[name] = tuple(part.strip() for part in found[name].split(",") if part.strip())
    return found


def _read(owner: str, config: Path) -> dict[str, Any]:
    if not config.is_file():
        raise bad_argument(owner, "--config", "a TOML file that exists", str(config))
    try:
        content = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{owner}: {config} cannot be read: {error}") from None
    return {key.replace("-", "_"): value for key, value in content.items()}
