"""``pucl fit`` and ``pucl prior``: from the user's data to a model, or to the share of positives in it."""

import inspect
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pucl.cli.options import (
    DATA,
    MODEL,
    OUTPUT,
    TRAINING,
    AsJson,
    Categorical,
    Columns,
    Config,
    Data,
    Device,
    Drop,
    IdColumn,
    Key,
    Kind,
    Label,
    Negatives,
    Positives,
    PositiveValue,
    Rows,
    Seed,
    Size,
    SkipUnreadable,
    TextColumns,
    names_of,
    reading,
    with_config,
    words,
)  # fmt: skip
from pucl.cli.signing import respell
from pucl.errors import bad_argument
from pucl.fitting.modes import NAMED

if TYPE_CHECKING:
    from pucl.models.record import Sampling
    from pucl.selection import Verdict

REQUIRED = ("useful", "weak")
FINE_TUNE_ON = tuple(NAMED)
WORSE_THAN_REQUIRED = 3  # exit code of --require
KNOWN = "--prior to 'pucl fit'"  # where a known π goes
CHOICES = (
    "objective", "encoder", "view", "labeller", "head", "temperature", "epochs", "batch_size", "learning_rate",
    "fine_tune", "time_limit", "tune", "download", "text_encoder",
)  # fmt: skip


AnswerFiles = Annotated[
    list[str] | None,
    typer.Option(
        help="Answers of reviewers: a file of them, or the folder of 'pucl review'; may be given several times.",
        rich_help_panel=DATA,
    ),
]
StartFrom = Annotated[
    Path | None,
    typer.Option(
        help="Model to start from: its trained encoder is kept, and what changed is shown.", rich_help_panel=MODEL
    ),
]


def _pick(family: str, text: str, *more: str) -> Any:
    return typer.Option(help=text, autocompletion=names_of(family, *more, also=("auto",)), rich_help_panel=MODEL)


def fit(
    data: Data,
    positives: Positives = None,
    label: Label = None,
    positive_value: PositiveValue = None,
    negatives: Negatives = None,
    answers: AnswerFiles = None,
    start_from: StartFrom = None,
    id_column: IdColumn = None,
    kind: Kind = None,
    columns: Columns = None,
    drop: Drop = None,
    categorical: Categorical = None,
    text: TextColumns = None,
    key: Key = None,
    size: Size = None,
    skip_unreadable: SkipUnreadable = None,
    rows: Rows = None,
    prior: Annotated[
        str | None,
        _pick("priors", "Share of positives among the unlabelled rows: a number or an estimator ('pucl list priors')."),
    ] = None,
    objective: Annotated[
        str | None, _pick("losses", "Contrastive loss of the encoder; see 'pucl list losses'.")
    ] = None,
    encoder: Annotated[
        str | None,
        _pick(
            "encoders",
            "Network; see 'pucl list encoders'. 'raw' uses the rows as they are, without training. Or one you have: "
            "timm:NAME, torchvision:NAME, hf:ORG/NAME, onnx:FILE; for texts, st:NAME.",
        ),
    ] = None,
    text_encoder: Annotated[
        str | None,
        _pick(
            "text-encoders",
            "How text becomes numbers; see 'pucl list text-encoders' (default: hashed). Or one you have: st:NAME, "
            "hf:ORG/NAME.",
        ),
    ] = None,
    view: Annotated[str | None, _pick("views", "Augmentation of the rows; see 'pucl list views'.")] = None,
    labeller: Annotated[
        str | None,
        _pick("rankers", "Pseudo-labeller; see 'pucl list rankers' and '… pseudo-labellers'.", "pseudo-labellers"),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="Classifier on the embedding: linear, kernel, mlp, knn, trees or auto.",
            autocompletion=words("auto", "linear", "kernel", "mlp", "knn", "trees"),
            rich_help_panel=MODEL,
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Temperature τ of the loss (default: 0.5).", rich_help_panel=TRAINING)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of the encoder.", rich_help_panel=TRAINING)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Batch size of the encoder.", rich_help_panel=TRAINING)] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the encoder.", rich_help_panel=TRAINING)
    ] = None,
    fine_tune: Annotated[
        bool | None,
        typer.Option(
            "--fine-tune/--no-fine-tune",
            help="Train encoder and head together at the end; kept only if it ranks hidden positives better.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    fine_tune_on: Annotated[
        str | None,
        typer.Option(
            help="Fine-tune on labels that are fixed, renewed or moving, or compare all (default: fixed and renewed).",
            autocompletion=words(*FINE_TUNE_ON),
            rich_help_panel=TRAINING,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds that the fit may take, about (default: no limit).", rich_help_panel=TRAINING),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            help="How far an encoder that you already have is tuned: frozen, head, all or auto (default: frozen).",
            autocompletion=words("frozen", "head", "all", "auto"),
            rich_help_panel=TRAINING,
        ),
    ] = None,
    download: Annotated[
        bool | None,
        typer.Option("--download", help="Allow weights that are missing here to be downloaded.", rich_help_panel=MODEL),
    ] = None,
    seed: Seed = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the model.", rich_help_panel=OUTPUT)] = None,
    overwrite: Annotated[
        bool | None,
        typer.Option(
            "--overwrite", help="Replace the model in --out, and start an interrupted fit anew.", rich_help_panel=OUTPUT
        ),
    ] = None,
    resume: Annotated[
        bool | None,
        typer.Option("--resume", help="Go on with an interrupted fit of the same --out.", rich_help_panel=OUTPUT),
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(
            help="Exit with code 3 if the verdict on the model is worse: useful or weak.",
            autocompletion=words(*REQUIRED),
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Learn a classifier from labelled positives and unlabelled rows. Options left out are chosen from the data.

    Example: pucl fit customers.csv --label known_fraud --id-column customer --out model

    Example: pucl fit pictures/ --positives positives.txt --out model

    Example: pucl fit mail.csv --label known --text subject,body --out model

    Example: pucl fit customers.csv --label known_fraud --answers review --start-from model --out model-2

    Example: pucl fit 'visits/*.parquet' --label known --id-column visit --rows 500000 --out model
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "config", "as_json")}
    options = with_config(fit, config, {**given, "json": as_json or None})
    if options["out"] is None:
        raise bad_argument("pucl fit", "--out", "given, on the command line or in the file of --config", None)
    if options["require"] not in (None, *REQUIRED):
        raise bad_argument("pucl fit", "--require", " or ".join(REQUIRED), options["require"])
    if options["fine_tune_on"] not in (None, *FINE_TUNE_ON):
        raise bad_argument("pucl fit", "--fine-tune-on", " or ".join(FINE_TUNE_ON), options["fine_tune_on"])
    if options["fine_tune_on"] is not None and options["fine_tune"] is False:
        raise bad_argument("pucl fit", "--fine-tune-on", "left out with --no-fine-tune", options["fine_tune_on"])
    from dataclasses import replace

    from pucl.cli.answered import inputs_of, say_changes
    from pucl.cli.resume import check_place, place_of, resumable, resumed_later
    from pucl.fitting.from_files import fit_reviewed_files
    from pucl.fitting.plan import FitOptions
    from pucl.fitting.progress import ProgressLines
    from pucl.fitting.resuming import only_fit, remove_unfinished
    from pucl.models.describe import describe
    from pucl.models.folder import save_model

    check_place(options)
    chosen = {name: options[name] for name in CHOICES if options[name] is not None}
    if options["fine_tune_on"] is not None:
        chosen["fine_tune"] = options["fine_tune_on"]
    chosen_options = FitOptions(
        **chosen, prior=_prior(options["prior"]), seed=_or(options["seed"], 0), owner="pucl fit"
    )
    said, before = inputs_of(options)
    where = resumable(options)
    with resumed_later(options), only_fit(where, "pucl fit"), ProgressLines("pucl fit") as report:
        fitted = fit_reviewed_files(
            data, reading(options), chosen_options, max_rows=options["rows"], device=options["device"],
            on_progress=report, resumable=where, answers=None if said is None else said.by_id, before=before,
        )  # fmt: skip
        model = fitted.model
        model = replace(model, record=replace(model.record, command=_command(options, config, model.record.sampling)))
        folder = save_model(options["out"], model)
        remove_unfinished(place_of(options))
    changed = say_changes(fitted, said, quiet=bool(options["json"]))
    if options["json"]:
        typer.echo(json.dumps({"out": str(folder), **model.record.to_dict(), **changed}, ensure_ascii=False))
    else:
        shown = replace(model.record, warnings=())  # the warnings are on stderr already
        words = in_words_of_fit(describe(shown, option="--prior"))
        typer.echo(f"Model saved to {folder}\n\n{words}\n\n{_next_steps(folder)}")
    _check_required(options["require"], model.record.verdict)


def prior(
    data: Data,
    positives: Positives = None,
    label: Label = None,
    positive_value: PositiveValue = None,
    negatives: Negatives = None,
    id_column: IdColumn = None,
    kind: Kind = None,
    columns: Columns = None,
    drop: Drop = None,
    categorical: Categorical = None,
    text: TextColumns = None,
    key: Key = None,
    size: Size = None,
    skip_unreadable: SkipUnreadable = None,
    rows: Rows = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Use the embedding of this model, not the rows as they are.", rich_help_panel=MODEL),
    ] = None,
    method: Annotated[str | None, _pick("priors", "Estimator; see 'pucl list priors' (default: auto).")] = None,
    seed: Seed = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the share of positives among the unlabelled rows, or an upper bound on it, as 'pucl fit' does.

    Example: pucl prior customers.csv --label known_fraud
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "config", "as_json")}
    options = with_config(prior, config, {**given, "json": as_json or None})
    from dataclasses import asdict

    from pucl.fitting.from_files import estimate_prior_of_files

    estimate = estimate_prior_of_files(
        data, reading(options), model=options["model"], method=_or(options["method"], "auto"),
        max_rows=options["rows"], seed=_or(options["seed"], 0),
    )  # fmt: skip
    if options["json"]:
        typer.echo(json.dumps(asdict(estimate)))
    else:
        from pucl.models.describe import describe_prior

        typer.echo(f"Positives among the unlabelled rows: {describe_prior(estimate, option=KNOWN)}")


def in_words_of_fit(text: str) -> str:
    """What is said of a fit, with arguments as options of ``pucl fit``: ``encoder='mlp'`` as ``--encoder mlp``."""
    return respell(text, {name: f"--{name.replace('_', '-')}" for name in inspect.signature(fit).parameters})


def _check_required(word: Any, verdict: "Verdict | None") -> None:
    """Leave with the code of a model that is worse than asked for, which is saved nevertheless."""
    if word is not None and (verdict is None or not verdict.at_least(word)):
        typer.echo(f"pucl fit: --require {word} is not met; the model is saved; verdict: {verdict}", err=True)
        raise typer.Exit(WORSE_THAN_REQUIRED)


def _prior(value: Any) -> float | str | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return str(value)


def _next_steps(folder: Path) -> str:
    model = shlex.quote(str(folder))
    return f"Next: pucl report {model}\n      pucl predict {model} DATA --out scores.csv"


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _command(options: Mapping[str, Any], config: Path | None, sampling: "Sampling | None") -> str:
    """The command as it was typed, with the seed and the number of rows; a file of options is written out below it."""
    rows = [] if sampling is None or options["rows"] is not None else ["--rows", str(sampling.max_rows)]
    seed = [] if options["seed"] is not None else ["--seed", "0"]
    line = shlex.join(["pucl", *sys.argv[1:], *rows, *seed])
    if config is None:
        return line
    stored = " ".join(part.strip() for part in config.read_text(encoding="utf-8").splitlines() if part.strip())
    return f"{line}\n# {config.name}: {stored}"
