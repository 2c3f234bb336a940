"""nnPU (Kiryo et al. 2017): the unbiased risk with the part of the negatives kept from going below 0."""

from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor, nn

from pucl.baselines.shared.learning import minimise
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.upu import PRESETS as RISK_PRESETS
from pucl.baselines.upu import RiskSettings
from pucl.registry import register
from pucl.risks.nnpu import nnpu as non_negative


@dataclass(frozen=True, kw_only=True)
class NnPUSettings(RiskSettings):
    """Those of nnPU.

    Attributes:
        beta: how far below 0 the part of the negatives may go.
        gamma: the size of the steps back.
    """

    beta: float = 0.0
    gamma: float = 1.0


DEFAULT = NnPUSettings()
PRESETS = MappingProxyType({task: NnPUSettings(**vars(preset)) for task, preset in RISK_PRESETS.items()})


@register("baselines", reference="Kiryo et al. 2017; eq:nnPU", needs_prior=True)
def nnpu(problem: PUProblem, settings: NnPUSettings = DEFAULT) -> nn.Module:
    """The non-negative PU risk, with the authors' step back where the negatives' part falls below 0.

        min_f  π R_P⁺ + max(−β, R_U⁻ − π R_P⁻)

    where the R are mean losses of a batch; the gradient is −γ ∇(R_U⁻ − π R_P⁻) where that part is below −β, see
    `pucl.risks.nnpu`. In the single-set setting R_U⁻ and π are those of P ∪ U, see `PartialRisks`.

    Fidelity: author code (kiryor/nnPUlearning).

    Differs:
        - The networks of the tables, as for uPU.

    Presets: those of uPU, with β = 0 and γ = 1.
    """
    options = {"loss": settings.loss, "beta": settings.beta, "gamma": settings.gamma, **problem.drawn}

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        return non_negative(logits, labelled, prior=problem.share, **options)

    return minimise(problem, settings, risk)
