"""MixPUL (Wei et al. 2020): P against random rows of U, mixed, and consistency between mixed rows of U."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.regularisers import beta, mix, permutations
from pucl.baselines.shared.teachers import MeanTeacher
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import P3MIX, Optimiser, StreamSettings, with_networks
from pucl.errors import check_count, check_positive, check_share
from pucl.registry import register
from pucl.training.batches import passes


@dataclass(frozen=True, kw_only=True)
class MixPULSettings(StreamSettings):
    """Those of MixPUL; a step has `labelled_batch` rows of P, as many taken for negative, and `batch_size` rows of U.

    Attributes:
        first_epochs: of the first phase, without U.
        negatives: rows of U taken for negative, as a multiple of the labelled ones,
        negative_share: but no larger share of U than this.
        alpha: of λ ~ Beta(α, α) for rows with labels.
        alpha_unlabelled: the same for rows of U.
        consistency: the weight of the consistency.
        teacher_decay: of the teacher's weights, per step, once it has seen as many as that is worth.
    """

    epochs: int = 8
    optimiser: Optimiser = "sgd"
    nesterov: bool = True
    weight_decay: float = 1e-4
    first_epochs: int = 4
    negatives: float = 15.0
    negative_share: float = 0.4
    alpha: float = 1.0
    alpha_unlabelled: float = 2.0
    consistency: float = 1.0
    teacher_decay: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        check_count(owner, "first_epochs", self.first_epochs)
        for name in ("negatives", "alpha", "alpha_unlabelled"):
            check_positive(owner, name, getattr(self, name))
        check_share(owner, "negative_share", self.negative_share, closed=True)


DEFAULT = MixPULSettings()
_SCRIPT = MixPULSettings(epochs=50, first_epochs=90, learning_rate=1e-5)
_CNN7 = replace(_SCRIPT, optimiser="adam", weight_decay=1e-6, **P3MIX)
PRESETS = with_networks(_SCRIPT, cnn7=_CNN7)


@register("baselines", reference="Wei et al. 2020 (MixPUL)")
def mixpul(problem: PUProblem, settings: MixPULSettings = DEFAULT) -> nn.Module:
    """P against as many rows of U taken for negative in a batch, with consistency between rows of U.

        min_f  mean CE(σ(f(x̃)), t̃) + w mean (σ(f(ũ)) − σ(λ' f'(u₁) + (1 − λ') f'(u₂)))²
        x̃ = λ x₁ + (1 − λ) x₂,    ũ = λ' u₁ + (1 − λ') u₂,    λ ~ Beta(1, 1),    λ' ~ Beta(2, 2)

    where x₁ and x₂ are rows with labels (P: 1, taken for negative: 0), t̃ their labels mixed likewise, u₁ and u₂ rows of
    U, and f' the mean of the weights of f over all steps, later of the recent 1,000. A first phase has the first term
    only, and w = 0 in the first epoch of the second. Rows taken for negative are drawn once, at random; because P and U
    weigh the same, the border f = 0 lies where a row is as likely among the positives as among the negatives.

    Fidelity: author code (one released script, for tables and CIFAR-10).

    Differs:
        - Every batch has as many labelled rows as rows taken for negative; the script repeats P until both are about as
          many and shuffles them once.
        - The paper's margin between P and U is in the script but not in its loss, and left out here. So are its other
          ways to find negatives (naive Bayes, distances, SVM), which the script has turned off.
        - The script's network is a small MLP; the tables name the networks.

    Presets: those of the script: batches of 128 with labels and 128 of U, 90 epochs of the first phase and 50 of the
    second, SGD 1e-5 with Nesterov's momentum 0.9, weight decay 1e-4, 15 times as many negatives as labelled rows but at
    most 40 % of U, teacher 0.999. Its learning rate is that of CIFAR; for tables the authors changed it by hand.
    The 7-layer CNN of CIFAR-I and II, and of STL, learns nothing with that, and memorises its labelled rows in as many
    steps with Adam: there optimiser and batches are those of P3Mix's authors for this network, epochs of 20 steps of
    512 rows each, Adam 5e-5 (0.5, 0.99), halved at epochs 20, 40, …, 100, weight decay 1e-6.
    """
    steps = _MixPULSteps(problem, settings)
    labelled_rows = problem.part(torch.cat([problem.positives, steps.negatives]))
    first = replace(settings, epochs=settings.first_epochs, batch_size=steps.n)
    train(labelled_rows, first, steps.first, steps.learner, phase="first", draws=steps.first_draws)
    train(
        problem, settings, steps.second, steps.learner,
        phase="second", draws=steps.second_draws, before_epoch=steps.set_consistency,
    )  # fmt: skip
    return steps.network


class _MixPULSteps:
    """The steps of both phases and what they draw; a batch with labels is n rows of P and n taken for negative."""

    def __init__(self, problem: PUProblem, settings: MixPULSettings) -> None:
        self.problem, self.settings = problem, settings
        self.network = problem.network()
        self.learner = Learner(self.network, settings)
        self.teacher = MeanTeacher(problem.network(1), self.network, settings.teacher_decay, seen=1)
        self.negatives = draw_negatives(problem, settings)
        self.n = settings.labelled_batch or 0
        self.target = torch.cat([torch.ones(self.n), torch.zeros(self.n)]).to(problem.device)
        self.consistency = torch.zeros((), device=problem.device)

    def first(self, batch: PUBatch) -> Tensor:
        """A step on rows with labels only."""
        loss = self._labelled_loss(batch.x, *batch.draws)
        self.learner.descend(loss)
        return loss.detach()

    def second(self, batch: PUBatch) -> Tensor:
        """A step on rows with labels and on rows of U; the teacher follows."""
        weight, order, weight_u, order_u, chosen = batch.draws
        x = torch.cat([batch.positive, self.problem.x.index_select(0, self.negatives[chosen])])
        u = batch.unlabelled
        logits = self.network(mix(u, u.index_select(0, order_u), weight_u))
        disagreement = inconsistency(logits, self.teacher(u), order_u, weight_u)
        loss = self._labelled_loss(x, weight, order) + self.consistency * disagreement
        self.learner.descend(loss)
        self.teacher.update()
        return loss.detach()

    def first_draws(self, generator: Generator, steps: int) -> tuple[Tensor, ...]:
        """λ and the partners of the rows with labels."""
        return beta(self.settings.alpha, steps, generator), permutations(2 * self.n, steps, generator)

    def second_draws(self, generator: Generator, steps: int) -> tuple[Tensor, ...]:
        """The same, λ' and the partners of the rows of U, and the rows taken for negative."""
        unlabelled = (
            beta(self.settings.alpha_unlabelled, steps, generator),
            permutations(self.settings.batch_size, steps, generator),
        )
        chosen = passes(torch.arange(len(self.negatives)), steps * self.n, generator).view(steps, self.n)
        return *self.first_draws(generator, steps), *unlabelled, chosen

    def set_consistency(self, epoch: int) -> None:
        """W of an epoch of the second phase."""
        self.consistency.fill_(self.settings.consistency if epoch else 0.0)

    def _labelled_loss(self, x: Tensor, weight: Tensor, order: Tensor) -> Tensor:
        logits = self.network(mix(x, x.index_select(0, order), weight))
        return F.binary_cross_entropy_with_logits(logits, mix(self.target, self.target[order], weight))


def inconsistency(logits: Tensor, said: Tensor, order: Tensor, weight: Tensor) -> Tensor:
    """Mean of (σ(f(ũ)) − σ(λ f'(u) + (1 − λ) f'(u')))², from the logits of mixed rows and the teacher's of u."""
    return F.mse_loss(torch.sigmoid(logits), torch.sigmoid(mix(said, said[order], weight)))


def draw_negatives(problem: PUProblem, settings: MixPULSettings) -> Tensor:
    """Random rows of U that are taken for negative, as row numbers."""
    rows = problem.unlabelled
    count = max(1, int(min(settings.negatives * len(problem.positives), settings.negative_share * len(rows))))
    order = torch.randperm(len(rows), generator=problem.drawing("negatives"))[:count]
    return rows[order.to(problem.device)]
