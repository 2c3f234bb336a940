"""``pucl pretrain``: an encoder from a benchmark task or from the user's data, alone, under ``torchrun`` or on Ray."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pucl.cli.options import CLUSTER, DATA, MODEL, OUTPUT, TRAINING, Address, Device, EngineName, names_of, words

if TYPE_CHECKING:
    import torch

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


def _cluster(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=CLUSTER)


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
            help="Form of punce: paper or released.", autocompletion=words("paper", "released"), rich_help_panel=MODEL
        ),
    ] = None,
    epochs: Annotated[int | None, _training("Passes over the data.")] = None,
    batch_size: Annotated[int | None, _training("Rows per step, over all processes.")] = None,
    chunk_size: Annotated[
        int | None, _training("Rows the encoder takes at a time, over all processes: less memory, the same batch.")
    ] = None,
    optimiser: Annotated[str | None, _training("lars, sgd or adamw.")] = None,
    learning_rate: Annotated[float | None, _training("Largest learning rate of the schedule.")] = None,
    weight_decay: Annotated[float | None, _training("Of SGD and AdamW not on biases and norms.")] = None,
    clip: Annotated[float | None, _training("Largest norm of the gradient.")] = None,
    average: Annotated[float | None, _training("Decay of a running average of the weights, to be kept.")] = None,
    labelled_share: Annotated[float | None, _training("Share of labelled rows in every batch.")] = None,
    held_out: Annotated[float | None, _training("Share of labelled positives held out to watch overfitting.")] = None,
    precision: Annotated[str | None, _training("auto, float32 or bfloat16.")] = None,
    deterministic: Annotated[bool, _training("Deterministic cuDNN.", "--deterministic")] = False,
    seed: Annotated[int, _training("Seed of the labels, the weights, the batches and the views.")] = 0,
    device: Device = None,
    log: Annotated[
        Path | None, _output("Log as JSON lines, one per epoch (default: log.jsonl in the folder of --out).")
    ] = None,
    tensorboard: Annotated[Path | None, _output("Folder for TensorBoard.")] = None,
    checkpoint_every: Annotated[int, _output("Epochs between checkpoints.")] = 10,
    keep: Annotated[int, _output("How many checkpoints are kept.")] = 2,
    resume: Annotated[bool, _output("Continue from the newest checkpoint in --out.", "--resume")] = False,
    engine: EngineName = None,
    workers: Annotated[int | None, _cluster("How many workers, each with one GPU, or one CPU without GPUs.")] = None,
    address: Address = None,
) -> None:
    """Train an encoder on positive and unlabelled data; after an interruption, --resume continues.

    Example: pucl pretrain digits --labelled 100 --epochs 60 --out runs/digits

    Several processes: torchrun --nproc-per-node 2 -m pucl pretrain digits --labelled 100 --out runs/digits

    On a Ray cluster: pucl pretrain digits --labelled 100 --engine ray --workers 2 --out runs/digits
    """
    given = {
        "epochs": epochs, "batch_size": batch_size, "chunk_size": chunk_size, "optimiser": optimiser,
        "learning_rate": learning_rate, "weight_decay": weight_decay, "clip": clip, "average": average,
        "labelled_share": labelled_share, "held_out": held_out, "precision": precision,
        "deterministic": deterministic, "seed": seed,
    }  # fmt: skip
    options = {name: value for name, value in (("mixing", mixing), ("variant", variant)) if value is not None}
    named = {
        "objective": objective, "encoder": encoder, "view": view, "temperature": temperature, "prior": prior, **options
    }  # fmt: skip
    places = (out, log or out / "log.jsonl", tensorboard)
    job = _Job(data, labelled, positives, label, device, given, named, *places, checkpoint_every, keep, resume)
    _check_writable(out, log, tensorboard)
    _check_engine(engine, workers, address)
    try:
        said = _alone(job) if engine is None else _on_ray(job, workers or 1, address)
    except KeyboardInterrupt as stopped:  # typer would swallow its message, which says how to continue
        typer.echo(f"pucl: stopped: {stopped}", err=True)
        raise typer.Exit(130) from None
    if said:
        typer.echo(said)


@dataclass(frozen=True)
class _Job:
    """What one process needs to know of a run; it can be sent to other machines."""

    data: str
    labelled: int | None
    positives: Path | None
    label: str | None
    device: str | None
    given: dict[str, Any]
    named: dict[str, Any]
    out: Path
    log: Path
    tensorboard: Path | None
    checkpoint_every: int
    keep: int
    resume: bool

    @property
    def checkpoints(self) -> Any:
        from pucl.training import Checkpoints

        return Checkpoints(self.out / "checkpoints", self.checkpoint_every, self.keep)

    def absolute(self) -> "_Job":
        """The same with paths that hold in any working directory."""
        data = str(Path(self.data).absolute()) if Path(self.data).exists() else self.data
        label = str(Path(str(self.label)).absolute()) if str(self.label).endswith(".npy") else self.label
        names = ("positives", "out", "log", "tensorboard")
        paths = {name: path.absolute() for name in names if (path := getattr(self, name)) is not None}
        return replace(self, data=data, label=label, **paths)


def _alone(job: _Job) -> str | None:
    """Train in this process, which may be one of several; the first one says what was done."""
    from pucl.distributed import joined
    from pucl.training import pretrain as run_pretrain

    with joined(job.device) as place, _only_run(job.out):
        rows, s, transform = _rows(job, place)
        trained = run_pretrain(
            rows, s, config=_config(len(rows), job.given), device=place, progress=True, log=job.log,
            tensorboard=job.tensorboard, checkpoints=job.checkpoints, resume=job.resume, **job.named,
        )  # fmt: skip
        return _finish(job, trained, rows, transform)


def _on_ray(job: _Job, workers: int, address: str | None) -> str | None:
    """Train in workers of a Ray cluster; when one is lost, all start again from the newest checkpoint."""
    from pucl.training.checkpoints import check_unused
    from pucl.training.on_ray import train_on_ray

    if not job.resume:
        check_unused(job.checkpoints.folder)
    gpus = job.device != "cpu"
    return train_on_ray(
        partial(_alone, replace(job.absolute(), resume=True)), workers=workers, folder=job.out.absolute(),
        owner="pucl pretrain", address=address, gpus=gpus,
    )  # fmt: skip


def _check_engine(engine: str | None, workers: int | None, address: str | None) -> None:
    from pucl.errors import bad_argument, check_count, check_known

    if engine is None:
        for option, value in (("--workers", workers), ("--address", address)):
            if value is not None:
                raise bad_argument("pucl pretrain", option, "given with --engine ray", value)
        return
    check_known("pucl pretrain", "engine", [engine], ["ray"])
    if workers is not None:
        check_count("pucl pretrain", "--workers", workers)


def _check_writable(out: Path, log: Path | None, tensorboard: Path | None) -> None:
    """Refuse places that cannot be written to before any work is done."""
    from pucl.models.places import check_folder

    places = (("--out", out), ("--log", log.parent if log else None), ("--tensorboard", tensorboard))
    for option, folder in places:
        if folder is not None and not folder.is_file():  # a file in place of a folder has an error of its own
            check_folder("pucl pretrain", option, folder)


def _rows(job: _Job, place: "torch.device") -> tuple[Any, Any, str | None]:
    """Rows, s and, of a table, the transform that made the rows; several processes share images and vectors."""
    from pucl.distributed import rank_and_world
    from pucl.errors import bad_argument, unknown_name
    from pucl.registry import entries

    data, labelled, seed = job.data, job.labelled, job.given["seed"]
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

    own = read(data, positives=job.positives, label=job.label)
    if own.kind != "table" and rank_and_world()[1] > 1:
        from pucl.training.shared_rows import shared_rows

        return shared_rows(own.rows, place), own.s, None
    table = own.load()
    if own.kind != "table":
        return table, own.s, None
    transform = TableTransform.fit(table)
    return transform.apply(table), own.s, transform.to_json()


def _config(n: int, given: dict[str, Any]) -> "TrainConfig":
    from pucl.training import TrainConfig

    given = {name: value for name, value in given.items() if value is not None}
    return TrainConfig(**{"batch_size": min(TrainConfig.batch_size, n), **given})


def _finish(job: _Job, trained: Any, rows: Any, transform: str | None) -> str | None:
    """Save the encoder; returns what to tell the user, on the first process only."""
    from pucl.distributed import rank_and_world
    from pucl.encoders.saved import save_encoder
    from pucl.training.pretraining import default_encoder

    if rank_and_world()[0] != 0:
        return None
    out, shape = job.out, tuple(rows.shape[1:])
    about = {"data": job.data, "seed": job.given["seed"]}
    about |= {name: job.named[name] for name in ("objective", "mixing", "variant") if name in job.named}
    name = job.named["encoder"] or default_encoder(shape)
    if transform is not None:
        _save_transform(out, transform)
    save_encoder(out, trained.encoder, name=name, input_shape=shape, options={}, extra=about)
    last = trained.history[-1]
    return (
        f"Encoder saved to {out}: {len(trained.history)} epochs, loss {last.loss:.4f}\n"
        f"Next, in Python: z = pucl.embed(pucl.load_encoder({str(out)!r}), x)"
    )


def _save_transform(out: Path, transform: str) -> None:
    from pucl.errors import RunError
    from pucl.files import replace_file

    try:
        replace_file(out / "table.json", transform.encode())
    except OSError as error:
        raise RunError(f"pucl pretrain: cannot write to {out}: {error.strerror or error}") from None


@contextmanager
def _only_run(out: Path) -> Iterator[None]:
    """Keep other processes from training in the same folder; those of this run share it."""
    from pucl.distributed import rank_and_world
    from pucl.errors import RunError
    from pucl.files import alone_in

    with ExitStack() as stack:
        if rank_and_world()[0] == 0 and not out.is_file():  # which is refused later
            try:
                stack.enter_context(alone_in(out))
            except OSError as error:
                raise RunError(f"pucl pretrain: cannot work in {out}: {error.strerror or error}") from None
        yield
