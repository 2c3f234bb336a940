"""PiCO (Wang et al. 2022): partial labels told apart by contrast and prototypes; P may be 1 only, U may be 0 or 1."""

from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.contrast import ContrastSettings, Pair, Pool, Prototypes, contrast
from pucl.baselines.shared.loop import Batch, Learner, train
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.queue import Queue
from pucl.baselines.shared.ramps import linear_ramp
from pucl.errors import check_share
from pucl.registry import register


@dataclass(frozen=True, kw_only=True)
class PiCOSettings(ContrastSettings):
    """Those of PiCO.

    Attributes:
        contrast: weight of the contrastive loss.
        memory: φ, how much of a pseudo-label outlasts a step, at the start and at the end.
    """

    contrast: float = 0.5
    memory: tuple[float, float] = (0.95, 0.8)
    centred: bool = True


DEFAULT = PiCOSettings(
    epochs=20,
    queue=1024,
    key_decay=0.99,
    optimiser="sgd",
    learning_rate=0.01,
    weight_decay=1e-3,
    decay="cosine",
    final=1e-3,
)


@register("baselines", reference="Wang et al. 2022")
def pico(problem: Problem, settings: PiCOSettings = DEFAULT) -> nn.Module:
    """TODO."""
    pair, queue, prototypes = _state(problem, settings)
    learner = Learner(pair.query, settings)
    belief = torch.where(problem.labelled, 1.0, 0.5)
    started = torch.zeros((), dtype=torch.bool, device=problem.device)
    memory = torch.ones((), device=problem.device)

    def update(batch: Batch) -> Tensor:
        logits, queries, keys = pair(batch.x)
        positive = (logits > _mean(logits, ~batch.labelled) * settings.centred) | batch.labelled
        nearest = prototypes.nearest(queries) | batch.labelled
        prototypes.pull(queries, positive)
        with torch.no_grad():
            now = torch.lerp(nearest.float(), belief[batch.rows], memory)
            belief.index_copy_(0, batch.rows, now)
        pool = Pool.of(queries, keys, queue)
        alike = positive[:, None] == torch.cat([positive, positive, queue["positive"]])
        peers = torch.where(started, alike & pool.others, pool.own)
        among = torch.where(started, pool.others, pool.own | (pool.queued & pool.others))
        apart = contrast(queries, pool.z, peers, among, settings.temperature, torch.zeros_like(logits[:1]))
        queue.push(z=keys, positive=positive)
        loss = F.binary_cross_entropy_with_logits(logits, now) + settings.contrast * apart
        learner.descend(loss)
        return loss.detach()

    def begin(epoch: int) -> None:
        started.fill_(epoch >= settings.start)
        first, last = settings.memory
        memory.fill_(
            linear_ramp(epoch - 1, settings.epochs, first=first, last=last) if epoch >= settings.start else 1.0
        )

    train(problem, settings, update, learner, before_epoch=begin)
    return pair.query.network


def _state(problem: Problem, settings: PiCOSettings) -> tuple[Pair, Queue, Prototypes]:
    blank = torch.zeros(settings.dim, device=problem.device)
    queue = Queue(settings.queue, z=blank, positive=torch.zeros((), dtype=torch.bool, device=problem.device))
    return Pair(problem, settings), queue, Prototypes(settings.dim, settings.prototype_decay, problem.device)


def _mean(values: Tensor, members: Tensor) -> Tensor:
    return (values.detach() * members).sum() / members.sum().clamp(min=1)
