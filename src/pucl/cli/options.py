"""Options that several verbs share: how data is read, names that complete, and a TOML file instead of options."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from pucl.bench.grid.decode import read_toml
from pucl.cli.signing import number_or_text
from pucl.errors import bad_argument, unknown_name

if TYPE_CHECKING:
    from pucl.data.own import ReadOptions


def names_of(*families: str, also: tuple[str, ...] = ()) -> Callable[[str], list[str]]:
    """Completion of an option: the entries of registered families, and the words in `also`."""

    def complete(incomplete: str) -> list[str]:
        from pucl.registry import entries

        known = (name for family in families for name in entries(family))
        return [name for name in (*also, *known) if name.startswith(incomplete)]

    return complete


def words(*known: str) -> Callable[[str], list[str]]:
    """Completion of an option that takes one of a few words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


# Panels of --help.
DATA, MODEL, TRAINING, OUTPUT, CLUSTER = "Data", "Model", "Training", "Output", "Many files, many machines"

Data = Annotated[
    str,
    typer.Argument(
        help="A table (.csv, .tsv, .xlsx, .parquet, .arrow), a folder of such files or a pattern in quotes "
        "('data/*.parquet'); an array (.npy, .npz); or a folder of images or .txt files."
    ),
]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that 'pucl fit' wrote.")]
Positives = Annotated[
    str | None,
    typer.Option(
        help="File that lists the labelled positives: ids, file names or row numbers, one per line.",
        rich_help_panel=DATA,
    ),
]
Negatives = Annotated[
    str | None,
    typer.Option(
        help="File that lists rows known to be negative, as for --positives; all other rows are unlabelled.",
        rich_help_panel=DATA,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        help="Column that is 1 for labelled positives and 0 for unlabelled rows; a .npy file for arrays.",
        rich_help_panel=DATA,
    ),
]
PositiveValue = Annotated[
    str | None,
    typer.Option(
        help="The value of --label that marks a positive; rows with any other value are unlabelled.",
        rich_help_panel=DATA,
    ),
]
IdColumn = Annotated[str | None, typer.Option(help="Column with the ids of the rows.", rich_help_panel=DATA)]
Kind = Annotated[
    str | None,
    typer.Option(
        help="image, table or vector (default: detected).",
        autocompletion=words("image", "table", "vector"),
        rich_help_panel=DATA,
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Feature columns, separated by commas (default: all).", rich_help_panel=DATA)
]
Drop = Annotated[
    str | None, typer.Option(help="Columns that are not features, separated by commas.", rich_help_panel=DATA)
]
Categorical = Annotated[
    str | None,
    typer.Option(help="Columns whose numbers are categories, separated by commas.", rich_help_panel=DATA),
]
TextColumns = Annotated[
    str | None,
    typer.Option(
        "--text", help="Columns that hold text, separated by commas (default: detected).", rich_help_panel=DATA
    ),
]
Size = Annotated[int | None, typer.Option(help="Resize images to this many pixels per side.", rich_help_panel=DATA)]
Key = Annotated[
    str | None, typer.Option(help="Array of a .npz file that holds the rows, if it has several.", rich_help_panel=DATA)
]
SkipUnreadable = Annotated[
    bool | None,
    typer.Option("--skip-unreadable", help="Skip images that cannot be read, with a warning.", rich_help_panel=DATA),
]
Rows = Annotated[
    int | None,
    typer.Option(
        help="Use at most this many rows: all known positives and negatives and a random sample of the others "
        "(default: by memory and time, at most 200,000).",
        rich_help_panel=DATA,
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="The same seed gives the same result (default: 0).", rich_help_panel=TRAINING)
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 … (default: a GPU if there is one).", rich_help_panel=TRAINING),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="ray: on all cores or GPUs of a Ray cluster.",
        autocompletion=words("ray"),
        rich_help_panel=CLUSTER,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of the Ray cluster: auto, host:port or ray://host:port (default: a new one on this machine).",
        rich_help_panel=CLUSTER,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with any of these options; the command line takes precedence.", rich_help_panel=OUTPUT
    ),
]
READING = (
    "positives", "label", "positive_value", "negatives", "id_column", "kind", "columns", "drop", "categorical", "text",
    "key", "size", "skip_unreadable",
)  # fmt: skip
LISTS = (
    "positives",
    "negatives",
    "answers",
    "columns",
    "drop",
    "categorical",
    "text",
)  # which a file may give as lists
NUMBERS = ("prior", "positive_value")  # which are texts on the command line and may be numbers in a file


def with_config(verb: Callable[..., None], config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the command line, and those of the file where the command line has none.

    Args:
        verb: whose options they are; their types are those of its arguments.
        config: a TOML file whose keys are the names of options, with - or _.
        given: every option of the verb by name; None where it was not given.
    """
    stored = _read(verb.__name__, config) if config is not None else {}
    types = get_type_hints(verb)
    for key, value in stored.items():
        if key not in given:
            raise unknown_name(f"key of {config}", key, given)
        _check_type(str(config), key, value, types.get(key, bool))
    return {name: stored.get(name) if value is None else value for name, value in given.items()}


def reading(options: Mapping[str, Any]) -> "ReadOptions":
    """How to read the data; lists of columns may be written with commas."""
    given = {name: options[name] for name in READING if options.get(name) is not None}
    for name in ("columns", "drop", "categorical", "text"):
        if isinstance(given.get(name), str):
            given[name] = tuple(part.strip() for part in given[name].split(",") if part.strip())
    from pucl.data.own import ReadOptions

    if "text" in given:
        given["text_columns"] = given.pop("text")
    return ReadOptions(**given)


def _read(verb: str, config: Path) -> dict[str, Any]:
    content = read_toml(f"pucl {verb}", "--config", config)
    return {key.replace("-", "_"): value for key, value in content.items()}


def _check_type(owner: str, key: str, value: Any, hint: Any) -> None:
    """The value of a file is of the type the command line would have made of it."""
    allowed = number_or_text(hint)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    sound = {
        "a whole number": number and isinstance(value, int),
        "a number": number,
        "true or false": isinstance(value, bool),
        "text": isinstance(value, str) or (number and key in NUMBERS),
    }
    if key in LISTS and isinstance(value, list):
        return
    if not sound[allowed]:
        raise bad_argument(owner, key, f"{allowed} or a list" if key in LISTS else allowed, value)
