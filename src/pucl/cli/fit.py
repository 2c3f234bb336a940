"""``pucl fit`` and ``pucl prior``: from people's own data to a model, or to the share of positives in it."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pucl.cli.options import (
    MOST,
    AsJson,
    Categorical,
    Columns,
    Config,
    Data,
    IdColumn,
    Key,
    Kind,
    Label,
    Positives,
    PositiveValue,
    Rows,
    Seed,
    Size,
    SkipUnreadable,
    names_of,
    reading,
    with_config,
    words,
)  # fmt: skip
from pucl.errors import bad_argument

CHOICES = (
    "objective", "encoder", "view", "labeller", "head", "temperature", "epochs", "batch_size", "learning_rate",
    "fine_tune",
)  # fmt: skip


def fit(
    data: Data,
    out: Annotated[Path | None, typer.Option(help="Folder for the model.")] = None,
    positives: Positives = None,
    label: Label = None,
    positive_value: PositiveValue = None,
    id_column: IdColumn = None,
    kind: Kind = None,
    columns: Columns = None,
    categorical: Categorical = None,
    key: Key = None,
    size: Size = None,
    skip_unreadable: SkipUnreadable = None,
    rows: Rows = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Share of positives among the other rows, or an estimator's name.",
            autocompletion=names_of("priors", also=("auto",)),
        ),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="See 'pucl list losses'.", autocompletion=names_of("losses", also=("auto",)))
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="See 'pucl list encoders'; raw: the rows as they are.",
            autocompletion=names_of("encoders", also=("auto",)),
        ),
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="See 'pucl list views'.", autocompletion=names_of("views", also=("auto",)))
    ] = None,
    labeller: Annotated[
        str | None,
        typer.Option(
            help="See 'pucl list rankers' and 'pucl list pseudo-labellers'.",
            autocompletion=names_of("rankers", "pseudo-labellers", also=("auto",)),
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="linear, kernel, mlp, knn or auto.", autocompletion=words("auto", "linear", "kernel", "mlp", "knn")
        ),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="τ of the objective.  [default: 0.5]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Of the encoder's training.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Of the encoder's training.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the encoder's training.")] = None,
    fine_tune: Annotated[
        bool | None, typer.Option("--fine-tune/--no-fine-tune", help="Train encoder and head together in the end.")
    ] = None,
    seed: Seed = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …; a GPU if there is one.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Learn a classifier from known positives and rows nobody looked at. What is not given is picked from the data.

    Example: pucl fit customers.csv --label known_fraud --id-column customer --out model

    Example: pucl fit pictures/ --positives positives.txt --out model
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "config", "as_json")}
    options = with_config(fit, config, {**given, "json": as_json or None})
    if options["out"] is None:
        raise bad_argument("pucl fit", "--out", "given, on the command line or in the file of --config", None)
    from dataclasses import replace

    from pucl.cli.console import progress_bar
    from pucl.cli.show import show_model
    from pucl.fitting.own import fit_own
    from pucl.fitting.plan import FitOptions
    from pucl.models.folder import check_out, save_model

    check_out(options["out"])
    chosen = {name: options[name] for name in CHOICES if options[name] is not None}
    wanted = FitOptions(**chosen, prior=_prior(options["prior"]), seed=_or(options["seed"], 0), owner="pucl fit")
    with progress_bar() as report:
        model = fit_own(
            data, reading(options), wanted, max_rows=_or(options["rows"], MOST), device=options["device"],
            command=_command(), on_progress=report,
        )  # fmt: skip
        folder = save_model(options["out"], model)
    if options["json"]:
        typer.echo(json.dumps({"out": str(folder), **model.record.to_dict()}, ensure_ascii=False))
        return
    show_model(replace(model.record, warnings=()))  # which people have seen on stderr
    typer.echo(f"\nModel: {folder}\nGo on with: pucl report {folder}, pucl predict {folder} DATA --out scores.csv")


def prior(
    data: Data,
    positives: Positives = None,
    label: Label = None,
    positive_value: PositiveValue = None,
    id_column: IdColumn = None,
    kind: Kind = None,
    columns: Columns = None,
    categorical: Categorical = None,
    key: Key = None,
    size: Size = None,
    skip_unreadable: SkipUnreadable = None,
    rows: Rows = None,
    model: Annotated[
        Path | None, typer.Option(help="Use the embedding of this model; else the rows as they are.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="See 'pucl list priors'.  [default: auto]", autocompletion=names_of("priors", also=("auto",))
        ),
    ] = None,
    seed: Seed = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the share of positives among the rows that are not known ones.

    Example: pucl prior customers.csv --label known_fraud
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "config", "as_json")}
    options = with_config(prior, config, {**given, "json": as_json or None})
    from dataclasses import asdict

    from pucl.fitting.own import prior_of_own

    found = prior_of_own(
        data, reading(options), model=options["model"], method=_or(options["method"], "auto"),
        max_rows=_or(options["rows"], MOST), seed=_or(options["seed"], 0),
    )  # fmt: skip
    if options["json"]:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"{found.value:.4f} ({found.low:.4f} to {found.high:.4f}), by {found.method}")


def _prior(value: Any) -> float | str | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return str(value)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _command() -> str:
    return shlex.join(["pucl", *sys.argv[1:]])
