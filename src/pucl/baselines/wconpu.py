"""WConPU (Yuan et al. 2025): contrast with weighted hard negatives, prototypes, and the prior in the labels."""

from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.contrast import Contrasted, ContrastSettings, Prototypes, Queue, contrast
from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Presets
from pucl.errors import check_share
from pucl.registry import register

NEAREST = 1e-3  # the least dissimilarity, so that no weight is above 1,000


@dataclass(frozen=True, kw_only=True)
class WConPUSettings(ContrastSettings):
    """Those of WConPU.

    Attributes:
        contrast: γ₀, weight of the contrastive loss.
        shares: γ₁, weight of the loss of the shares of positives.
        memory: α, how much of a pseudo-label outlasts a step.
        threshold_decay: λ of the thresholds.
        hard: share of the queue, its most similar part, in which hard negatives are sought.
    """

    prototype_decay: float = 0.999
    guard: float = 0.05
    contrast: float = 1.0
    shares: float = 1.0
    memory: float = 0.9
    threshold_decay: float = 0.999
    hard: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("memory", "threshold_decay", "hard"):
            check_share(type(self).__name__, name, getattr(self, name), closed=True)


_SGD = WConPUSettings(optimiser="sgd", learning_rate=0.01, weight_decay=1e-3, decay="cosine")
DEFAULT = replace(
    _SGD, epochs=16, batch_size=128, queue=512, key_decay=0.99, prototype_decay=0.99, threshold_decay=0.99
)
_CIFAR = replace(_SGD, encoder="cnn13", epochs=800)
PRESETS: Presets = MappingProxyType(
    {
        "mnist": replace(_CIFAR, encoder="mlp"),
        "fmnist": replace(_CIFAR, encoder="lenet5"),
        "cifar": _CIFAR,
        "cifar1": replace(_CIFAR, encoder="cnn7"),
        "cifar2": replace(_CIFAR, encoder="cnn7"),
        "svhn": _CIFAR,
        "stl": replace(_CIFAR, encoder="resnet18"),
        "alzheimer": replace(_CIFAR, encoder="resnet50", batch_size=8, queue=4096),
    }
)


@register("baselines", reference="Yuan et al. 2025", needs_prior=True)
def wconpu(problem: PUProblem, settings: WConPUSettings = DEFAULT) -> nn.Module:
    """PiCO with soft labels that begin at π, peers that are sure, and hard negatives that weigh more.

        min  mean_i CE(σ(f(x_i)), y̌_i) + γ₀ L + γ₁ (2 π |mean_P σ(f) − 1| + |mean_U σ(f) − π|)
        L = − mean_i mean_{j ∈ A_i} log( e^{q_i · z_j / τ} / Σ_{l ≠ i} ω_il e^{q_i · z_l / τ} )
        y̌_i ← α y̌_i + (1 − α) 1[q_i · μ₁ > q_i · μ₀]  on U,  1 on P

    where q, z and μ are as in `pico`, and y̌ = π at first on U; A_i are the key of i and all of z that is taken for the
    class of i with a probability above the threshold of that class, see `Thresholds`, or is labelled; ω is 1 / d for
    hard negatives and 1 otherwise, where d = ‖q − z‖² / 4 and z is hard for q when it lies in the queue, among the
    nearest quarter of it, and nearer to the other class's prototype.

    Fidelity: second-hand (a method card of the paper in a public PU toolbox; the authors have published no code).

    Differs:
        - The authors choose γ₀ and γ₁ from 0.001, 0.01, 0.1 and 1 on validation rows with *true* labels. Both are 1
          here, the nearest of the four to the weights in the methods the two losses come from (PiCO 0.5, Dist-PU 1).
        - `guard` is new, as in `pico`: for π above 1/2 all of U is taken for positive at first, and no row is left to
          draw the prototype of the negatives. The border moves only when less than 5 % of a batch is taken for one
          class.
        - Not stated, so taken from PiCO: weight decay 1e-3, a first epoch in which every row has only its own key as a
          peer and labels stay, the order of the updates, and the views, which differ from theirs as PiCO's do.
        - Thresholds begin at 1/2; d is at least 0.001.

    Presets: CIFAR and SVHN 13-layer CNN, STL ResNet-18, Alzheimer ResNet-50 with batches of 8 and a queue of 4,096; SGD
    0.01 with cosine decay, batches of 256, 800 epochs, queue of 8,192 keys; CIFAR-I and II, F-MNIST and MNIST with the
    network of the table.
    """
    share = problem.share
    no = torch.zeros((), dtype=torch.bool, device=problem.device)
    parts, limits = Contrasted(problem, settings, sure=no), Thresholds(settings.threshold_decay, problem.device)
    learner = Learner(parts.query, settings)
    belief = torch.where(problem.labelled, 1.0, share)

    def update(batch: PUBatch) -> Tensor:
        seen = parts.look(batch)
        sure = limits.sure(seen.logits, seen.positive) | batch.labelled
        with torch.no_grad():
            now = torch.lerp(seen.nearest.float(), belief[batch.rows], settings.memory)
            now = torch.where(parts.started, now, belief[batch.rows])
            belief.index_copy_(0, batch.rows, now)
        trusted = torch.cat([sure, sure, parts.queue["sure"]])
        peers = parts.own(seen) | (seen.others & trusted & (seen.positive[:, None] == seen.classes))
        load = hard_load(seen.queries, parts.queue, parts.prototypes, settings.hard)
        load = F.pad(load, (2 * len(sure), 0))
        apart = contrast(seen.queries, seen.pool, peers, seen.others, settings.temperature, load)
        loss = F.binary_cross_entropy_with_logits(seen.logits, now)
        loss = loss + settings.contrast * torch.where(parts.started, apart, parts.instance_loss(seen))
        loss = loss + settings.shares * share_loss(seen.logits, batch.labelled, share)
        parts.remember(seen, sure=sure)
        learner.descend(loss)
        return loss.detach()

    train(problem, settings, update, learner, before_epoch=parts.begin)
    return parts.query.network


class Thresholds:
    """How sure the classifier must be, of each class, to be believed (Wang et al. 2023, FreeMatch).

        τ ← λ τ + (1 − λ) mean_i max_c p_i(c),    p̃(c) ← λ p̃(c) + (1 − λ) mean_i p_i(c),    τ(c) = p̃(c) / max p̃ · τ

    where p_i(c) is the probability of class c of row i of the batch.
    """

    def __init__(self, decay: float, device: torch.device) -> None:
        self.decay = decay
        self.level, self.share = torch.full((), 0.5, device=device), torch.full((), 0.5, device=device)

    @torch.no_grad()
    def sure(self, logits: Tensor, positive: Tensor) -> Tensor:
        """Move the thresholds, and say which rows are above that of the class they are taken for, (n,) bool."""
        p = torch.sigmoid(logits)
        self.level.lerp_(torch.maximum(p, 1 - p).mean(), 1 - self.decay)
        self.share.lerp_(p.mean(), 1 - self.decay)
        mass = torch.where(positive, self.share, 1 - self.share) / torch.maximum(self.share, 1 - self.share)
        return torch.where(positive, p, 1 - p) >= mass * self.level


@torch.no_grad()
def hard_load(queries: Tensor, queue: Queue, prototypes: Prototypes, part: float) -> Tensor:
    """The log ω of the rows of the queue for every query, (n, queue): −log d for hard negatives, otherwise 0."""
    apart = ((1 - queries @ queue["z"].T) / 2).clamp(min=NEAREST)  # ‖q − z‖² / 4 of unit vectors
    ordered = torch.where(queue.filled, apart, torch.inf).sort(dim=1).values
    last = (part * queue.filled.sum()).long().clamp(min=1) - 1
    near = queue.filled & (apart <= ordered.index_select(1, last[None]))
    unlike = prototypes.nearest(queries)[:, None] != prototypes.nearest(queue["z"])
    return torch.where(near & unlike, -apart.log(), 0.0)


def share_loss(logits: Tensor, labelled: Tensor, share: float) -> Tensor:
    """2 π |mean_P p − 1| + |mean_U p − π|; a mean over no rows costs nothing."""
    p = torch.sigmoid(logits)
    of_p = ((1 - p) * labelled).sum() / labelled.sum().clamp(min=1)
    of_u = ((p - share) * ~labelled).sum() / (~labelled).sum().clamp(min=1)
    return 2 * share * of_p + of_u.abs()
