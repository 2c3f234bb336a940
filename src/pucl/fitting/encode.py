"""Encoding: the rows as they are, and by an encoder trained with the labels of some folds hidden."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch import device as Device

from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.encoders.plain import PCA, RAW, plain_encoder
from pucl.errors import RunWarning, users_line
from pucl.fitting.plan import AUTO, FitPlan, PretrainingPlan
from pucl.fitting.project import train_projection
from pucl.losses import make_objective
from pucl.ranking.prior import estimate_prior
from pucl.ranking.thresholds import inside_unit_interval
from pucl.selection.diagnostics import memorised
from pucl.training.pretraining import Pretrained, pretrain
from pucl.training.progress import loss_text
from pucl.training.reporting import Epoch, Watch

TRAINED = "trained"
TIMING = "timing"  # what a fit keeps of the time its epochs take
LOOK_AFTER, LONG = 20.0, 3600.0  # seconds after which the rest is estimated, and from which a warning is given
PROBE_STEPS, FOR_TRAINING = 3, 0.5  # steps that are timed, and the share of the time left that training may take
MAX_PER_IMAGE, MAX_IN_ALL = 1 << 15, 1 << 28  # values of an image, and of all, up to which raw pixels are compared


@dataclass(frozen=True)
class Encoded:
    """An encoder and what it makes of the rows.

    Attributes:
        name: of the encoder; None for the user's own network.
        encoder: raw rows → embeddings.
        z: of the rows, (n, k).
        trained: the result of its training; None for raw rows.
        memorised_rows: the labelled rows it was trained with, (n,) bool; None where it has not memorised them.
        memorised_auc: the AUC with which these are separated from labelled rows that were hidden from it.
        options: what the network was made with.
    """

    name: str | None
    encoder: Encoder
    z: Tensor
    trained: Pretrained | None = None
    memorised_rows: Tensor | None = None
    memorised_auc: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def encode(plan: FitPlan, views: Tensor | None = None) -> dict[str, Encoded]:
    """The embeddings to compare: `RAW`, `TRAINED` or both.

    With `views`, stored vectors of views of the rows, a projection of vectors is trained on these.

    Training takes confirmed negatives for unlabelled rows. Where it needs π, that is the share among both. Rows that a
    random sample of U was given besides are left out of it.
    """
    rows, options, pretraining = plan.features, plan.options, plan.pretraining
    small = plan.schema.kind != "image" or (rows[0].numel() <= MAX_PER_IMAGE and rows.numel() <= MAX_IN_ALL)
    compare_raw = pretraining is None or (options.encoder == AUTO and small)
    estimate_early = isinstance(options.prior, str)  # objectives may need π before there is another embedding
    raw = None
    if compare_raw or estimate_early:
        raw = encode_raw(rows, plan.device, use_pca=options.encoder == PCA, seed=options.seed)
    encoded = {RAW: raw} if compare_raw and raw is not None else {}
    if pretraining is not None:
        prior = plan.prior
        if isinstance(options.prior, str) and raw is not None:
            z, labelled = _counted(plan, raw.z), _counted(plan, plan.labelled)
            negative = None if plan.negative is None else _counted(plan, plan.negative)
            estimate = estimate_prior(z, labelled, method=options.prior, negatives=negative, seed=options.seed)
            prior = inside_unit_interval(estimate.value, plan.n_unlabelled)
        if prior is not None:
            prior *= plan.n_unlabelled / int((plan.counted & ~plan.labelled).sum())
        encoded[TRAINED] = _train(plan, pretraining, prior, views)
    return encoded


def within_time(plan: FitPlan) -> FitPlan:
    """The plan with as many epochs of the encoder's training as there is time for; without it if there is none.

    Half of the time that is left may be spent on it. What an epoch takes is measured on a few steps.
    """
    pretraining = plan.pretraining
    if pretraining is None or plan.deadline is None:
        return plan
    epochs = _epochs_within(plan, plan.deadline, pretraining)
    if epochs >= pretraining.config.epochs:
        return plan
    if epochs < 1:
        return replace(plan, pretraining=None, out_of_time=True)
    return replace(plan, pretraining=pretraining.shortened(epochs))


def _epochs_within(plan: FitPlan, deadline: float, pretraining: PretrainingPlan) -> int:
    """How many epochs there is time for; a resumed fit keeps to what it found before."""
    stored = None if plan.unfinished is None else plan.unfinished.load(TIMING)
    if stored is not None:
        return int(stored[1]["epochs"])
    plan.progress("timing", detail="a few steps of the encoder's training")
    config = replace(pretraining.config, epochs=1, compile=False)
    few = min(len(plan.labelled), PROBE_STEPS * config.batch_size)
    chosen = torch.cat([plan.labelled.nonzero()[:2, 0], (~plan.labelled).nonzero()[: max(2, few - 2), 0]])
    began = time.perf_counter()
    pretrain(
        plan.features[chosen], plan.labelled[chosen], objective=pretraining.objective, encoder=pretraining.encoder,
        view=pretraining.view, temperature=plan.options.temperature, prior=plan.prior or 0.5,
        config=replace(config, batch_size=min(config.batch_size, len(chosen))), device=plan.device,
    )  # fmt: skip
    now = time.perf_counter()
    epoch = (now - began) * len(plan.labelled) / len(chosen)
    epochs = int(FOR_TRAINING * (deadline - now) / epoch)
    if plan.unfinished is not None:
        plan.unfinished.keep(TIMING, {}, {"epochs": epochs})
    return epochs


def encode_raw(rows: Tensor, device: Device, *, use_pca: bool = False, seed: int = 0) -> Encoded:
    """The standardised rows; along their principal axes if the user chose that or there are very many columns."""
    there = rows.to(device)
    name, encoder = plain_encoder(there, use_pca=use_pca, seed=seed)
    return Encoded(name, encoder.to(device), embed(encoder, there).to(rows.device))


class _Pace:
    """Warns once, soon after its start, of training that will take long."""

    def __init__(self, device: Device) -> None:
        self.device, self.looked = device.type, False
        self.start: tuple[int, float] | None = None

    def look(self, done: int, of: int) -> None:
        """So many steps are done, of so many."""
        now = time.perf_counter()
        if self.start is None:
            self.start = (done, now)
            return
        first, began = self.start
        if self.looked or now - began < LOOK_AFTER:
            return
        self.looked = True
        seconds = (now - began) / max(1, done - first) * (of - done)
        if seconds > LONG:
            hours, faster = max(1, round(seconds / 3600)), "a GPU, " if self.device == "cpu" else ""
            text = f"{faster}smaller images, time_limit=, encoder='efficientnet_lite0' or encoder='raw' make it faster"
            warnings.warn(
                f"training the encoder will take about {hours} h more; {text}", RunWarning, stacklevel=users_line()
            )


def _counted(plan: FitPlan, values: Tensor) -> Tensor:
    """Values (n, …) without those of extra rows; not copied where there are none."""
    return values if plan.extra is None else values[plan.counted]


def _train(plan: FitPlan, pretraining: PretrainingPlan, prior: float | None, views: Tensor | None) -> Encoded:
    """The encoder trained with the labels of the first folds hidden."""
    last_loss, pace = [""], _Pace(plan.device)

    def on_epoch(epoch: Epoch) -> None:
        last_loss[0] = f", loss {loss_text(epoch.loss)}"

    def on_step(done: int, of: int) -> None:
        pace.look(done, of)
        epoch = -(-done * pretraining.config.epochs // of)
        plan.progress("pretraining", done / of, f"epoch {epoch} of {pretraining.config.epochs}{last_loss[0]}")

    plan.progress("pretraining", detail=f"{pretraining.config.epochs} epochs")
    options, seen = plan.options, _counted(plan, plan.seen_by_encoder)
    checkpoints = None if plan.unfinished is None else plan.unfinished.pretraining
    resume = checkpoints is not None
    if views is not None:
        objective = make_objective(pretraining.objective, temperature=options.temperature, prior=prior)
        watch = Watch(on_epoch=on_epoch, on_step=on_step, checkpoints=checkpoints, resume=resume)
        trained = train_projection(
            _counted(plan, views), seen, objective=objective, encoder=str(pretraining.encoder), view=pretraining.view,
            config=pretraining.config, device=plan.device, watch=watch,
            as_scaled=torch.from_numpy(plan.schema.as_scaled),
        )  # fmt: skip
    else:
        trained = pretrain(
            _counted(plan, plan.features), seen, objective=pretraining.objective, encoder=pretraining.encoder,
            view=pretraining.view, temperature=options.temperature, prior=prior, config=pretraining.config,
            device=plan.device, on_epoch=on_epoch, on_step=on_step, checkpoints=checkpoints, resume=resume,
        )  # fmt: skip
    name = pretraining.encoder if isinstance(pretraining.encoder, str) else pretraining.stored_as
    z = embed(trained.encoder, plan.features)
    auc, has_memorised = memorised(z, seen, plan.labelled & ~seen, seed=options.seed)
    rows = seen if has_memorised else None
    return Encoded(name, trained.encoder.eval(), z, trained, rows, auc, pretraining.stored_options)
