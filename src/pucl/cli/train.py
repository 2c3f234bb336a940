"""``pucl pretrain``: an encoder from a benchmark task or from the user's data, alone or under ``torchrun``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pucl.cli.options import DATA, MODEL, OUTPUT, TRAINING, Device, names_of, words

if TYPE_CHECKING:
    from pucl.training import TrainConfig

# The names are those of TrainConfig; None leaves its default.
Positives = Annotated[
    Path | None, typer.Option(help="File that lists the labelled positives (own data).", rich_help_panel=DATA)
]
Label = Annotated[
    str | None, typer.Option(help="Column that is 1 for labelled positives (own data).", rich_help_panel=DATA)
]


def _model(family: str, text: str) -> Any:
    return typer.Option(help=text, autocompletion=names_of(family), rich_help_panel=MODEL)


def _training(text: str, *flags: str) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=TRAINING)


def _output(text: str, *flags: str) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=OUTPUT)


def pretrain(
    data: Annotated[str, typer.Argument(help="A task (see 'pucl list datasets'), a file or a folder of images.")],
    out: Annotated[Path, _output("Folder for the encoder, the log and the checkpoints.")],
    labelled: Annotated[
        int | None, typer.Option(help="How many positives of a task are labelled.", rich_help_panel=DATA)
    ] = None,
    positives: Positives = None,
    label: Label = None,
    objective: Annotated[str, _model("losses", "Contrastive loss; see 'pucl list losses'.")] = "pucl",
    encoder: Annotated[
        str | None, _model("encoders", "Network; see 'pucl list encoders' (default: chosen from the data).")
    ] = None,
    view: Annotated[
        str | None, _model("views", "Augmentation; see 'pucl list views' (default: chosen from the data).")
    ] = None,
    temperature: Annotated[float, _training("Temperature τ of the loss.")] = 0.5,
    prior: Annotated[
        float | None,
        typer.Option(help="Share of positives among the unlabelled rows, if known.", rich_help_panel=MODEL),
    ] = None,
    mixing: Annotated[
        float | None, typer.Option(help="λ of mcl, from 0 (ssCL) to 1 (sCL-PU).", rich_help_panel=MODEL)
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Of punce: paper or released.", autocompletion=words("paper", "released"), rich_help_panel=MODEL
        ),
    ] = None,
    epochs: Annotated[int | None, _training("Passes over the data.")] = None,
    batch_size: Annotated[int | None, _training("Rows per step, over all processes.")] = None,
    optimiser: Annotated[str | None, _training("lars, sgd or adamw.")] = None,
    learning_rate: Annotated[float | None, _training("Largest learning rate of the schedule.")] = None,
    weight_decay: Annotated[float | None, _training("Of SGD and AdamW not on biases and norms.")] = None,
    clip: Annotated[float | None, _training("Largest norm of the gradient.")] = None,
    average: Annotated[float | None, _training("Decay of a running average of the weights, to be kept.")] = None,
    labelled_share: Annotated[float | None, _training("Share of labelled rows in every batch.")] = None,
    held_out: Annotated[float | None, _training("Share of labelled positives held out to watch overfitting.")] = None,
    precision: Annotated[str | None, _training("auto, float32 or bfloat16.")] = None,
    deterministic: Annotated[bool, _training("Deterministic cuDNN.", "--deterministic")] = False,
    seed: Annotated[int, _training("Of the labels, the weights, the batches and the views.")] = 0,
    device: Device = None,
    log: Annotated[
        Path | None, _output("Log as JSON lines, one per epoch (default: log.jsonl in the folder of --out).")
    ] = None,
    tensorboard: Annotated[Path | None, _output("Folder for TensorBoard.")] = None,
    checkpoint_every: Annotated[int, _output("Epochs between checkpoints.")] = 10,
    keep: Annotated[int, _output("How many checkpoints are kept.")] = 2,
    resume: Annotated[bool, _output("Continue from the newest checkpoint in --out.", "--resume")] = False,
) -> None:
    """Train an encoder on positive and unlabelled data; after an interruption, --resume continues.

    Example: pucl pretrain digits --labelled 100 --epochs 60 --out runs/digits

    Several processes: torchrun --nproc-per-node 2 -m pucl pretrain digits --labelled 100 --out runs/digits
    """
    from pucl.distributed import joined
    from pucl.training.checkpoints import Checkpoints

    given = {
        "epochs": epochs, "batch_size": batch_size, "optimiser": optimiser, "learning_rate": learning_rate,
        "weight_decay": weight_decay, "clip": clip, "average": average, "labelled_share": labelled_share,
        "held_out": held_out, "precision": precision,
    }  # fmt: skip
    options: dict[str, Any] = {
        name: value for name, value in (("mixing", mixing), ("variant", variant)) if value is not None
    }
    _check_writable(out, log, tensorboard)
    try:
        with joined(device) as place:
            rows, s, transform = _rows(data, labelled, positives, label, seed)
            config = _config(len(rows), {**given, "deterministic": deterministic, "seed": seed})
            from pucl.training import pretrain as run_pretrain

            trained = run_pretrain(
                rows, s, objective=objective, encoder=encoder, view=view, temperature=temperature, prior=prior,
                config=config, device=place, progress=True, log=log or out / "log.jsonl", tensorboard=tensorboard,
                checkpoints=Checkpoints(out / "checkpoints", checkpoint_every, keep), resume=resume, **options,
            )  # fmt: skip
            about = {"data": data, "objective": objective, **options, "seed": seed}
            _finish(out, trained, encoder, rows, transform, about)
    except KeyboardInterrupt as stopped:  # typer would swallow its message, which says how to continue
        typer.echo(f"pucl: stopped: {stopped}", err=True)
        raise typer.Exit(130) from None


def _check_writable(out: Path, log: Path | None, tensorboard: Path | None) -> None:
    """Refuse places that cannot be written to before any work is done."""
    from pucl.models.places import check_folder

    places = (("--out", out), ("--log", log.parent if log else None), ("--tensorboard", tensorboard))
    for option, folder in places:
        if folder is not None and not folder.is_file():  # a file in place of a folder has an error of its own
            check_folder("pucl pretrain", option, folder)


def _rows(
    data: str, labelled: int | None, positives: Path | None, label: str | None, seed: int
) -> tuple[Any, Any, str | None]:
    """Rows, s and, of a table, the transform that made the rows."""
    from pucl.errors import bad_argument, unknown_name
    from pucl.registry import entries

    if data in entries("datasets"):
        if labelled is None:
            raise bad_argument("pucl pretrain", "--labelled", f"given with a task such as {data!r}", None)
        from pucl.data import load
        from pucl.data.observe import observe

        seen = observe(load(data, seed=seed), labelled, seed=seed)
        return seen.x, seen.s, None
    if not Path(data).exists() and not Path(data).suffix:
        raise unknown_name("task, file or folder", data, entries("datasets"))
    from pucl.data.own import TableTransform, read

    own = read(data, positives=positives, label=label)
    if own.kind != "table":
        return own.load(), own.s, None
    table = own.load()
    transform = TableTransform.fit(table)
    return transform.apply(table), own.s, transform.to_json()


def _config(n: int, given: dict[str, Any]) -> "TrainConfig":
    from pucl.training import TrainConfig

    given = {name: value for name, value in given.items() if value is not None}
    return TrainConfig(**{"batch_size": min(TrainConfig.batch_size, n), **given})


def _finish(
    out: Path, trained: Any, encoder: str | None, rows: Any, transform: str | None, about: dict[str, Any]
) -> None:
    from pucl.distributed import rank_and_world
    from pucl.encoders.saved import save_encoder
    from pucl.training.pretraining import default_encoder

    if rank_and_world()[0] != 0:
        return
    shape = tuple(rows.shape[1:])
    name = encoder or default_encoder(shape)
    save_encoder(out, trained.encoder, name=name, input_shape=shape, options={}, extra=about)
    if transform is not None:
        (out / "table.json").write_text(transform, encoding="utf-8")
    last = trained.history[-1]
    typer.echo(
        f"Encoder saved to {out}: {len(trained.history)} epochs, loss {last.loss:.4f}\n"
        f"Next, in Python: z = pucl.embed(pucl.load_encoder({str(out)!r}), x)"
    )
