"""PiCO (Wang et al. 2022): partial labels resolved by contrast and prototypes; P can be 1 only, U both 0 and 1."""

from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.contrast import Contrasted, ContrastSettings, contrast
from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.schedules import linear_ramp
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Presets
from pucl.errors import check_share
from pucl.registry import register


@dataclass(frozen=True, kw_only=True)
class PiCOSettings(ContrastSettings):
    """Those of PiCO.

    Attributes:
        contrast: weight of the contrastive loss.
        memory: φ, how much of a pseudo-label outlasts a step, at the start and at the end.
    """

    guard: float = 0.3
    contrast: float = 0.5
    memory: tuple[float, float] = (0.95, 0.8)

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.memory:
            check_share(type(self).__name__, "memory", value, closed=True)


_SGD = PiCOSettings(optimiser="sgd", learning_rate=0.01, weight_decay=1e-3, decay="cosine", final=1e-3)
DEFAULT = replace(_SGD, epochs=20, batch_size=128, queue=512, key_decay=0.99)
_CIFAR = replace(_SGD, encoder="resnet18", epochs=800)
PRESETS: Presets = MappingProxyType(
    {
        "mnist": replace(_CIFAR, encoder="mlp"),
        "fmnist": replace(_CIFAR, encoder="lenet5"),
        "cifar": _CIFAR,
        "svhn": _CIFAR,
        "stl": _CIFAR,
        "alzheimer": replace(_CIFAR, encoder="resnet50", batch_size=64, queue=4096),
    }
)


@register("baselines", reference="Wang et al. 2022")
def pico(problem: PUProblem, settings: PiCOSettings = DEFAULT) -> nn.Module:
    """A classifier with soft pseudo-labels that prototypes correct, and contrast within the classes.

        min  mean_i CE(σ(f(x_i)), y̌_i) + ½ L
        L = − mean_i mean_{j ∈ A_i} log( e^{q_i · z_j / τ} / Σ_{l ≠ i} e^{q_i · z_l / τ} )
        y̌_i ← φ y̌_i + (1 − φ) 1[q_i · μ₁ > q_i · μ₀],    μ_c ← m μ_c + (1 − m) q_i for the rows i taken for class c

    where q are projections of one view of the batch, z those of the batch, of another view by the key network, and a
    queue of past keys; A_i are those among z that the classifier takes for the class of i (in the first epoch only the
    other view of i), and μ are scaled to length 1. Rows of P have the candidate label 1 alone: y̌ = 1 for good. Rows of
    U have both, and begin with y̌ = 1/2. No prior is needed.

    Fidelity: author code (hbzju/PiCO), for partial labels; how it is applied to PU data is not published.

    Differs:
        - `guard` is new. Candidate labels {0, 1} for all of U hold no evidence of negatives; with y̌ = 1 on P and 1/2
          on U the classifier soon takes everything for positive, and no row is left to draw μ₀. When it takes less than
          30 % of the unlabelled rows of a batch for one of the classes, the border for pseudo-labels is the mean of
          their logits instead of 0. A guard of 0 is the original; use a smaller one if one class is rare in U.
        - The stronger view is SimCLR's with its full colour distortion and blur; theirs is RandAugment. Rows that are
          not images, and tiny ones, have the same view for both.
        - The queue is empty at first; theirs holds random vectors.
        - They report the epoch with the best *test* accuracy; here the last counts.
        - The learning rate falls by the step, not by the epoch.

    Presets: CIFAR ResNet-18, SGD 0.01 with weight decay 1e-3 and cosine decay, batches of 256, 800 epochs, queue of
    8,192 keys; SVHN and STL the same, the others with the network of the table, Alzheimer with batches of 64 and the
    queue of 4,096 they have for CUB.
    """
    parts = Contrasted(problem, settings)
    learner = Learner(parts.query, settings)
    belief = torch.where(problem.labelled, 1.0, 0.5)
    memory = torch.ones((), device=problem.device)

    def update(batch: PUBatch) -> Tensor:
        seen = parts.look(batch)
        with torch.no_grad():
            now = torch.lerp(seen.nearest.float(), belief[batch.rows], memory)
            belief.index_copy_(0, batch.rows, now)
        alike = seen.positive[:, None] == seen.classes
        apart = contrast(seen.queries, seen.pool, alike & seen.others, seen.others, settings.temperature)
        loss = F.binary_cross_entropy_with_logits(seen.logits, now)
        loss = loss + settings.contrast * torch.where(parts.started, apart, parts.instance_loss(seen))
        parts.remember(seen)
        learner.descend(loss)
        return loss.detach()

    def begin(epoch: int) -> None:
        parts.begin(epoch)
        first, last = settings.memory
        phi = linear_ramp(epoch - settings.start, settings.epochs, first=first, last=last)
        memory.fill_(phi if epoch >= settings.start else 1.0)

    train(problem, settings, update, learner, before_epoch=begin)
    return parts.query.network
