"""Contrastive pretraining (algo:puCL), from names to a trained encoder."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from pucl.device import pick_device
from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.frozen.published import fill
from pucl.encoders.inputs import Encoder, Standardise, as_rows
from pucl.encoders.projection import projection_head
from pucl.errors import Described, bad_argument, signed_by
from pucl.labels import check_labels
from pucl.losses import Objective, make_objective
from pucl.registry import check_options, get
from pucl.seeds import seed_of, seeded
from pucl.training.checkpoints import Checkpoints, fingerprint
from pucl.training.config import FREE, TrainConfig
from pucl.training.reporting import Epoch, Watch
from pucl.training.run import Run, train_together
from pucl.views import View, known_as, make_view

OWNER = "pucl.pretrain"
MAX_LOOKED_AT = 1024  # labelled positives that are embedded to see whether they drift away from those held out


@dataclass(frozen=True)
class Pretrained:
    """A trained encoder, without the projection head, and the record of its training.

    Attributes:
        encoder: raw rows → embeddings.
        history: loss, learning rate, speed and health of every epoch.
        warnings: what looked wrong.
        held_out: rows whose label was hidden from training, see `TrainConfig.held_out`.
    """

    encoder: Encoder
    history: list[Epoch]
    warnings: list[str]
    held_out: Tensor


@signed_by(OWNER)
def pretrain(
    x: Any,
    s: Any,
    *,
    objective: str = "pucl",
    encoder: str | nn.Module | None = None,
    view: str | View | None = None,
    temperature: float = 0.5,
    prior: float | None = None,
    classes: Any = None,
    config: TrainConfig | None = None,
    device: str | torch.device | None = None,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
    on_step: Callable[[int, int], None] = lambda _done, _all: None,
    progress: bool = False,
    log: str | Path | None = None,
    tensorboard: str | Path | None = None,
    checkpoints: str | Path | Checkpoints | None = None,
    resume: bool = False,
    **options: Any,
) -> Pretrained:
    """Learn an encoder from PU data with a contrastive objective.

    Under `torchrun` every process calls this with the same arguments; the batch is shared out among them.

    Args:
        x: images (n, c, h, w) as uint8 or floats in [0, 1], or rows (n, d); a memory-mapped array is not read whole.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        objective: a registered loss.
        encoder: a registered encoder or any module from rows to vectors; chosen from the kind of `x` when not given.
        view: a registered view or a function ``(x, generator) → x``; chosen from the kind of `x` when not given.
        temperature: τ of the objective.
        prior: π, for objectives that need it.
        classes: the class of every row, 1 or 0, for ``"scl"`` alone: a reference that knows every label.
        config: how to train; by default `TrainConfig()`, with a batch no larger than the data.
        device: where to train; a GPU if there is one.
        on_epoch: called after every epoch, with its loss, learning rate, speed and health.
        on_step: called after every step, with the steps that are done and all steps.
        progress: show a live bar on the terminal.
        log: file that gets one JSON line per epoch.
        tensorboard: folder for TensorBoard.
        checkpoints: folder where the run saves itself, every ten epochs and when interrupted; or a `Checkpoints`.
        resume: continue from the newest checkpoint there; the result is the same as without the interruption.
        **options: the objective's own: ``mixing`` of ``"mcl"``, ``variant`` of ``"punce"``.
    """
    if checkpoints is not None and not isinstance(checkpoints, Checkpoints):
        checkpoints = Checkpoints(Path(checkpoints))
    if resume and checkpoints is None:
        raise bad_argument(OWNER, "checkpoints", "given with resume=True", checkpoints)
    log, tensorboard = (None if file is None else Path(file) for file in (log, tensorboard))
    watch = Watch(
        on_epoch=on_epoch, on_step=on_step, progress=progress, log=log, tensorboard=tensorboard,
        checkpoints=checkpoints, resume=resume,
    )  # fmt: skip
    prepared = prepare(
        x, s, objective=objective, encoder=encoder, view=view, temperature=temperature, prior=prior, classes=classes,
        config=config, device=device, watch=watch, **options,
    )  # fmt: skip
    train_together([prepared.run])
    return prepared.result()


@dataclass(frozen=True)
class PreparedRun:
    """A run that has everything it needs; `train_together` takes the steps of several of them in turn."""

    run: Run
    encoder: Encoder
    held_out: Tensor

    def result(self) -> Pretrained:
        """The trained encoder, its history and its warnings."""
        return Pretrained(self.encoder, self.run.history, self.run.warnings, self.held_out)


def prepare(
    x: Any,
    s: Any,
    *,
    objective: str = "pucl",
    encoder: str | nn.Module | None = None,
    view: str | View | None = None,
    temperature: float = 0.5,
    prior: float | None = None,
    classes: Any = None,
    config: TrainConfig | None = None,
    device: str | torch.device | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> PreparedRun:
    """Check everything and build the run; the arguments are those of `pretrain`."""
    place, rows = pick_device(device), as_rows(x, owner=OWNER)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=OWNER))
    if len(rows) < 4:
        raise bad_argument(OWNER, "x", "at least 4 rows", Described(f"{len(rows)}"))
    config = config or TrainConfig(batch_size=min(len(rows), TrainConfig.batch_size))
    shape = tuple(rows.shape[1:])
    encoder, view = encoder or default_encoder(shape), view or default_view(shape)
    loss = _objective(objective, temperature, prior, options)
    known_classes = _classes(objective, classes, len(rows))
    network = _network(encoder, shape, config.seed)
    head = _head(network, shape, config)
    own = getattr(network, "own_scaling", False)  # it came with weights, and knows how its images are scaled
    scaling = Standardise(torch.zeros(1), torch.ones(1)) if own else Standardise.of(rows)
    model = Encoder(scaling, network).to(place)

    held_out = _held_out(labelled, config)
    seen = labelled.clone()
    seen[held_out] = False
    watch = watch or Watch()
    if len(held_out):
        groups = rows[seen.nonzero().flatten()[:MAX_LOOKED_AT]], rows[held_out[:MAX_LOOKED_AT]]
        watch = replace(watch, embed_seen_and_held_out=_embeddings_of(model, *groups))
    known = known_as(view)
    if watch.checkpoints is not None:
        parts = {"objective": objective, "temperature": temperature, "prior": prior, "encoder": encoder, **options}
        parts["view"] = known or view
        learnt = labelled if known_classes is None else known_classes
        watch = replace(watch, identity=_identity(parts, config, fingerprint(rows, learnt)))
    run = Run(
        nn.Sequential(model, head),
        rows,
        seen if known_classes is None else known_classes,
        view=make_view(view) if isinstance(view, str) else view,
        objective=loss,
        config=config,
        device=place,
        watch=watch,
        rowwise=known is not None and rows.ndim == 4,  # views of tables and vectors mix the rows of a batch
        trusted=known is not None and isinstance(encoder, str),
    )
    return PreparedRun(run, model, held_out)


def _network(encoder: str | nn.Module, shape: tuple[int, ...], seed: int) -> nn.Module:
    """The network to train: fresh, or with the published weights of its name."""
    if isinstance(encoder, str) and ":" in encoder:
        allowed = "a registered encoder or a module; PUClassifier(encoder=…, tune='all') trains others"
        raise bad_argument(OWNER, "encoder", allowed, encoder)
    network = make_encoder(encoder, shape, seed=seed)
    published = isinstance(encoder, str) and get("encoders", encoder).pretrained is not None
    return fill(network, str(encoder)) if published else network


def _objective(name: str, temperature: float, prior: float | None, options: dict[str, Any]) -> Objective:
    """The objective with its parameters; here an option that it does not have is an error, `mixing` too."""
    check_options(get("losses", name), options)
    return make_objective(name, temperature=temperature, prior=prior, **options)


def _classes(objective: str, classes: Any, n: int) -> Tensor | None:
    """The class of every row for an objective that learns from it; None for all others."""
    needed = get("losses", objective).needs_classes
    if needed != (classes is not None):
        required = (
            f"given with {objective!r}, which learns from the class of every row; benchmark grids give it the truth"
        )
        got = classes if needed else Described(f"some with {objective!r}, which learns from s")
        raise bad_argument(OWNER, "classes", required if needed else "left out", got)
    if classes is None:
        return None
    found = torch.as_tensor(np.asarray(classes))
    if found.shape != (n,) or not bool(((found == 0) | (found == 1)).all()):
        got = Described(f"shape {tuple(found.shape)}" if found.shape != (n,) else "other values")
        raise bad_argument(OWNER, "classes", f"1 or 0 for each of the {n} rows", got)
    return found == 1


def default_encoder(shape: tuple[int, ...]) -> str:
    """The default encoder for rows of this shape: a small CNN for images, an MLP otherwise."""
    return "small_cnn" if len(shape) == 3 else "mlp"


def default_view(shape: tuple[int, ...]) -> str:
    """The default view for rows of this shape: noise for tables, milder for tiny images than for others."""
    if len(shape) == 1:
        return "feature_noise"
    # A crop of a tiny image, such as an 8 × 8 digit, leaves nothing to recognise.
    return "small_image" if min(shape[1:]) < 16 else "simclr"


def _head(network: nn.Module, shape: tuple[int, ...], config: TrainConfig) -> nn.Module:
    width, out = config.projection
    with seeded(config.seed + 1):
        return projection_head(embedding_dim(network, shape), hidden=width, out=out, output_norm=config.output_norm)


def _held_out(labelled: Tensor, config: TrainConfig) -> Tensor:
    """The labelled rows whose label is hidden from training, which keeps at least one."""
    rows = labelled.nonzero().flatten()
    n = min(round(config.held_out * len(rows)), len(rows) - 1)
    generator = Generator().manual_seed(seed_of(config.seed, "held out", 0))
    return rows[torch.randperm(len(rows), generator=generator)[:n]].sort().values


def _embeddings_of(model: nn.Module, seen: Tensor, held_out: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """A function that embeds both groups of rows with the current weights of the model."""

    @torch.no_grad()
    def now() -> tuple[Tensor, Tensor]:
        device = next(model.parameters()).device
        model.eval()
        embeddings = model(seen.to(device)), model(held_out.to(device))
        model.train()
        return embeddings

    return now


def _identity(parts: dict[str, Any], config: TrainConfig, data: str) -> dict[str, Any]:
    """What identifies a run: only the same run may resume from its checkpoints."""
    named = {name: type(part).__name__ if isinstance(part, nn.Module) else part for name, part in parts.items()}
    named = {name: getattr(part, "__qualname__", "own") if callable(part) else part for name, part in named.items()}
    settings = {name: value for name, value in asdict(config).items() if name not in FREE}
    return {**named, "config": settings, "data": data}
