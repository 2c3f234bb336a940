"""Fine-tuning: encoder and linear layer together, on the pseudo-labels; in rounds, on the model's own predictions."""

import copy
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.embeddings import embed
from pucl.encoders.inputs import as_rows, to_float
from pucl.errors import Described, bad_argument, check_count, check_positive, check_share, is_number
from pucl.heads.linear import linear
from pucl.labels import check_labels
from pucl.pseudo_labels import PseudoLabels
from pucl.training.batches import epoch_order, resident_batches, steps_per_epoch
from pucl.training.config import TrainConfig
from pucl.training.pretraining import default_view
from pucl.training.ranks import pick_device
from pucl.training.schedule import learning_rate as scheduled
from pucl.training.seeds import seed_of
from pucl.views import View, make_view

OWNER = "pucl.heads.fine_tune"
MOMENTUM = 0.9


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
        scaled = F.normalize(z.to(self.layer.weight.dtype), dim=1) * z.shape[1] ** 0.5
        logits: Tensor = self.layer(scaled)
        return logits.squeeze(1)


@dataclass(frozen=True)
class _Plan:
    """How every round is trained, checked; the names are those of `fine_tune`."""

    config: TrainConfig
    view: View
    encoder_scale: float
    confident: float
    weighted: bool
    device: torch.device


def fine_tune(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    *,
    epochs: int = 20,
    batch_size: int = 512,
    learning_rate: float = 0.01,
    encoder_scale: float = 0.1,
    view: str | View | None = None,
    confident: float = 1.0,
    weighted: bool = True,
    rounds: int = 1,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> FineTuned:
    """Train a copy of the encoder together with a linear layer on the pseudo-labels.

        min_θ  Σ_i r_i · CE(σ(f_θ(t(x_i))), ỹ_i)

    where ỹ is the pseudo-label, r its reliability and t one view of the row, drawn anew at every step. The layer starts
    as the linear head of the given encoder, so that the encoder is not led astray by a random one. Classes are balanced
    through the pseudo-labels only.

    With several rounds, the unlabelled rows get new pseudo-labels after each, see `relabel`, and the next round starts
    again from the given encoder.

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows.
        encoder: raw rows → embeddings; it stays as it is.
        epochs: passes over the rows, in every round.
        batch_size: rows per step; all of them when there are fewer.
        learning_rate: of the layer at the start; it falls to 0 along half a cosine. SGD with a momentum of 0.9.
        encoder_scale: the learning rate of the encoder as a multiple of that of the layer.
        view: a registered view or a function ``(x, generator) → x``; that of `pucl.pretrain` when not given.
        confident: share of the unlabelled rows that are used, within (0, 1]: the most reliable of either class.
        weighted: whether reliability counts; all used rows alike otherwise.
        rounds: of training and relabelling.
        seed: of the batches and the views.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    rows = as_rows(x, owner=OWNER)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=OWNER))
    _check_pseudo(pseudo, len(rows))
    check_count(OWNER, "epochs", epochs)
    check_count(OWNER, "batch_size", batch_size, low=2)
    check_positive(OWNER, "learning_rate", learning_rate)
    check_positive(OWNER, "encoder_scale", encoder_scale)
    check_count(OWNER, "seed", seed, low=0)
    if not is_number(confident) or not 0 < confident <= 1:
        raise bad_argument(OWNER, "confident", "a number in (0, 1]", confident)
    if check_count(OWNER, "rounds", rounds) > 1:
        check_share(OWNER, "pseudo.prior", pseudo.prior)
    place = pick_device(device)
    view = default_view(tuple(rows.shape[1:])) if view is None else view
    plan = _Plan(
        config=TrainConfig(epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, seed=seed),
        view=make_view(view) if isinstance(view, str) else view,
        encoder_scale=encoder_scale,
        confident=confident,
        weighted=weighted,
        device=place,
    )
    rows, labelled = rows.to(place), labelled.to(place)
    pseudo = replace(
        pseudo,
        labels=pseudo.labels.to(place),
        probability=pseudo.probability.to(place),
        reliability=pseudo.reliability.to(place),
    )
    model = _round(rows, labelled, pseudo, encoder, plan, 0)
    for number in range(1, rounds):
        with torch.no_grad():
            logits = model.score(embed(model.encoder, rows, normalise=False))
        pseudo = relabel(logits, labelled, prior=pseudo.prior)
        model = _round(rows, labelled, pseudo, encoder, plan, number)
    return model


def relabel(logits: Tensor, labelled: Tensor, *, prior: float) -> PseudoLabels:
    """Pseudo-labels from a model's own logits, cut so that a share π of the unlabelled rows is positive."""
    check_share("pucl.heads.relabel", "prior", prior)
    n_unlabelled = int((~labelled).sum())
    if n_unlabelled < 2:
        got = Described(f"{n_unlabelled}")
        raise bad_argument("pucl.heads.relabel", "labelled", "labels with at least two unlabelled rows", got)
    return PseudoLabels.from_scores(logits, labelled, prior=prior)


def confident_rows(labelled: Tensor, pseudo: PseudoLabels, share: float) -> Tensor:
    """The labelled rows and the `share` of the unlabelled rows of either pseudo-class that is most reliable, in order.

    Taken class by class, so that the share of positives among the rows stays that of the pseudo-labels.
    """
    chosen = [labelled.nonzero().flatten()]
    for value in (True, False):
        members = (~labelled & (pseudo.labels == value)).nonzero().flatten()
        surest = pseudo.reliability[members].argsort(descending=True, stable=True)
        chosen.append(members[surest[: round(share * len(members)) or min(1, len(members))]])
    return torch.cat(chosen).sort().values


def _round(
    rows: Tensor, labelled: Tensor, pseudo: PseudoLabels, encoder: nn.Module, plan: _Plan, number: int
) -> FineTuned:
    """One round, from the given encoder to a trained model."""
    gpu = plan.device.type == "cuda"
    # Parts of others may draw from the global generator: a layer when it is made, an encoder that drops units.
    with torch.random.fork_rng(devices=[plan.device] if gpu else []):
        torch.manual_seed(seed_of(plan.config.seed, "fine-tuning", number))
        model = _start(rows, labelled, pseudo, encoder, plan.device)
        _train(model, rows, labelled, pseudo, plan, number)
    return model.eval().requires_grad_(False)


def _train(model: FineTuned, rows: Tensor, labelled: Tensor, pseudo: PseudoLabels, plan: _Plan, number: int) -> None:
    used = confident_rows(labelled, pseudo, plan.confident)
    x, goal = rows[used], pseudo.labels[used].to(torch.float32)
    weight = pseudo.reliability[used].to(torch.float32) if plan.weighted else torch.ones_like(goal)
    weight = weight / weight.mean()  # a labelled row has 1, so this is above 0
    config, gpu = plan.config, plan.device.type == "cuda"
    rates = (config.learning_rate * plan.encoder_scale, config.learning_rate)
    parts = (model.encoder, model.layer)
    groups = [{"params": list(part.parameters()), "peak": rate} for part, rate in zip(parts, rates, strict=True)]
    optimiser = torch.optim.SGD(groups, lr=0.0, momentum=MOMENTUM)
    generator = Generator(device=plan.device)
    model.train()
    for step, total, members, batch in _batches(x, config, number):
        generator.manual_seed(seed_of(config.seed, "views", number * total + step))
        seen = plan.view(to_float(batch), generator)
        with torch.autocast("cuda", torch.bfloat16) if gpu else nullcontext():
            z = model.encoder(seen)
        loss = F.binary_cross_entropy_with_logits(model.score(z), goal[members], weight[members])
        for group in optimiser.param_groups:
            group["lr"] = scheduled(step, total=total, warmup=0, peak=group["peak"], final=0.0)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def _batches(x: Tensor, config: TrainConfig, number: int) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """The steps of a round: number of the step, of how many, which rows, and the rows themselves."""
    own = TrainConfig(
        epochs=config.epochs,
        batch_size=min(config.batch_size, len(x)),
        seed=seed_of(config.seed, "round", number),
    )
    per_epoch = steps_per_epoch(len(x), own)
    for epoch in range(own.epochs):
        order = epoch_order(torch.zeros(len(x), dtype=torch.bool), own, epoch).to(x.device)
        batches = zip(order, resident_batches(x, order), strict=True)
        for at, (members, batch) in enumerate(batches):
            yield epoch * per_epoch + at, own.epochs * per_epoch, members, batch


def _start(rows: Tensor, labelled: Tensor, pseudo: PseudoLabels, encoder: nn.Module, device: torch.device) -> FineTuned:
    """A copy of the encoder with its linear head."""
    own = copy.deepcopy(encoder).to(device).requires_grad_(True)
    if device.type == "cuda" and rows.ndim == 4:
        own.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    z = embed(own, rows)
    head = linear(z, labelled, pseudo)
    layer = nn.utils.skip_init(nn.Linear, z.shape[1], 1, device=device)  # type: ignore[no-untyped-call]  # draws nothing
    with torch.no_grad():
        layer.weight.copy_(head.weight[None] / z.shape[1] ** 0.5)
        layer.bias.copy_(head.bias)
    return FineTuned(own, layer)


def _check_pseudo(pseudo: PseudoLabels, n: int) -> None:
    if len(pseudo.labels) != n:
        got = Described(f"{len(pseudo.labels)} pseudo-labels")
        raise bad_argument(OWNER, "pseudo", f"of length {n}, one per row of x", got)
    if pseudo.labels.all() or not pseudo.labels.any():
        raise bad_argument(OWNER, "pseudo", "labels of both classes", Described("labels of one class only"))
