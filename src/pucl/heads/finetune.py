"""Fine-tuning: encoder and linear layer together, on pseudo-labels that the network renews as it learns."""

import copy
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.device import pick_device
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import as_rows, to_float
from pucl.errors import Described, bad_argument, check_count, check_positive, check_share, is_number
from pucl.heads import LinearHead
from pucl.heads.linear import linear
from pucl.heads.targets import confident_rows, given, renewed
from pucl.labels import check_labels
from pucl.pseudo_labels import PseudoLabels
from pucl.seeds import seed_of
from pucl.training.batches import epoch_order, steps_per_epoch
from pucl.training.capture import Captured, is_recordable, own_stream
from pucl.training.config import TrainConfig
from pucl.training.pretraining import default_view
from pucl.training.schedule import learning_rate as scheduled
from pucl.views import View, known_as, make_view

OWNER = "pucl.heads.fine_tune"
WEIGHT_DECAY = 0.01
MOMENTUM, EPS = 0.1, 1e-5  # of the batch norm before the layer
BATCH, STEPS, LABELLED = 1024, 16, 0.05  # most rows of a batch, fewest batches of an epoch, least labelled share


class FineTuned(nn.Module):
    """An encoder and a linear score of its L2-normalised output: raw rows → logits (n,), positive above 0."""

    def __init__(self, encoder: nn.Module, layer: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.layer = encoder, layer

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,) of raw rows."""
        return self.score(self.encoder(x))

    def score(self, z: Tensor) -> Tensor:
        """Logits (n,) of what the encoder gives (n, k), in the precision of the layer."""
        logits: Tensor = self.layer(_scaled(z.to(self.layer.weight.dtype)))
        return logits.squeeze(1)


class Normed(nn.Module):
    """The same with a batch norm before the layer, while it is trained.

    An encoder without batch norm puts all rows into a narrow cone; there every step of the encoder would move the
    logits of all rows together, by more than what tells them apart. Afterwards the norm becomes part of the layer.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, encoder: nn.Module, z: Tensor, head: LinearHead) -> None:
        super().__init__()
        self.encoder = encoder
        own = _scaled(z)
        self.register_buffer("mean", own.mean(dim=0))
        self.register_buffer("variance", own.var(dim=0))
        made = nn.utils.skip_init(nn.Linear, z.shape[1], 1, device=z.device)  # type: ignore[no-untyped-call]  # no draws
        self.layer: nn.Linear = made
        with torch.no_grad():
            weight = head.weight / z.shape[1] ** 0.5
            self.layer.weight.copy_(weight * self._deviation())
            self.layer.bias.copy_(head.bias + weight @ self.mean)

    def score(self, z: Tensor) -> Tensor:
        """Logits (n,) of what the encoder gives (n, k), in the precision of the layer."""
        own = _scaled(z.to(self.layer.weight.dtype))
        normed = F.batch_norm(own, self.mean, self.variance, training=self.training, momentum=MOMENTUM, eps=EPS)
        logits: Tensor = self.layer(normed)
        return logits.squeeze(1)

    @torch.no_grad()
    def folded(self) -> FineTuned:
        """Without the norm; it scores as this does in evaluation mode."""
        weight = self.layer.weight / self._deviation()
        self.layer.bias.sub_(weight @ self.mean)
        self.layer.weight.copy_(weight)
        return FineTuned(self.encoder, self.layer)

    def _deviation(self) -> Tensor:
        return (self.variance + EPS).sqrt()


def _scaled(z: Tensor) -> Tensor:
    """Embeddings (n, k) of unit mean square per feature."""
    scaled: Tensor = F.normalize(z, dim=1) * z.shape[1] ** 0.5
    return scaled


@dataclass(frozen=True)
class _Plan:
    """How to train, checked; the names are those of `fine_tune`."""

    config: TrainConfig
    view: View
    encoder_scale: float
    renew: bool
    trust: float
    labelled_share: float
    confident: float
    weighted: bool
    soft: bool
    mixup: float
    teacher: nn.Module | None
    device: torch.device


def fine_tune(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    *,
    epochs: int = 15,
    batch_size: int | None = None,
    learning_rate: float = 1e-3,
    encoder_scale: float = 1.0,
    view: str | View | None = None,
    renew: bool = True,
    trust: float = 0.25,
    labelled_share: float | None = None,
    confident: float = 1.0,
    weighted: bool = True,
    soft: bool = False,
    mixup: float = 0.0,
    teacher: nn.Module | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> FineTuned:
    """Train a copy of the encoder together with a linear layer, the pseudo-labels changing as they learn.

        min_θ  ((1 − β) π̂ + β n_P/n) mean_P CE(f, 1)  +  mean_U (1[f_i < q] CE(f, 0) + β 1[f_i ≥ q] CE(f, 1))

    where CE is taken of views of the rows, drawn anew at every step, f_i is the logit of the row as it is, from the
    network at the start of the epoch, and q the cut above which a share π̂ of U lies. Likely positives are left out of
    the negatives and called positive with the weight β only, so that the network need not repeat the mistakes of the
    labels it started from (CVIR in the network for β = 0, Garg et al. 2021). The first epoch takes for likely what
    `pseudo` calls positive, and π̂ is its prior. The layer starts as the linear head of the given encoder.

    With ``renew=False`` the pseudo-labels stay as they are and every row counts by its reliability:

        min_θ  Σ_i r_i · CE(σ(f_θ(t(x_i))), ỹ_i)

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows.
        encoder: raw rows → embeddings; it stays as it is.
        epochs: passes over the rows.
        batch_size: rows per step; when not given, 1,024 or as many as make 16 steps an epoch, whichever is less.
        learning_rate: of the layer at the start; it falls to 0 along half a cosine. AdamW.
        encoder_scale: the learning rate of the encoder as a multiple of that of the layer.
        view: a registered view or a function ``(x, generator) → x``; when not given, a shift by a pixel of images and
            that of `pucl.pretrain` of anything else.
        renew: look again at the unlabelled rows before every epoch.
        trust: β, within [0, 1]: how much a likely positive counts as one.
        labelled_share: with ``renew=True``, the share of labelled rows in every batch; when not given, that of the
            data, but at least 0.05. A large one lets a large network learn the labelled rows by heart.
        confident: with ``renew=False``, the share of the unlabelled rows that is used, within (0, 1]: the most reliable
            of either class.
        weighted: with ``renew=False``, whether reliability counts; all used rows alike otherwise.
        soft: with ``renew=False``, take the probabilities for targets instead of the labels, and all used rows alike:
            to learn from another model.
        mixup: α, where rows of a batch are mixed two by two, with weights from Beta(α, α); 0 for rows as they are.
        teacher: a module from float rows on the device to logits (n,), in place of all targets: what it says of the
            very view, mixed or not, that the network is shown.
        seed: of the batches and the views.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    rows = as_rows(x, owner=OWNER)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=OWNER))
    _check_pseudo(pseudo, len(rows))
    check_count(OWNER, "epochs", epochs)
    if batch_size is None:
        batch_size = min(BATCH, max(2, len(rows) // STEPS))
    check_count(OWNER, "batch_size", batch_size, low=2)
    check_share(OWNER, "trust", trust, closed=True)
    if labelled_share is None:
        labelled_share = max(LABELLED, float(labelled.float().mean()))
    check_share(OWNER, "labelled_share", labelled_share)
    check_positive(OWNER, "learning_rate", learning_rate)
    check_positive(OWNER, "encoder_scale", encoder_scale)
    check_count(OWNER, "seed", seed, low=0)
    if not is_number(confident) or not 0 < confident <= 1:
        raise bad_argument(OWNER, "confident", "a number in (0, 1]", confident)
    if not is_number(mixup) or not 0 <= mixup < float("inf"):
        raise bad_argument(OWNER, "mixup", "a finite number ≥ 0", mixup)
    if teacher is not None and renew:
        raise bad_argument(OWNER, "teacher", "given with renew=False: what it says are the targets", teacher)
    if renew:
        check_share(OWNER, "pseudo.prior", pseudo.prior)
        n_unlabelled = int((~labelled).sum())
        if n_unlabelled < 2:
            raise bad_argument(OWNER, "s", "labels with at least two unlabelled rows", Described(f"{n_unlabelled}"))
    place = pick_device(device)
    if view is None:
        view = "shift" if rows.ndim == 4 else default_view(tuple(rows.shape[1:]))
    plan = _Plan(
        config=TrainConfig(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            labelled_share=labelled_share if renew else None,
            seed=seed,
        ),
        view=make_view(view) if isinstance(view, str) else view,
        encoder_scale=encoder_scale,
        renew=renew,
        trust=trust,
        labelled_share=labelled_share,
        confident=confident,
        weighted=weighted,
        soft=soft,
        mixup=mixup,
        teacher=teacher,
        device=place,
    )
    rows, labelled = rows.to(place), labelled.to(place)
    pseudo = replace(
        pseudo,
        labels=pseudo.labels.to(place),
        probability=pseudo.probability.to(place),
        reliability=pseudo.reliability.to(place),
    )
    # Parts of others may draw from the global generator: a layer when it is made, an encoder that drops units.
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed_of(seed, "fine-tuning", 0))
        model = _start(rows, labelled, pseudo, encoder, place)
        _train(model, _Lessons(rows, labelled, pseudo, plan), plan)
    return model.folded().eval().requires_grad_(False)


class _Lessons:
    """The rows of a training and what they are taken for, epoch by epoch."""

    def __init__(self, rows: Tensor, labelled: Tensor, pseudo: PseudoLabels, plan: _Plan) -> None:
        self.plan = plan
        if not plan.renew:
            used = confident_rows(labelled, pseudo, plan.confident)
            rows, labelled, pseudo = rows[used], labelled[used], pseudo.only(used)
        self.rows, self.labelled, self.pseudo = rows, labelled, pseudo

    @torch.no_grad()
    def targets(self, model: Normed, epoch: int) -> tuple[Tensor, Tensor]:
        """Targets and weights (n,) of an epoch, from the network as it is."""
        plan = self.plan
        if not plan.renew:
            return given(self.pseudo, soft=plan.soft, weighted=plan.weighted)
        score = None
        if epoch:
            score = model.eval().score(embed(model.encoder, self.rows, normalise=False).to(self.rows.device))
        return renewed(score, self.labelled, self.pseudo, trust=plan.trust, labelled_share=plan.labelled_share)


def _train(model: Normed, lessons: _Lessons, plan: _Plan) -> None:
    rows = lessons.rows
    config = replace(plan.config, batch_size=min(plan.config.batch_size, len(rows)))
    gpu = plan.device.type == "cuda"
    rates = (config.learning_rate * plan.encoder_scale, config.learning_rate)
    trained = (model.encoder, model.layer)
    groups = [
        # On a GPU the rate is a tensor, which a recorded step reads anew.
        {"params": list(part.parameters()), "peak": rate, "lr": torch.zeros((), device=plan.device) if gpu else 0.0}
        for part, rate in zip(trained, rates, strict=True)
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY, capturable=gpu, foreach=gpu)
    generator = Generator(device=plan.device)
    per_epoch = steps_per_epoch(len(rows), config)
    goal, weight = (torch.zeros(len(rows), device=plan.device) for _ in range(2))
    kept = torch.ones((), device=plan.device)  # what a row keeps of itself where rows are mixed

    def take(members: Tensor) -> None:
        seen = plan.view(to_float(rows.index_select(0, members)), generator)
        target, count = goal[members], weight[members]
        if plan.mixup:
            seen, target, count = mixed(seen, target, count, kept)
        with torch.autocast("cuda", torch.bfloat16) if gpu else nullcontext():
            z = model.encoder(seen)
            if plan.teacher is not None:
                with torch.no_grad():
                    target = torch.sigmoid(plan.teacher(seen).float())
        share = count / count.sum().clamp(min=1e-12)
        loss = F.binary_cross_entropy_with_logits(model.score(z), target, share, reduction="sum")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    parts = [model.encoder] if plan.teacher is None else [model.encoder, plan.teacher]
    recorded = gpu and known_as(plan.view) is not None and all(is_recordable(part) for part in parts)
    step = Captured(take, generators=[generator], optimisers=[optimiser]) if recorded else take
    with own_stream(plan.device):
        for epoch in range(config.epochs):
            for place, values in zip((goal, weight), lessons.targets(model, epoch), strict=True):
                place.copy_(values)
            model.train()
            order = epoch_order(lessons.labelled, config, epoch).to(plan.device)
            for at, members in enumerate(order, epoch * per_epoch):
                generator.manual_seed(seed_of(config.seed, "views", at))
                for group in optimiser.param_groups:
                    _set_rate(group, at, config.epochs * per_epoch)
                if plan.mixup:
                    draws = np.random.default_rng(seed_of(config.seed, "mixing", at))
                    kept.fill_(draws.beta(plan.mixup, plan.mixup))
                step(members)


def mixed(x: Tensor, goal: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every row of a batch with the one before it, targets by their weights; `kept` is what a row keeps of itself."""
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


def _start(rows: Tensor, labelled: Tensor, pseudo: PseudoLabels, encoder: nn.Module, device: torch.device) -> Normed:
    """A copy of the encoder with its linear head."""
    own = copy.deepcopy(encoder).to(device).requires_grad_(True)
    if rows.ndim == 4:  # quicker on every device
        own.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    z = embed(own, rows).to(device)
    return Normed(own, z, linear(z, labelled, pseudo))


def _check_pseudo(pseudo: PseudoLabels, n: int) -> None:
    if len(pseudo.labels) != n:
        got = Described(f"{len(pseudo.labels)} pseudo-labels")
        raise bad_argument(OWNER, "pseudo", f"of length {n}, one per row of x", got)
    if pseudo.labels.all() or not pseudo.labels.any():
        raise bad_argument(OWNER, "pseudo", "labels of both classes", Described("labels of one class only"))
