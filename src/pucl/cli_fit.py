"""``pucl fit`` and ``pucl prior``: from people's own data to a model, or to the share of positives in it."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pucl.cli_options import (
    AsJson,
    Categorical,
    Columns,
    Config,
    Data,
    IdColumn,
    Kind,
    Label,
    Positives,
    PositiveValue,
    Seed,
    Size,
    reading,
    with_config,
)  # fmt: skip

ROWS = 200_000  # most rows a model is fitted to unless asked
Prior = Annotated[str | None, typer.Option(help="Share of positives among the other rows, or an estimator's name.")]


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
    size: Size = None,
    rows: Annotated[
        int | None, typer.Option(help=f"Most rows to learn from, all positives kept.  [default: {ROWS}]")
    ] = None,
    prior: Prior = None,
    objective: Annotated[str | None, typer.Option(help="See 'pucl list losses'.")] = None,
    encoder: Annotated[str | None, typer.Option(help="See 'pucl list encoders'; raw: the rows as they are.")] = None,
    view: Annotated[str | None, typer.Option(help="See 'pucl list views'.")] = None,
    labeller: Annotated[str | None, typer.Option(help="See 'pucl list pseudo-labellers'.")] = None,
    head: Annotated[str | None, typer.Option(help="linear or mlp.")] = None,
    temperature: Annotated[float | None, typer.Option(help="τ of the objective.  [default: 0.5]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Of the encoder's training.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Of the encoder's training.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the encoder's training.")] = None,
    fine_tune: Annotated[
        bool | None, typer.Option("--fine-tune", help="Train encoder and head together in the end.")
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
    given = dict(locals())
    for name in ("data", "config", "as_json"):
        given.pop(name)
    options = with_config("pucl fit", config, given)
    if options["out"] is None:
        raise typer.BadParameter("Missing option '--out'")
    from pucl.cli_show import show_model
    from pucl.console import progress_bar
    from pucl.fitting.own import fit_own
    from pucl.models.folder import save_model

    seed = options["seed"] or 0
    names = (
        "objective", "encoder", "view", "labeller", "head", "temperature", "epochs", "batch_size", "learning_rate",
        "fine_tune",
    )  # fmt: skip
    recipe = {name: options[name] for name in names if options[name] is not None}
    with progress_bar() as report:
        model = fit_own(
            data, reading(options), {**recipe, "prior": _prior(options["prior"]), "seed": seed},
            most=options["rows"] or ROWS, device=options["device"], command=_command(), tell=report,
        )  # fmt: skip
        folder = save_model(options["out"], model)
    show_model(model.about, as_json=as_json)
    if not as_json:
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
    size: Size = None,
    model: Annotated[
        Path | None, typer.Option(help="Use the embedding of this model; else the rows as they are.")
    ] = None,
    method: Annotated[str, typer.Option(help="See 'pucl list priors'.")] = "auto",
    seed: Seed = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the share of positives among the rows that are not known ones.

    Example: pucl prior customers.csv --label known_fraud
    """
    given = {
        "positives": positives, "label": label, "positive_value": positive_value, "id_column": id_column, "kind": kind,
        "columns": columns, "categorical": categorical, "size": size, "seed": seed,
    }  # fmt: skip
    options = with_config("pucl prior", config, given)
    from dataclasses import asdict

    from pucl.fitting.own import prior_of_own

    found = prior_of_own(data, reading(options), model=model, method=method, seed=options["seed"] or 0)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"{found.value:.4f} ({found.low:.4f} to {found.high:.4f}), by {found.method}")


def _prior(value: Any) -> float | str | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return str(value)


def _command() -> str:
    return shlex.join(["pucl", *sys.argv[1:]])
