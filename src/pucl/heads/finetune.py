"""Fine-tuning: encoder and linear layer together, on pseudo-labels that stay or that the network renews."""

import copy
import functools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.deprecation import UNTIL
from pucl.device import pick_device
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import as_rows, to_float
from pucl.errors import Described, bad_argument, check_count, check_positive, check_share, is_number
from pucl.heads.linear import linear
from pucl.heads.targets import confident_rows, fixed_targets, renewed_targets
from pucl.heads.tuned import FineTuned, Normed
from pucl.labels import check_labels
from pucl.pseudo_labels import PseudoLabels
from pucl.seeds import seed_of
from pucl.training.batches import epoch_order, steps_per_epoch
from pucl.training.capture import Captured, is_recordable, own_stream
from pucl.training.config import TrainConfig
from pucl.training.pretraining import default_view
from pucl.training.schedule import learning_rate as scheduled
from pucl.views import View, known_as, make_view

FINE_TUNE, SELF_TRAIN = "pucl.fine_tune", "pucl.self_train"
WEIGHT_DECAY = 0.01
MAX_BATCH, MIN_STEPS = 1024, 16  # rows of a batch, batches of an epoch
MIN_LABELLED_SHARE = 0.05  # of a batch of `self_train`
Function = TypeVar("Function", bound=Callable[..., Any])
Network = TypeVar("Network", bound=nn.Module)
# The network before an epoch, and its number → targets within [0, 1] and weights of the rows, (n,) each.
Targets = Callable[[Normed, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """How `fine_tune` and `self_train` train, with AdamW.

    Attributes:
        epochs: passes over the rows.
        batch_size: rows per step; when not given, 1,024 or as many as make 16 steps an epoch, whichever is less.
        learning_rate: of the layer at the start; it falls to 0 along half a cosine.
        encoder_scale: the learning rate of the encoder as a multiple of that of the layer.
        view: a registered view or a function ``(x, generator) → x``; when not given, a shift by a pixel for images,
            and what `pucl.pretrain` takes for anything else.
        mixup: α, where rows of a batch are mixed two by two with weights from Beta(α, α); 0 for rows as they are.
        seed: of the batches, the views and the mixing.
    """

    epochs: int = 15
    batch_size: int | None = None
    learning_rate: float = 1e-3
    encoder_scale: float = 1.0
    view: str | View | None = None
    mixup: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count(owner, "epochs", self.epochs)
        if self.batch_size is not None:
            check_count(owner, "batch_size", self.batch_size, low=2)
        check_positive(owner, "learning_rate", self.learning_rate)
        check_positive(owner, "encoder_scale", self.encoder_scale)
        if not is_number(self.mixup) or not 0 <= self.mixup < float("inf"):
            raise bad_argument(owner, "mixup", "a finite number ≥ 0", self.mixup)
        check_count(owner, "seed", self.seed, low=0)


def _with_old_arguments(tune: Function) -> Function:
    """Let `fine_tune` be called as before `TuneConfig` and `self_train`, with a FutureWarning."""
    moved = tuple(field.name for field in fields(TuneConfig))

    @functools.wraps(tune)
    def call(x: Any, s: Any, pseudo: PseudoLabels, encoder: nn.Module, *config: Any, **options: Any) -> FineTuned:
        if config or options.get("config") is not None:
            return cast("FineTuned", tune(x, s, pseudo, encoder, *config, **options))
        options.pop("config", None)
        renew = options.pop("renew", True)
        made = TuneConfig(**{name: options.pop(name) for name in moved if name in options})
        other = {name: options.pop(name) for name in ("trust", "labelled_share") if name in options}
        if renew and options.get("teacher") is not None:
            raise bad_argument(
                FINE_TUNE,
                "teacher",
                "given with renew=False, where its predictions are the targets",
                options["teacher"],
            )
        advice = (
            f"call {SELF_TRAIN}(x, s, pseudo, encoder, pucl.TuneConfig(...)) for labels that the network renews; "
            f"without a config, {FINE_TUNE} does so until pucl {UNTIL}"
            if renew
            else f"give {', '.join(moved)} as config=pucl.TuneConfig(...), without renew; old calls end with {UNTIL}"
        )
        warnings.warn(f"{FINE_TUNE}: {advice}", FutureWarning, stacklevel=2)
        if not renew:
            return cast("FineTuned", tune(x, s, pseudo, encoder, made, **options))
        for ignored in ("confident", "weighted", "soft", "teacher"):
            options.pop(ignored, None)
        return self_train(x, s, pseudo, encoder, made, **other, **options)

    return call  # type: ignore[return-value]


@_with_old_arguments
def fine_tune(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    config: TuneConfig | None = None,
    *,
    confident: float = 1.0,
    weighted: bool = True,
    soft: bool = False,
    teacher: nn.Module | None = None,
    device: str | torch.device | None = None,
) -> FineTuned:
    """Train a copy of the encoder together with a linear layer, on pseudo-labels that stay as they are.

        min_θ  Σ_i r_i · CE(σ(f_θ(t(x_i))), ỹ_i)

    where t(x) is a view of the row, drawn anew at every step, ỹ its pseudo-label and r the reliability of that. The
    layer starts as the linear head of the given encoder.

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows.
        encoder: raw rows → embeddings; it stays as it is.
        config: how to train. Until pucl 0.3, a call without it renews the labels as `self_train` does, and warns.
        confident: the share of unlabelled rows to use, within (0, 1]: the most reliable ones of each class.
        weighted: weight rows by their reliability; otherwise all used rows count alike.
        soft: take probabilities as targets instead of labels; all used rows count alike.
        teacher: a module from float rows on the device to logits (n,), whose predictions replace all targets; it
            sees the same view, mixed or not, as the network.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    every = _TuningRows.of(FINE_TUNE, x, s, pseudo, device)
    if not is_number(confident) or not 0 < confident <= 1:
        raise bad_argument(FINE_TUNE, "confident", "a number in (0, 1]", confident)
    used = every.only(confident_rows(every.labelled, every.pseudo, confident))
    fixed = fixed_targets(used.pseudo, soft=soft, weighted=weighted)
    return _tune(encoder, every, used, lambda _network, _epoch: fixed, config or TuneConfig(), teacher=teacher)


def self_train(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    config: TuneConfig | None = None,
    *,
    trust: float = 0.25,
    labelled_share: float | None = None,
    device: str | torch.device | None = None,
) -> FineTuned:
    """Train a copy of the encoder together with a linear layer, on labels that the network renews as it learns.

        min_θ  ((1 − β) π̂ + β n_P/n) mean_P CE(f, 1)  +  mean_U (1[f_i < q] CE(f, 0) + β 1[f_i ≥ q] CE(f, 1))

    where CE is taken of views of the rows, drawn anew at every step, f_i is the logit of the row as it is, from the
    network at the start of the epoch, and q the cut above which a share π̂ of U lies. Likely positives are left out of
    the negatives and called positive with the weight β only, so that the network need not repeat the mistakes of the
    labels it started from (CVIR in the network for β = 0, Garg et al. 2021). The first epoch takes for likely what
    `pseudo` calls positive, and π̂ is its prior. The layer starts as the linear head of the given encoder.

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows, for the first epoch, and π̂.
        encoder: raw rows → embeddings; it stays as it is.
        config: how to train.
        trust: β, within [0, 1]: the weight of a likely positive among the positives.
        labelled_share: the share of labelled rows in every batch; when not given, that of the data, but at least 0.05.
            With a large share, a large network memorises the labelled rows.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    rows = _TuningRows.of(SELF_TRAIN, x, s, pseudo, device)
    check_share(SELF_TRAIN, "trust", trust, closed=True)
    share = max(MIN_LABELLED_SHARE, float(rows.labelled.float().mean())) if labelled_share is None else labelled_share
    check_share(SELF_TRAIN, "labelled_share", share)
    check_share(SELF_TRAIN, "pseudo.prior", pseudo.prior)
    n_unlabelled = int(rows.pseudo.unlabelled(rows.labelled).sum())
    if n_unlabelled < 2:
        raise bad_argument(SELF_TRAIN, "s", "labels with at least two unlabelled rows", Described(f"{n_unlabelled}"))

    def targets(network: Normed, epoch: int) -> tuple[Tensor, Tensor]:
        score = None
        if epoch:
            score = network.eval().score(embed(network.encoder, rows.x, normalise=False).to(rows.x.device))
        return renewed_targets(score, rows.labelled, rows.pseudo, trust=trust, labelled_share=share)

    return _tune(encoder, rows, rows, targets, config or TuneConfig(), labelled_share=share)


@dataclass(frozen=True)
class _TuningRows:
    """Rows with their labels, on the device."""

    x: Tensor
    labelled: Tensor
    pseudo: PseudoLabels

    @classmethod
    def of(cls, owner: str, x: Any, s: Any, pseudo: PseudoLabels, device: str | torch.device | None) -> "_TuningRows":
        """What a user gave, checked."""
        rows = as_rows(x, owner=owner)
        labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=owner))
        if len(pseudo.labels) != len(rows):
            got = Described(f"{len(pseudo.labels)} pseudo-labels")
            raise bad_argument(owner, "pseudo", f"of length {len(rows)}, one per row of x", got)
        if pseudo.labels.all() or not pseudo.labels.any():
            raise bad_argument(owner, "pseudo", "labels of both classes", Described("labels of one class only"))
        place = pick_device(device)
        return cls(rows.to(place), labelled.to(place), pseudo.to(place))

    def only(self, members: Tensor) -> "_TuningRows":
        """Some of the rows."""
        return _TuningRows(self.x[members], self.labelled[members], self.pseudo.only(members))


def _tune(
    encoder: nn.Module,
    every: _TuningRows,
    used: _TuningRows,
    targets: Targets,
    config: TuneConfig,
    *,
    labelled_share: float | None = None,
    teacher: nn.Module | None = None,
) -> FineTuned:
    """A copy of the encoder and its linear head on every row, trained together on the targets of the used rows."""
    device, n = every.x.device, len(every.x)
    batch_size = config.batch_size or min(MAX_BATCH, max(2, n // MIN_STEPS))
    batches = TrainConfig(
        epochs=config.epochs,
        batch_size=min(batch_size, len(used.x)),
        learning_rate=config.learning_rate,
        labelled_share=labelled_share,
        seed=config.seed,
    )
    # Modules may draw from the global generator: a layer when it is initialised, an encoder with dropout.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed_of(config.seed, "fine-tuning", 0))
        network = _start(every, encoder)
        _Training(network, used, config, teacher).run(batches, targets)
    return network.folded().eval().requires_grad_(False)


def _start(rows: _TuningRows, encoder: nn.Module) -> Normed:
    """A copy of the encoder with its linear head."""
    own = ready_to_tune(encoder, rows.x)
    z = embed(own, rows.x).to(rows.x.device)
    return Normed(own, z, linear(z, rows.labelled, rows.pseudo))


def ready_to_tune(encoder: Network, x: Tensor) -> Network:
    """A copy of the encoder on the device of the rows, with its weights as training lays them out."""
    own = copy.deepcopy(encoder).to(x.device).requires_grad_(True)
    if x.ndim == 4:  # quicker on every device
        own.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return own


class _Training:
    """The steps of a network on rows whose targets may change from epoch to epoch; on a GPU, one recorded step."""

    def __init__(self, network: Normed, rows: _TuningRows, config: TuneConfig, teacher: nn.Module | None) -> None:
        self.network, self.rows, self.config, self.teacher = network, rows, config, teacher
        self.device = rows.x.device
        self.gpu = self.device.type == "cuda"
        self.view = _view(config.view, rows.x)
        self.generator = Generator(device=self.device)
        rates = (config.learning_rate * config.encoder_scale, config.learning_rate)
        groups = [
            # On a GPU the rate is a tensor, which a recorded step reads anew.
            {"params": list(part.parameters()), "peak": rate, "lr": self._zeros() if self.gpu else 0.0}
            for part, rate in zip((network.encoder, network.layer), rates, strict=True)
        ]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY, capturable=self.gpu, foreach=self.gpu)
        self.target, self.weight = self._zeros(len(rows.x)), self._zeros(len(rows.x))
        self.kept = torch.ones((), device=self.device)  # what a row keeps of itself where rows are mixed

    def run(self, batches: TrainConfig, targets: Targets) -> None:
        """Take all steps; `batches` says which rows make a step."""
        parts = [self.network.encoder] if self.teacher is None else [self.network.encoder, self.teacher]
        recorded = self.gpu and known_as(self.view) is not None and all(is_recordable(part) for part in parts)
        step: Callable[[Tensor], None] | Captured[None] = self._step
        if recorded:
            step = Captured(self._step, generators=[self.generator], optimisers=[self.optimiser])
        per_epoch = steps_per_epoch(len(self.rows.x), batches)
        with own_stream(self.device):
            for epoch in range(batches.epochs):
                with torch.no_grad():
                    for place, values in zip((self.target, self.weight), targets(self.network, epoch), strict=True):
                        place.copy_(values)
                self.network.train()
                order = epoch_order(self.rows.labelled, batches, epoch).to(self.device)
                for number, members in enumerate(order, epoch * per_epoch):
                    self._prepare(number, batches.epochs * per_epoch)
                    step(members)

    def _prepare(self, number: int, total: int) -> None:
        """Draws and learning rates of a step."""
        seed, mixup = self.config.seed, self.config.mixup
        self.generator.manual_seed(seed_of(seed, "views", number))
        for group in self.optimiser.param_groups:
            _set_rate(group, number, total)
        if mixup:
            self.kept.fill_(np.random.default_rng(seed_of(seed, "mixing", number)).beta(mixup, mixup))

    def _step(self, members: Tensor) -> None:
        network = self.network
        shown = self.view(to_float(self.rows.x.index_select(0, members)), self.generator)
        target, weight = self.target[members], self.weight[members]
        if self.config.mixup:
            shown, target, weight = mixed(shown, target, weight, self.kept)
        with torch.autocast("cuda", torch.bfloat16) if self.gpu else nullcontext():
            z = network.encoder(shown)
            if self.teacher is not None:
                with torch.no_grad():
                    target = torch.sigmoid(self.teacher(shown).float())
        share = weight / weight.sum().clamp(min=1e-12)
        loss = F.binary_cross_entropy_with_logits(network.score(z), target, share, reduction="sum")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, device=self.device)


def _view(view: str | View | None, x: Tensor) -> View:
    if view is None:
        view = "shift" if x.ndim == 4 else default_view(tuple(x.shape[1:]))
    return make_view(view) if isinstance(view, str) else view


def mixed(x: Tensor, goal: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every row of a batch mixed with the one before it, targets by their weights; `kept` is a row's own share."""
    own, other = kept * weight, (1 - kept) * weight.roll(1)
    together = own + other
    target = (own * goal + other * goal.roll(1)) / together.clamp(min=1e-12)
    return kept * x + (1 - kept) * x.roll(1, 0), target, together


def _set_rate(group: dict[str, Any], step: int, total: int) -> None:
    """The learning rate of a group of parameters, along half a cosine down to 0."""
    rate = scheduled(step, total=total, warmup=0, peak=group["peak"], final=0.0)
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate
