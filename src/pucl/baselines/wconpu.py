"""WConPU (Yuan et al. 2025): contrast with weighted hard negatives, prototypes, and the prior in the labels."""

from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.contrast import ContrastSettings, Pair, Pool, Prototypes, contrast
from pucl.baselines.shared.loop import Batch, Learner, train
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.queue import Queue
from pucl.registry import register

NEAREST = 1e-3  # the least dissimilarity, so that no weight is above 1,000


@dataclass(frozen=True, kw_only=True)
class WConPUSettings(ContrastSettings):
    """Those of WConPU.

    Attributes:
        contrast: γ₀, weight of the contrastive loss.
        shares: γ₁, weight of the loss of the shares of positives.
        memory: α, how much of a pseudo-label outlasts a step.
        threshold_decay: of the thresholds.
        hard: share of the queue, the most similar part, that hard negatives are sought in.
    """

    prototype_decay: float = 0.999
    contrast: float = 1.0
    shares: float = 1.0
    memory: float = 0.9
    threshold_decay: float = 0.999
    hard: float = 0.25


DEFAULT = WConPUSettings(
    epochs=20,
    queue=1024,
    key_decay=0.99,
    optimiser="sgd",
    learning_rate=0.01,
    weight_decay=1e-3,
    decay="cosine",
    prototype_decay=0.99,
    threshold_decay=0.99,
)


@register("baselines", reference="Yuan et al. 2025", needs_prior=True)
def wconpu(problem: Problem, settings: WConPUSettings = DEFAULT) -> nn.Module:
    """TODO."""
    device, share = problem.device, problem.share
    pair, prototypes = Pair(problem, settings), Prototypes(settings.dim, settings.prototype_decay, device)
    learner = Learner(pair.query, settings)
    no = torch.zeros((), dtype=torch.bool, device=device)
    queue = Queue(settings.queue, z=torch.zeros(settings.dim, device=device), positive=no, sure=no)
    belief = torch.where(problem.labelled, 1.0, share)
    limits = Thresholds(settings.threshold_decay, device)
    started = torch.zeros((), dtype=torch.bool, device=device)

    def update(batch: Batch) -> Tensor:
        logits, queries, keys = pair(batch.x)
        positive, sure = limits.take(logits.detach(), batch.labelled)
        nearest = prototypes.nearest(queries) | batch.labelled
        with torch.no_grad():
            now = torch.lerp(nearest.float(), belief[batch.rows], settings.memory)
            now = torch.where(started, now, belief[batch.rows])
            belief.index_copy_(0, batch.rows, now)
        pool = Pool.of(queries, keys, queue)
        classes, trusted = (
            torch.cat([own, own, queue[name]]) for own, name in ((positive, "positive"), (sure, "sure"))
        )
        peers = pool.own | (pool.others & trusted & (positive[:, None] == classes))
        load = hard_load(queries, pool, prototypes, settings.hard)
        peers = torch.where(started, peers, pool.own)
        among = torch.where(started, pool.others, pool.own | (pool.queued & pool.others))
        apart = contrast(queries, pool.z, peers, among, settings.temperature, load * started)
        prototypes.pull(queries, positive)
        queue.push(z=keys, positive=positive, sure=sure)
        loss = F.binary_cross_entropy_with_logits(logits, now)
        loss = loss + settings.contrast * apart + settings.shares * share_loss(logits, batch.labelled, share)
        learner.descend(loss)
        return loss.detach()

    train(
        problem, settings, update, learner, before_epoch=lambda epoch: started.fill_(epoch >= settings.start) and None
    )
    return pair.query.network


class Thresholds:
    """Adaptive."""

    def __init__(self, decay: float, device: torch.device) -> None:
        self.decay = decay
        self.level = torch.full((), 0.5, device=device)
        self.share = torch.full((), 0.5, device=device)

    @torch.no_grad()
    def take(self, logits: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        """TODO."""
        p = torch.sigmoid(logits)
        top = torch.maximum(p, 1 - p)
        self.level.lerp_(top.mean(), 1 - self.decay)
        self.share.lerp_(p.mean(), 1 - self.decay)
        positive = (logits > 0) | labelled
        mass = torch.where(positive, self.share, 1 - self.share) / torch.maximum(self.share, 1 - self.share)
        return positive, (top >= mass * self.level) | labelled


@torch.no_grad()
def hard_load(queries: Tensor, pool: Pool, prototypes: Prototypes, part: float) -> Tensor:
    """log ω."""
    apart = ((1 - queries @ pool.z.T) / 2).clamp(min=NEAREST)
    there = pool.queued & pool.others
    ordered = torch.where(there, apart, torch.inf).sort(dim=1).values
    last = (part * there.sum(dim=1)).long().clamp(min=1) - 1
    limit = ordered.gather(1, last[:, None])
    unlike = prototypes.nearest(queries)[:, None] != prototypes.nearest(pool.z)
    return torch.where(there & unlike & (apart <= limit), -apart.log(), 0.0)


def share_loss(logits: Tensor, labelled: Tensor, share: float) -> Tensor:
    """2 π |mean_P p − 1| + |mean_U p − π|."""
    p = torch.sigmoid(logits)
    of_p, of_u = ((p * members).sum() / members.sum().clamp(min=1) for members in (labelled, ~labelled))
    return 2 * share * (1 - of_p) * labelled.any() + (of_u - share).abs()
