"""Momentum training: encoder and layer on labels that move, beside a copy of the network that follows it slowly."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.encoders.embedding import embed
from pucl.encoders.projection import projection_head
from pucl.errors import bad_argument, check_count, check_known, check_share, is_number
from pucl.heads.targets import (
    first_labels,
    followed_prototypes,
    moved_labels,
    nearest_is_positive,
    targets_of_step,
)
from pucl.heads.tuned import FineTuned, Normed
from pucl.heads.tuning import Steps, TuneConfig, TuningRows, cross_entropy, mixed, own_draws, start, view_of
from pucl.losses.non_contrastive import non_contrastive
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.pseudo_labels.labellers import labellers
from pucl.training.averaging import WeightAverage
from pucl.views import View

OWNER = "pucl.momentum_train"
PROTOTYPES = "momentum_prototypes"
WIDTH, DIM = 512, 128  # of the projection, as in pretraining


@dataclass(frozen=True, kw_only=True)
class MomentumConfig(TuneConfig):
    """How `momentum_train` trains: all of `TuneConfig`, where `view` is the weak view, and what follows.

    Attributes:
        momentum: the decay of the target network, a running average of the network that learns.
        strong_view: of the non-contrastive loss; when not given, what `pucl.pretrain` takes.
        alignment: the weight of the non-contrastive loss beside the cross-entropy; 0 for none.
        labels: what labels move towards: ``"momentum_prototypes"``, the nearest of two prototypes, or a labeller, which
            labels the embeddings of the target network anew.
        label_momentum: the share of its label that a row keeps in an epoch.
        prototype_momentum: the decay of the prototypes, from step to step.
        hold: epochs before labels begin to move.
        every: epochs from one run of the labeller to the next.
        confident_negative: the probability below which the target network takes a row for negative for this step alone;
            0 for never.
    """

    momentum: float = 0.99
    strong_view: str | View | None = None
    alignment: float = 1.0
    labels: str = PROTOTYPES
    label_momentum: float = 0.9
    prototype_momentum: float = 0.99
    hold: int = 5
    every: int = 5
    confident_negative: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        check_share(owner, "momentum", self.momentum)
        for name in ("label_momentum", "prototype_momentum", "confident_negative"):
            check_share(owner, name, getattr(self, name), closed=True)
        if not is_number(self.alignment) or not 0 <= self.alignment < float("inf"):
            raise bad_argument(owner, "alignment", "a finite number ≥ 0", self.alignment)
        check_count(owner, "hold", self.hold, low=0)
        check_count(owner, "every", self.every)
        check_known(owner, "labels", [self.labels], (PROTOTYPES, *labellers()))


def momentum_train(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    config: MomentumConfig | None = None,
    *,
    device: str | torch.device | None = None,
) -> FineTuned:
    r"""Train a copy of the encoder together with a linear layer, on soft labels that move as it learns.

        min_θ  mean_i CE(σ(f_θ(t(x_i))), p̃_i)  +  λ mean_i ℓ_i(q_θ(t'(x_i)), k_θ̄(t''(x_i)))

    where t is the weak view and t', t'' two strong ones, f the logit, k a projection of the embedding by the target
    network, whose weights θ̄ are a running average of θ, q what the learning network predicts of it, and ℓ the
    non-contrastive loss (`pucl.losses.non_contrastive`) among the rows of a batch, whose class is that of their label.
    Labels move as

        p̃_i ← μ p̃_i + (1 − μ) e_i

    where e_i is 1 if the prototype of the positives is nearer to k_i than that of the negatives. A prototype is a
    running average of the k of its class. With a labeller, e_i is the probability it gives, once in several epochs. A
    row that the target network is sure is negative counts as such in this step (p̃ stays as it is). Labelled positives
    stay positive. No π is used, but by a labeller, which is given that of `pseudo`.

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows, whose probabilities the labels start from.
        encoder: raw rows → embeddings; it stays as it is.
        config: how to train.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    config = config or MomentumConfig()
    rows = TuningRows.of(OWNER, x, s, pseudo, device)
    if config.labels != PROTOTYPES:
        check_share(OWNER, "pseudo.prior", pseudo.prior)
    with own_draws(config, rows.x.device):
        kept = _OnMovingLabels(start(rows, encoder), rows, config).run()
    return kept.folded().eval().requires_grad_(False)


class _Projected(nn.Module):
    """A network with a projection of its embeddings: what the target network is a running average of."""

    def __init__(self, network: Normed, dim: int) -> None:
        super().__init__()
        self.network, self.projection = network, projection_head(dim, hidden=WIDTH, out=DIM)


class _OnMovingLabels(Steps):
    """Steps on labels that move."""

    config: MomentumConfig

    def __init__(self, network: Normed, rows: TuningRows, config: MomentumConfig) -> None:
        device = rows.x.device
        online = _Projected(network, network.layer.in_features).to(device)
        self.projection, self.predictor = online.projection, projection_head(DIM, hidden=WIDTH, out=DIM).to(device)
        super().__init__(network, rows, config, n_rows=len(rows.x), more=(self.projection, self.predictor))
        self.strong = view_of(config.strong_view, rows.x, mild=False)
        following = WeightAverage(online, config.momentum)
        self.target = following.network
        self.averages.append(following)
        self.free = rows.pseudo.unlabelled(rows.labelled)
        self.label = first_labels(rows.labelled, rows.pseudo)
        self.moved = self.zeros()  # 1 − μ in this epoch
        self.prototypes = self._first_prototypes()

    def views(self) -> list[View]:
        return [self.view, self.strong]

    def begin(self, epoch: int) -> None:
        config = self.config
        moves = epoch >= config.hold
        if config.labels == PROTOTYPES:
            self.moved.fill_(1 - config.label_momentum if moves else 0.0)
        elif moves and epoch and (epoch - config.hold) % config.every == 0:
            z = embed(self.target.network.encoder, self.rows.x)
            pseudo = pseudo_label(
                z, self.rows.labelled, method=config.labels, prior=self.rows.pseudo.prior,
                negatives=self.rows.pseudo.negative, seed=config.seed,
            )  # fmt: skip
            share = 1 - config.label_momentum**config.every
            self.label.copy_(moved_labels(self.label, pseudo.probability, share, self.free))

    def loss(self, members: Tensor) -> Tensor:
        x, network, config = self.batch(members), self.network, self.config
        weak, one, other = self.view(x, self.generator), self.strong(x, self.generator), self.strong(x, self.generator)
        k, probability = self._seen_by_target(other)
        free, label = self.free[members], self.label[members]
        goal = targets_of_step(label, probability, free, config.confident_negative)
        classes, weight = goal > 0.5, torch.ones_like(goal)
        self._move(members, k, label, free)
        if config.mixup:
            weak, goal, weight = mixed(weak, goal, weight, self.kept)
        with self.autocast():
            z, of_strong = network.encoder(torch.cat([weak, one])).tensor_split(2)
            q = self.predictor(self.projection(of_strong))
        loss = cross_entropy(network.score(z), goal, weight)
        return loss + config.alignment * non_contrastive(q.float(), k, classes).mean()

    @torch.no_grad()
    def _seen_by_target(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised projections and probabilities of a view by the target network."""
        with self.autocast():
            z = self.target.network.encoder(x)
            k = self.target.projection(z)
        return F.normalize(k.float(), dim=1), torch.sigmoid(self.target.network.score(z).float())

    @torch.no_grad()
    def _move(self, members: Tensor, k: Tensor, label: Tensor, free: Tensor) -> None:
        """Prototypes, and labels of a batch, by one step."""
        momentum = self.config.prototype_momentum
        self.prototypes.copy_(followed_prototypes(self.prototypes, k, label > 0.5, momentum))
        towards = nearest_is_positive(k, self.prototypes)
        self.label.index_copy_(0, members, moved_labels(label, towards, self.moved, free))

    @torch.no_grad()
    def _first_prototypes(self) -> Tensor:
        z = embed(self.network.encoder, self.rows.x, normalise=False).to(self.device)
        k, nothing = F.normalize(self.target.projection(z), dim=1), self.zeros(2, DIM)
        return followed_prototypes(nothing, k, self.label > 0.5, 0.0)
