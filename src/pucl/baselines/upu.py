"""uPU (du Plessis et al. 2015): a network trained on the unbiased risk."""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from pucl.baselines.shared.learning import minimise
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings, with_networks
from pucl.registry import register
from pucl.risks.margins import MarginLoss
from pucl.risks.upu import upu as unbiased


@dataclass(frozen=True, kw_only=True)
class RiskSettings(Settings):
    """Those of a network trained on a PU risk.

    Attributes:
        loss: a margin loss.
    """

    loss: MarginLoss = "sigmoid"


DEFAULT = RiskSettings(epochs=5)  # few, because it overfits
_CIFAR = RiskSettings(epochs=100, batch_size=500, learning_rate=1e-5, weight_decay=0.005)
_MNIST = replace(_CIFAR, steps=2, batch_size=30_000, learning_rate=1e-3)
PRESETS = with_networks(_CIFAR, mnist=_MNIST, fmnist=_MNIST, alzheimer=replace(_CIFAR, batch_size=64))


@register("baselines", reference="du Plessis et al. 2015; eq:uPU", needs_prior=True)
def upu(problem: PUProblem, settings: RiskSettings = DEFAULT) -> nn.Module:
    """The unbiased PU risk, which a flexible network overfits.

        min_f  π R_P⁺ + R_U⁻ − π R_P⁻

    where the R are mean losses of a batch, see `pucl.risks.upu`. In the single-set setting R_U⁻ and π are those of
    P ∪ U, see `PartialRisks`.

    Fidelity: author code, that of nnPU (kiryor/nnPUlearning), which also runs uPU, with the same settings.

    Differs:
        - Their F-MNIST is not in the code; the preset is that of MNIST with the network of the table.
        - The tables name the networks (7-layer CNN for CIFAR-I and II); the code has the 13-layer CNN.

    Presets: MNIST and F-MNIST Adam 1e-3, 100 epochs of two batches of 30,000; CIFAR Adam 1e-5, 100 epochs of batches of
    500; weight decay 0.005, P and U shuffled together. All others as CIFAR, Alzheimer with batches of 64.
    """
    options = {"loss": settings.loss, **problem.drawn}

    def risk(logits: Tensor, labelled: Tensor) -> Tensor:
        return unbiased(logits, labelled, prior=problem.share, **options)

    return minimise(problem, settings, risk)
