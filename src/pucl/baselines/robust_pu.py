"""Robust-PU (Zhu et al. 2023): U as negative, each row weighted by how easily it passes for one, easy ones first."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.averaging import Best
from pucl.baselines.shared.loop import Batch, Learner, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.ramps import linear_ramp
from pucl.baselines.shared.settings import Settings
from pucl.errors import check_count, check_positive, check_share
from pucl.registry import register
from pucl.risks.nnpu import nnpu


@dataclass(frozen=True, kw_only=True)
class RobustPUSettings(Settings):
    """TODO."""

    epochs: int = 20
    first_epochs: int = 20
    first_rate: float = 1e-3
    first_decay: float = 0.0
    first_batch: int = 256
    first_steps: int | None = None
    inner: int = 2
    growing: int = 5
    lowest: tuple[float, float] = (0.1, 0.11)
    highest: tuple[float, float] = (1.0, 1.0)
    temperature: tuple[float, float] = (1.0, 1.3)
    held_out: float = 0.2


DEFAULT = RobustPUSettings()


@register("baselines", reference="Zhu et al. 2023", needs_prior=True)
def robust_pu(problem: Problem, settings: RobustPUSettings = DEFAULT) -> nn.Module:
    """TODO."""
    seen, held = problem.hold_out(settings.held_out)
    network, weight = problem.network(), torch.ones(len(seen.x), device=problem.device)
    _pretrain(seen, held, settings, network)
    learner, best = Learner(network, settings), Best(network)

    def update(batch: Batch) -> Tensor:
        logits, target = network(batch.x), batch.labelled.float()
        loss = F.binary_cross_entropy_with_logits(logits, target, weight[batch.rows])
        learner.descend(loss)
        return loss.detach()

    def begin(epoch: int) -> None:
        if epoch % settings.inner:
            return
        best.look(zero_one(held, network))
        limits = thresholds(settings, epoch // settings.inner)
        weight.copy_(weights(seen.scores(network), seen.labelled, limits, settings.temperature))
        _forget(learner)

    train(seen, settings, update, learner, phase="weighted", before_epoch=begin)
    best.look(zero_one(held, network))
    best.restore()
    return network


def _pretrain(seen: Problem, held: Problem, settings: RobustPUSettings, network: Network) -> None:
    how = replace(
        settings,
        epochs=settings.first_epochs,
        steps=settings.first_steps,
        batch_size=settings.first_batch,
        learning_rate=settings.first_rate,
        weight_decay=settings.first_decay,
    )
    learner, best = Learner(network, how), Best(network)

    def update(batch: Batch) -> Tensor:
        loss = nnpu(network(batch.x), batch.labelled, prior=seen.share)
        learner.descend(loss)
        return loss.detach()

    def look(epoch: int) -> None:
        if epoch:
            best.look(zero_one(held, network))

    train(seen, how, update, learner, phase="nnpu", before_epoch=look)
    look(how.epochs)
    best.restore()


def thresholds(settings: RobustPUSettings, episode: int) -> tuple[float, float]:
    """λ of P and of U in an episode, counted from 0."""
    low, high, length = settings.lowest, settings.highest, settings.growing
    first, second = (linear_ramp(episode, length, first=a, last=b) for a, b in zip(low, high, strict=True))
    return first, second


def weights(logits: Tensor, labelled: Tensor, limits: tuple[float, float], temperature: tuple[float, float]) -> Tensor:
    """v = exp(−h / λ²), h = log(1 + exp(∓ f / T)), minus for P, plus for U; (n,)."""
    of_p, of_u = (F.softplus(sign * logits / t) for sign, t in zip((-1, 1), temperature, strict=True))
    return torch.where(labelled, (-of_p / limits[0] ** 2).exp(), (-of_u / limits[1] ** 2).exp())


def zero_one(held: Problem, network: Network) -> float:
    """The PU estimate of the error, 2 π FNR_P + FPR_U − π, of held-out rows."""
    missed = (held.scores(network, held.positives) <= 0).float().mean()
    taken = (held.scores(network, held.unlabelled) > 0).float().mean()
    return float(2 * held.share * missed + taken - held.share)


def _forget(learner: Learner) -> None:
    """A fresh optimiser in the old one's place."""
    for state in learner.optimiser.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
