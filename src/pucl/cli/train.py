"""``pucl pretrain``: an encoder from a benchmark task or from people's own data, alone or under ``torchrun``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pucl.training import TrainConfig

# The same words as TrainConfig; None leaves its default.
Positives = Annotated[Path | None, typer.Option(help="File that lists the labelled positives (own data).")]
Label = Annotated[str | None, typer.Option(help="Column that says which rows are labelled positives (own data).")]


def pretrain(
    data: Annotated[str, typer.Argument(help="A task (see 'pucl list datasets'), a file or a folder of images.")],
    out: Annotated[Path, typer.Option(help="Folder for the encoder, the log and the checkpoints.")],
    labelled: Annotated[int | None, typer.Option(help="How many positives of a task are labelled.")] = None,
    positives: Positives = None,
    label: Label = None,
    objective: Annotated[str, typer.Option(help="See 'pucl list losses'.")] = "pucl",
    encoder: Annotated[str | None, typer.Option(help="See 'pucl list encoders'; by default by the data.")] = None,
    view: Annotated[str | None, typer.Option(help="See 'pucl list views'; by default by the data.")] = None,
    temperature: Annotated[float, typer.Option(help="τ of the objective.")] = 0.5,
    prior: Annotated[float | None, typer.Option(help="Share of positives in the unlabelled rows, if known.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples per step, over all processes.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="lars, sgd or adamw.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At the top of the schedule.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="On weights, not on biases and norms.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of the gradient.")] = None,
    labelled_share: Annotated[float | None, typer.Option(help="Share of labelled rows in every batch.")] = None,
    held_out: Annotated[float | None, typer.Option(help="Share of the labels hidden to watch over-fitting.")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, float32 or bfloat16.")] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Deterministic cuDNN.")] = False,
    seed: Annotated[int, typer.Option(help="Of the labels, the weights, the batches and the views.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …; a GPU if there is one.")] = None,
    log: Annotated[Path | None, typer.Option(help="JSON lines, one per epoch; OUT/log.jsonl if not given.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 10,
    keep: Annotated[int, typer.Option(help="How many checkpoints are kept.")] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in OUT.")] = False,
) -> None:
    """Learn an encoder from positive and unlabelled data; interrupted, it goes on with --resume.

    Example: pucl pretrain digits --labelled 100 --epochs 60 --out runs/digits

    Several processes: torchrun --nproc-per-node 2 -m pucl pretrain digits --labelled 100 --out runs/digits
    """
    from pucl.distributed import joined
    from pucl.training.checkpoints import Checkpoints

    given = {
        "epochs": epochs, "batch_size": batch_size, "optimiser": optimiser, "learning_rate": learning_rate,
        "weight_decay": weight_decay, "clip": clip, "labelled_share": labelled_share, "held_out": held_out,
        "precision": precision,
    }  # fmt: skip
    try:
        with joined(device) as place:
            rows, s, transform = _rows(data, labelled, positives, label, seed)
            config = _config(len(rows), {**given, "deterministic": deterministic, "seed": seed})
            from pucl.training import pretrain as run_pretrain

            trained = run_pretrain(
                rows, s, objective=objective, encoder=encoder, view=view, temperature=temperature, prior=prior,
                config=config, device=place, progress=True, log=log or out / "log.jsonl", tensorboard=tensorboard,
                checkpoints=Checkpoints(out / "checkpoints", checkpoint_every, keep), resume=resume,
            )  # fmt: skip
            _finish(out, trained, encoder, rows, transform, {"data": data, "objective": objective, "seed": seed})
    except KeyboardInterrupt as stopped:  # which typer would swallow, and with it where the run can be taken up again
        typer.echo(f"pucl: stopped: {stopped}", err=True)
        raise typer.Exit(130) from None


def _rows(
    data: str, labelled: int | None, positives: Path | None, label: str | None, seed: int
) -> tuple[Any, Any, str | None]:
    """Rows, s and, of a table, the transform that made the rows."""
    from pucl.errors import bad_argument
    from pucl.registry import entries

    if data in entries("datasets"):
        if labelled is None:
            raise bad_argument("pucl pretrain", "--labelled", f"given with a task such as {data!r}", None)
        from pucl.data import load
        from pucl.data.observe import observe

        seen = observe(load(data, seed=seed), labelled, seed=seed)
        return seen.x, seen.s, None
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
    typer.echo(f"{len(trained.history)} epochs, loss {last.loss:.4f}: encoder in {out}")
