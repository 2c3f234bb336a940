"""Naive with MixUp: every unlabelled row is taken for a negative, and rows are mixed with others."""

from dataclasses import dataclass
from types import MappingProxyType

from torch import Generator, Tensor, nn

from pucl.baselines.naive import PRESETS as NAIVE_PRESETS
from pucl.baselines.naive import label_cross_entropy
from pucl.baselines.shared.learning import Learner, PUBatch, mixed_risk, train
from pucl.baselines.shared.regularisers import beta, permutations
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings
from pucl.errors import check_positive
from pucl.registry import register


@dataclass(frozen=True, kw_only=True)
class NaiveMixUpSettings(Settings):
    """Those of every network, with MixUp.

    Attributes:
        alpha: of λ ~ Beta(α, α), one per step.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(type(self).__name__, "alpha", self.alpha)


DEFAULT = NaiveMixUpSettings()
PRESETS = MappingProxyType({task: NaiveMixUpSettings(**vars(preset)) for task, preset in NAIVE_PRESETS.items()})


@register("baselines", reference="Zhang et al. 2018; eq:disambiguation_free_approach, fig:pupl_lp")
def naive_mixup(problem: PUProblem, settings: NaiveMixUpSettings = DEFAULT) -> nn.Module:
    """Labelled against unlabelled rows, as if those were negative, both mixed with other rows.

        min_f  mean λ CE(σ(f(x̃)), s) + (1 − λ) CE(σ(f(x̃)), s'),    x̃ = λ x + (1 − λ) x',    λ ~ Beta(α, α)

    where x' is another row of the batch and s' its label.

    Fidelity: paper only, which shows it as a head on embeddings.

    Presets: those of naive, with α = 1.
    """
    network = problem.network()
    learner = Learner(network, settings)

    def update(batch: PUBatch) -> Tensor:
        loss = mixed_risk(network, label_cross_entropy, batch)
        learner.descend(loss)
        return loss.detach()

    def draws(generator: Generator, steps: int) -> tuple[Tensor, ...]:
        rows = settings.batch_size + (settings.labelled_batch or 0)
        return beta(settings.alpha, steps, generator), permutations(rows, steps, generator)

    train(problem, settings, update, learner, draws=draws)
    return network
