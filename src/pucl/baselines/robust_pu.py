"""Robust-PU (Zhu et al. 2023): U as negative, each row weighted by how easily it passes for one, easy ones first."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.best_epoch import BestEpoch, train_best
from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.schedules import linear_ramp
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings, with_networks
from pucl.errors import check_count, check_positive, check_share
from pucl.registry import register
from pucl.risks.nnpu import nnpu
from pucl.risks.upu import upu


@dataclass(frozen=True, kw_only=True)
class RobustPUSettings(Settings):
    """Those of Robust-PU; epochs, steps, batches and learning rate are those of its second part.

    Attributes:
        first_epochs: of the first part, nnPU.
        first_steps: of an epoch of it, as `steps`.
        first_batch: rows of a step of it.
        first_rate: its learning rate.
        first_decay: its weight decay.
        inner: epochs of an episode, for which the weights stay; the optimiser begins anew with each.
        growing: episodes in which λ grows.
        lowest: λ of P and of U in the first episode.
        highest: λ of P and of U in the end.
        temperature: T of P and of U.
        held_out: share of P and of U that is not trained on but says which epoch and which episode are the best.
    """

    epochs: int = 20
    first_epochs: int = 20
    first_steps: int | None = None
    first_batch: int = 256
    first_rate: float = 1e-3
    first_decay: float = 0.0
    inner: int = 2
    growing: int = 5
    lowest: tuple[float, float] = (0.1, 0.11)
    highest: tuple[float, float] = (1.0, 1.0)
    temperature: tuple[float, float] = (1.0, 1.3)
    held_out: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("inner", "growing"):
            check_count(owner, name, getattr(self, name))
        for name in ("lowest", "highest", "temperature"):
            for value in getattr(self, name):
                check_positive(owner, name, value)
        check_share(owner, "held_out", self.held_out)

    @property
    def first(self) -> "RobustPUSettings":
        """Those of the first part."""
        return replace(
            self,
            epochs=self.first_epochs,
            steps=self.first_steps,
            batch_size=self.first_batch,
            learning_rate=self.first_rate,
            weight_decay=self.first_decay,
        )


DEFAULT = RobustPUSettings()
_MNIST = RobustPUSettings(
    epochs=200,
    steps=94,
    batch_size=64,
    learning_rate=1e-2,
    first_epochs=100,
    first_steps=47,
    first_batch=128,
    first_decay=1e-4,
    inner=20,
)
_CIFAR = RobustPUSettings(
    epochs=100,
    steps=94,
    batch_size=64,
    learning_rate=1e-4,
    first_epochs=400,
    first_steps=94,
    first_batch=64,
    inner=1,
    growing=10,
    lowest=(0.1, 0.1),
    highest=(2.0, 2.0),
    temperature=(1.0, 1.0),
)
PRESETS = with_networks(_CIFAR, mnist=_MNIST, fmnist=_MNIST)


@register("baselines", reference="Zhu et al. 2023", needs_prior=True)
def robust_pu(problem: PUProblem, settings: RobustPUSettings = DEFAULT) -> nn.Module:
    """First nnPU; then P against U with weights that trust easy rows first and harder ones as λ grows.

        min_f  mean_i v_i CE(σ(f(x_i)), s_i),    v = exp(−h / λ²),    h = log(1 + exp(∓ f(x) / T))

    where the sign is minus for labelled and plus for unlabelled rows, the hardness h and with it the weight v are those
    of the classifier before the episode, and λ grows in a straight line over the first episodes; T and λ differ for P
    and U. Rows of U that look positive are hard to take for negative and hardly count.

    Fidelity: author code (woriazzc/Robust-PU).

    Differs:
        - They choose the epoch of nnPU and the episode by the accuracy on rows with *true* labels, and stop five
          episodes after the best. Here the lowest PU estimate of the error, 2 π FNR_P + FPR_U − π, on held-out P and U
          counts, out of a fixed number of episodes.
        - Only their default weights and schedule (Welsch, linear), with the logistic hardness; no moving average of
          weights, which is off by default.
        - The networks of the tables; for MNIST they have one hidden layer of 100 units.

    Presets: MNIST as their README has it: nnPU with Adam 1e-3, weight decay 1e-4, 100 epochs of batches of 128, then
    Adam 1e-2, batches of 64, 20 epochs an episode, here ten episodes. There is none for CIFAR: the default arguments of
    their code. Epochs have as many steps as with their 6,000 rows. F-MNIST as MNIST, the others as CIFAR.
    """
    seen, held = problem.hold_out(settings.held_out)
    network = problem.network()
    _begin(seen, held, settings.first, network)
    learner, best = Learner(network, settings), BestEpoch(network)
    weight = torch.ones(len(seen.x), device=problem.device)

    def update(batch: PUBatch) -> Tensor:
        loss = F.binary_cross_entropy_with_logits(network(batch.x), batch.labelled.float(), weight[batch.rows])
        learner.descend(loss)
        return loss.detach()

    def episode(epoch: int) -> None:
        if epoch % settings.inner == 0:
            if epoch:
                best.look(pu_error(held, network))
            scores, limits = seen.scores(network), thresholds(settings, epoch // settings.inner)
            weight.copy_(weights(scores, seen.labelled, limits, settings.temperature))
            learner.forget()

    train(seen, settings, update, learner, phase="weighted", before_epoch=episode)
    best.look(pu_error(held, network))
    best.restore()
    return network


def thresholds(settings: RobustPUSettings, episode: int) -> tuple[float, float]:
    """λ of P and of U in an episode, counted from 0."""
    ends = zip(settings.lowest, settings.highest, strict=True)
    of_p, of_u = (linear_ramp(episode, settings.growing, first=first, last=last) for first, last in ends)
    return of_p, of_u


def weights(logits: Tensor, labelled: Tensor, limits: tuple[float, float], temperature: tuple[float, float]) -> Tensor:
    """Weights v = exp(−h / λ²), h = log(1 + exp(∓ f / T)), minus for P and plus for U; (n,)."""
    of_p, of_u = F.softplus(-logits / temperature[0]), F.softplus(logits / temperature[1])
    return torch.where(labelled, (-of_p / limits[0] ** 2).exp(), (-of_u / limits[1] ** 2).exp())


def pu_error(held: PUProblem, network: Network) -> float:
    """The PU estimate of the error, 2 π FNR_P + FPR_U − π."""
    return float(_error(held.scores(network), held.labelled, held.share))


def _begin(seen: PUProblem, held: PUProblem, settings: RobustPUSettings, network: Network) -> None:
    """The first part: nnPU, the epoch with the lowest PU error."""
    learner = Learner(network, settings)

    def update(batch: PUBatch) -> Tensor:
        loss = nnpu(network(batch.x), batch.labelled, prior=seen.share)
        learner.descend(loss)
        return loss.detach()

    def criterion(logits: Tensor, labelled: Tensor) -> Tensor:
        return _error(logits, labelled, held.share)

    train_best(seen, settings, update, learner, watched=network, held=held, criterion=criterion, phase="nnpu")


def _error(logits: Tensor, labelled: Tensor, prior: float) -> Tensor:
    """The PU estimate of the error: the unbiased risk of the zero-one loss."""
    return upu(logits, labelled, prior=prior, loss="zero-one")
