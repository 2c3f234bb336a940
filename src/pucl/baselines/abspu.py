"""absPU (Hammoudeh & Lowd 2020): the unbiased risk with the absolute value of the part of the negatives."""

from torch import Tensor, nn

from pucl.baselines.shared.learning import minimise
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.upu import PRESETS as RISK_PRESETS
from pucl.baselines.upu import RiskSettings
from pucl.registry import register
from pucl.risks import PartialRisks
from pucl.risks.margins import MarginLoss

DEFAULT = RiskSettings()
PRESETS = RISK_PRESETS


def absolute_risk(logits: Tensor, labelled: Tensor, *, prior: float, loss: MarginLoss = "sigmoid") -> Tensor:
    """The unbiased risk with its second part made positive.

        R = π R_P⁺ + |R_U⁻ − π R_P⁻|

    where the R are mean losses, see `pucl.risks.PartialRisks`. Below 0 the gradient of the second part turns round, as
    in nnPU, but that of π R_P⁺ stays.
    """
    parts = PartialRisks.of("risk 'abspu'", logits, labelled, prior=prior, loss=loss, setting="case-control")
    return parts.positive + parts.negative.abs()


@register("baselines", reference="Hammoudeh & Lowd 2020", needs_prior=True)
def abspu(problem: PUProblem, settings: RiskSettings = DEFAULT) -> nn.Module:
    """The unbiased PU risk, corrected by the absolute value of what nnPU keeps from going below 0.

        min_f  π R_P⁺ + |R_U⁻ − π R_P⁻|

    where the R are mean losses of a batch.

    Fidelity: author code (ZaydH/arbitrary_pu), where it is an option of the risks.

    Differs:
        - There it is an option of PURR, which has two unlabelled sets; here it corrects the PU risk of one set.
        - Trained like nnPU, so that only the correction differs between the two.

    Presets: those of uPU.
    """

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        return absolute_risk(logits, labelled, prior=problem.share, loss=settings.loss)

    return minimise(problem, settings, risk)
