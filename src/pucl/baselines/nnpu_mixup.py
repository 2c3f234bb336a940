"""nnPU with MixUp: the non-negative risk of mixed rows."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from pucl.baselines.nnpu import PRESETS as NNPU_PRESETS
from pucl.baselines.nnpu import NnPUSettings
from pucl.baselines.shared.learning import Learner, PUBatch, mixed_risk, train
from pucl.baselines.shared.regularisers import beta, mix, permutations
from pucl.baselines.shared.training_problem import PUProblem
from pucl.errors import check_positive, unknown_name
from pucl.registry import register
from pucl.risks.nnpu import nnpu as non_negative

Pairs = Literal["apart", "across"]
PAIRS = ("apart", "across")


@dataclass(frozen=True, kw_only=True)
class MixUpSettings(NnPUSettings):
    """Those of nnPU with MixUp.

    Attributes:
        alpha: of λ ~ Beta(α, α), one per step.
        pairs: "apart" mixes P with P and U with U; "across" mixes any two rows of a batch.
    """

    alpha: float = 1.0
    pairs: Pairs = "apart"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(type(self).__name__, "alpha", self.alpha)
        if self.pairs not in PAIRS:
            raise unknown_name("pairs", self.pairs, PAIRS)


DEFAULT = MixUpSettings()
PRESETS = MappingProxyType({task: MixUpSettings(**vars(preset)) for task, preset in NNPU_PRESETS.items()})


@register("baselines", reference="Kiryo et al. 2017; Zhang et al. 2018; sec:add_exp", needs_prior=True)
def nnpu_mixup(problem: PUProblem, settings: MixUpSettings = DEFAULT) -> nn.Module:
    """The non-negative PU risk of rows mixed with others.

        min_f  R(f(x̃), s),    x̃ = λ x + (1 − λ) x',    λ ~ Beta(α, α)

    where R is the risk of nnPU and x' a random row with the label of x, so that labels need no mixing. With
    ``pairs="across"`` x' is any row of the batch, and the loss is λ R(f(x̃), s) + (1 − λ) R(f(x̃), s').

    Fidelity: paper only; the paper says of this row of its tables that P and U are mixed separately.

    Differs:
        - The paper's released code mixes embeddings of a frozen encoder instead of inputs, P with U (as "across" does),
          and uses cross-entropy in place of the sigmoid loss. Here the network is trained end to end on mixed inputs,
          as for the other rows of the table.
        - x' is drawn from all rows with the same label, not from the batch, which has few labelled ones.

    Presets: those of nnPU, with α = 1 as in the released code.
    """
    network = problem.network()
    learner, prior, kinds = Learner(network, settings), problem.share, (problem.positives, problem.unlabelled)

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        options = {"loss": settings.loss, "beta": settings.beta, "gamma": settings.gamma}
        return non_negative(logits, labelled, prior=prior, **options)  # type: ignore[arg-type]

    def apart(batch: PUBatch) -> Tensor:
        partner = alike(batch.labelled, *kinds, problem.generator)
        mixed = mix(batch.x, problem.x.index_select(0, partner), batch.draws[0])
        return risk(network(mixed), batch.labelled)

    def update(batch: PUBatch) -> Tensor:
        loss = apart(batch) if settings.pairs == "apart" else mixed_risk(network, risk, batch)
        learner.descend(loss)
        return loss.detach()

    def draws(generator: Generator, steps: int) -> tuple[Tensor, ...]:
        weight = beta(settings.alpha, steps, generator)
        if settings.pairs == "apart":
            return (weight,)
        return weight, permutations(settings.batch_size + (settings.labelled_batch or 0), steps, generator)

    train(problem, settings, update, learner, draws=draws)
    return network


def alike(labelled: Tensor, positives: Tensor, unlabelled: Tensor, generator: Generator) -> Tensor:
    """For every row of a batch the number of a random row with the same label."""
    of_labelled, of_unlabelled = (
        rows[torch.randint(len(rows), labelled.shape, generator=generator, device=rows.device)]
        for rows in (positives, unlabelled)
    )
    return torch.where(labelled, of_labelled, of_unlabelled)
